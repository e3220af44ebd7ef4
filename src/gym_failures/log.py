"""What one request has observed, and which failure is its own.

One `FailureLog` stands for one request (or one rollout in a collection client). It is one mutable object that a context
variable points to, so that tasks and threads which copied the context early still write into the same log
(starlette#1081).
"""

import functools
import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import Token, copy_context
from types import TracebackType
from typing import Any, Final, ParamSpec, Self, TypeVar

from opentelemetry import trace
from opentelemetry.trace import Span

from gym_failures import limits
from gym_failures.classify import default_kind
from gym_failures.guard import Guard
from gym_failures.ids import new_id
from gym_failures.kinds import FailureBoundary, FailureStage
from gym_failures.observing import Observing
from gym_failures.recorder import FailureRecorder, say_omitted
from gym_failures.recording import Block, CurrentLog, current, is_a_normal_end, owner_of
from gym_failures.records import FailureEvent

__all__ = ["FailureLog", "current_log"]

_LOG: Final = Guard("log")

_P = ParamSpec("_P")
_R = TypeVar("_R")

_LATER: Final = (inspect.iscoroutinefunction, inspect.isgeneratorfunction, inspect.isasyncgenfunction)
"""What tells that the code of a function does not run when it is called."""


class FailureLog(Observing, Block):
    """The failures of one request, at most 512 events, safe in threads.

    As a context manager, once, by `with` or `async with`, it is the log of the code within: an exception that leaves is
    its own failure. A log inside another one hands its events outward at the end. No method raises for anything that it
    is given to observe.
    """

    __slots__ = ("__weakref__", "_settled", "_span_is_given", "_token", "_was_entered")

    def __init__(  # noqa: PLR0913 - what a request is, and what a test or a server replaces
        self,
        boundary: FailureBoundary | str = FailureBoundary.COLLECTION,
        *,
        stage: FailureStage | str | None = None,
        operation: str | None = None,
        recorder: FailureRecorder | None = None,
        span: Span | None = None,
        owner: str | None = None,
    ) -> None:
        """Say where failures are observed and what the request is.

        `operation` names it, as ``<service> <METHOD> <route>``. `recorder` None takes the process's own; `span` None
        takes the span that is current at entry, or now. `owner` is the token of the marks that the log leaves on
        exceptions; None makes one, so that another log's exceptions are told from its own. Raises ValueError for
        a boundary or stage that does not exist.
        """
        super().__init__(boundary, stage=stage, operation=operation, recorder=recorder, span=span, owner=owner)
        self._span_is_given = span is not None
        self._settled = False
        self._was_entered = False
        self._token: Token[Any] | None = None

    # --- The own failure ----------------------------------------------------------------------------------------------

    def fail(self, failure: BaseException | FailureEvent) -> FailureEvent | None:
        """Say that this request failed with `failure`, whatever status it answers with; the first call counts."""
        event = self.observe_failure(failure)
        if event is not None and self.own is None:
            self._book.own(event)
        return event

    def settle(
        self, error: BaseException | None = None, *, status: int | None = None, relayed_id: str | None = None
    ) -> FailureEvent | None:
        """Decide the request's own failure, once, and say it on the request's span; returns it, or None.

        The first that holds: `error`, the exception that left the handler; what `fail` was called with; a `status` of
        500 or more, a new failure whose cause is `relayed_id`, the own failure of the report that was relayed.
        """
        with _LOG:
            return self._settle(error, status, relayed_id)
        return None

    def _settle(self, error: BaseException | None, status: int | None, relayed_id: str | None) -> FailureEvent | None:
        if self._settled:
            return self.own
        own: FailureEvent | None = None
        if error is not None:
            own = self.observe_failure(error, span=self.span)
        own = own or self.own
        if own is None and status is not None and status >= limits.SERVER_ERROR_STATUS:
            own = self.observe_failure(self._status_event(status, relayed_id), span=self.span)
        if own is not None:
            self._settled = True
            self._book.own(own)
            self._book.carry_chain(self.span)
            # A log within another one may have no span of its own: the outer one decides what becomes of the request.
            if self._outer is None or self._outer.span is not self.span:
                self._recorder.summarize(self.span, own, omitted=self.omitted)
            if self._outer is None:  # else it is one part of a request
                self._recorder.request_failed(own)
        elif self.omitted:
            say_omitted(self.span)
        return own

    def _status_event(self, status: int, relayed_id: str | None) -> FailureEvent:
        return FailureEvent(
            event_id=new_id(),
            boundary=self.boundary,
            failure_kind=default_kind(self.boundary, self.stage),
            stage=self.stage,
            operation=self.operation,
            http_status=status if status <= limits.HTTP_STATUS_MAX else None,
            cause_id=relayed_id,
        )

    # --- Life ---------------------------------------------------------------------------------------------------------

    def seal(self) -> None:
        """Say that the reply's header is written: what is recorded from now on is marked late."""
        self._book.seal()

    def nest(self, outer: "FailureLog | None") -> None:
        """Make this a log within `outer`, which gets the events at the end; None takes it for a log of its own.

        To be called before anything is observed. Entering the block does it, with the log that is current there.
        """
        self._outer = outer
        self._book.outer = None if outer is None else outer._book  # noqa: SLF001 - of the same class

    def close(self) -> None:
        """End the log, and hand its events to the log outside.

        What is recorded from now on goes on short spans of its own and is kept nowhere.
        """
        if self._outer is not None and not self._book.is_closed:
            with _LOG:
                self._outer._absorb(self)  # noqa: SLF001 - of the same class
        self._book.close()
        self._shared = None

    def bind(self, function: Callable[_P, _R]) -> Callable[_P, _R]:
        """Return `function` bound to this log and the current context, for an executor's thread.

        Raises TypeError for a coroutine function or a generator function, whose code would run outside of both: a task
        has the context in which it was made, and elsewhere ``with log.activate():`` within the function does it.
        """
        if any(is_one(function) for is_one in _LATER) or inspect.iscoroutinefunction(type(function).__call__):
            raise TypeError("bind() takes functions that run when they are called; use `with log.activate():` within")
        context = copy_context()
        context.run(current.set, self)

        @functools.wraps(function)
        def bound(*args: _P.args, **kwargs: _P.kwargs) -> _R:
            return context.copy().run(function, *args, **kwargs)

        return bound

    @contextmanager
    def activate(self) -> Iterator[Self]:
        """Make this the current log within the block, and nothing more: no failure is recorded at its end."""
        token = current.set(self)
        try:
            yield self
        finally:
            _reset(token)

    def __enter__(self) -> Self:
        """Make this the current log, and take the current span as the request's unless one was given.

        Raises RuntimeError for a log that has been entered, or closed, before: it is one request's, from its beginning
        to its end. `activate` makes a log current any number of times.
        """
        outer = current_log()
        if self._was_entered or self._book.is_closed or outer is self:
            raise RuntimeError(
                "a FailureLog is one block, which is entered once; use activate() to make it current again"
            )
        self._was_entered = True
        self.nest(outer)
        if not self._span_is_given:
            self._span = trace.get_current_span()
        self._token = current.set(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Settle with the exception that leaves, and close."""
        if self._token is not None:
            _reset(self._token)
            self._token = None
        self.settle(None if error is None or is_a_normal_end(error) else error)
        self.close()


def _reset(token: Token[Any]) -> None:
    """Take back what was made current; where another context ends the block, there is nothing to take back.

    So does the task that closes an async generator, and the thread that ends a dependency of FastAPI.
    """
    with suppress(ValueError):
        current.reset(token)


def current_log() -> FailureLog | None:
    """Return the log of the request that this code works for, or None outside of one."""
    return log_of(current.get())


def log_of(holder: CurrentLog | None) -> FailureLog | None:
    """Return the log that stands for a request; what is none makes one, as where nothing has failed so far."""
    log = holder if isinstance(holder, FailureLog) else getattr(holder, "log", None)
    return log if isinstance(log, FailureLog) else None


def log_here(
    boundary: FailureBoundary = FailureBoundary.COLLECTION, recorder: FailureRecorder | None = None
) -> FailureLog:
    """Return the log of the request that this code works for, or outside of one a new log that nobody else has.

    What the new one observes, at `boundary` with `recorder` (None: the process's own), is on the current span and
    counted, and an exception that it marks is known to `record_failure` in the same trace.
    """
    log = current_log()
    if log is not None:
        return log
    span = trace.get_current_span()
    return FailureLog(boundary, recorder=recorder, span=span, owner=owner_of(span))
