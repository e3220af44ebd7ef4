"""How code says that something failed: `record_failure` and `observe`.

Both go through the log of the current request where there is one, so that the failure reaches the caller too; else they
write directly.
"""

import functools
import inspect
import itertools
from collections.abc import Callable
from contextvars import ContextVar
from types import TracebackType
from typing import Any, Final, ParamSpec, Protocol, Self, TypeVar

from opentelemetry import trace
from opentelemetry.trace import Span

from gym_failures import selfmetrics
from gym_failures.carried import carried_by
from gym_failures.chain import failures_of
from gym_failures.guard import Guard
from gym_failures.kinds import FailureBoundary, FailureStage
from gym_failures.looking import is_really, look
from gym_failures.marks import UNTRACED, drop_mark, mark_of, owner_in_trace
from gym_failures.privacy import canonical
from gym_failures.recorder import FailureRecorder, default_recorder, say_omitted, set_default_recorder
from gym_failures.records import FailureEvent

__all__ = ["FailureRecorder", "default_recorder", "observe", "record_failure", "set_default_recorder"]

_RECORD: Final = Guard("record")
_OBSERVE: Final = Guard("observe")

_numbers: Final = itertools.count()
"""Tells whether a block of `observe` began before or after something was recorded; no lock is needed."""

_P = ParamSpec("_P")
_R = TypeVar("_R")


class CurrentLog(Protocol):
    """What recording needs of the log of the current request."""

    @property
    def span(self) -> Span:
        """The span that stands for the request."""

    @property
    def recorder(self) -> FailureRecorder:
        """What the log writes with."""

    def observe_failure(
        self,
        failure: BaseException | FailureEvent,
        *,
        boundary: FailureBoundary | str | None = None,
        stage: FailureStage | str | None = None,
        operation: str | None = None,
        span: Span | None = None,
    ) -> FailureEvent | None: ...


current: Final[ContextVar[CurrentLog | None]] = ContextVar("gym_failures_log", default=None)
"""The log of the request that this code works for; set by `log.FailureLog`, read through `log.current_log`."""


def record_failure(
    failure: BaseException | FailureEvent,
    *,
    boundary: FailureBoundary | str | None = None,
    stage: FailureStage | str | None = None,
    operation: str | None = None,
    span: Span | None = None,
) -> FailureEvent | None:
    """Record a failure once and return its event; never raises.

    `failure` is an exception or a finished event. `boundary` is where it was observed; None takes that of the request's
    log, or of the failure itself. `stage` and `operation` say more of an exception; None takes those of the request.
    The event goes on `span` (None: the current one). Returns None when there is nothing to record: the package is
    switched off, or a foreign exception was given and no boundary is known. A stage that does not exist is warned about
    and left out; for a boundary that does not exist there is a warning and no record.

    An exception remembers that it was recorded. A finished event does not: a request's log knows its id, but outside of
    one each call records it.
    """
    log = current.get()
    if log is not None:
        return log.observe_failure(failure, boundary=boundary, stage=stage, operation=operation, span=span)
    try:
        recorder = default_recorder()
        if not recorder.config.enabled:
            return None
        where = trace.get_current_span() if span is None else span
        if isinstance(failure, BaseException):
            return _record_exception(failure, boundary, stage, operation, where)
        if where.is_recording() or not recorder.count_in_silence(failure, where):
            failure = canonical(failure, recorder.config)
            recorder.write(failure, span=where)
    except Exception as error:  # noqa: BLE001 - a block of the guard costs too much where all goes well
        _RECORD.report(error)
        return None
    return failure


def _record_exception(
    error: BaseException,
    boundary: FailureBoundary | str | None,
    stage: FailureStage | str | None,
    operation: str | None,
    span: Span,
) -> FailureEvent | None:
    recorder = default_recorder()
    owner = owner_of(span)
    found = failures_of(
        error,
        boundary=None if boundary is None else FailureBoundary(boundary),
        stage=stage,
        operation=operation,
        rules=recorder.config.rules,
        carried=functools.partial(carried_by, believes=lambda url, _: recorder.config.accepts(url)),
        owner=owner,
    )
    if found.omitted:
        _leave_out(found.dropped, span)
    clean: dict[str, FailureEvent] = {}
    for mark in found.fresh:
        event = canonical(mark.events[0], recorder.config)
        clean[mark.events[0].event_id] = event
        mark.events = tuple(clean.get(one.event_id, one) for one in mark.events)
        mark.owner = owner
        mark.number = next(_numbers) if owner == UNTRACED else None
        recorder.write(event, span=span)
    return None if found.own is None else clean.get(found.own.event_id, found.own)


def _leave_out(dropped: int, span: Span) -> None:
    """Say on `span` that failures are missing, and count those that a bound here left out."""
    say_omitted(span)
    if dropped:
        selfmetrics.dropped(selfmetrics.Loss.CAUSES, dropped)


def _drop_mark_of_before(error: BaseException, boundary: FailureBoundary, number: int, span: Span) -> None:
    """Let an exception that was recorded before a block began be a new failure of the block.

    With neither a log nor a trace, nothing else tells an exception that a module makes once and raises again and again
    from one that is on its way out: that one meets only blocks that began before.
    """
    mark = mark_of(error)
    if mark is None or mark.number is None or mark.number > number or mark.owner != owner_of(span):
        return
    if any(event.boundary is boundary for event in mark.events):  # else it is what this block's failure comes of
        drop_mark(error)


def is_a_normal_end(error: BaseException) -> bool:
    """Tell whether nothing has failed when `error` leaves a block: an iterator, or the program, came to its end."""
    if is_really(error, SystemExit):
        return look(lambda: error.code is None or bool(error.code == 0)) is True
    return issubclass(type(error), GeneratorExit | StopIteration | StopAsyncIteration)


def owner_of(span: Span) -> str:
    """Return the token of marks that are left where there is no log: one for all that happens in the span's trace."""
    context = span.get_span_context()
    return owner_in_trace(context.trace_id) if context.is_valid else UNTRACED


class Block:
    """A block of code that `async with` opens as `with` does."""

    __slots__ = ()

    def __enter__(self) -> Self:
        """Begin the block."""
        raise NotImplementedError

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """End it."""
        raise NotImplementedError

    async def __aenter__(self) -> Self:
        """Begin as with `with`; nothing is awaited."""
        return self.__enter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """End as with `with`."""
        self.__exit__(kind, error, traceback)


class observe(Block):  # noqa: N801 - used as a function, like contextlib's own
    """Record an exception that leaves the block or the decorated function, and let it go on unchanged.

    Works as a context manager, by `with` and by `async with`, and as a decorator of functions and coroutine functions.
    The failure is recorded once at `boundary`; an exception that already is a failure of this boundary adds nothing.
    The span that is current at entry gets the summary of the failure, unless it is the request's own span, whose
    outcome the request's log decides.
    """

    __slots__ = ("_boundary", "_number", "_operation", "_span", "_span_name", "_stage", "_started")

    def __init__(
        self,
        boundary: FailureBoundary | str,
        *,
        stage: FailureStage | str | None = None,
        operation: str | None = None,
        span_name: str | None = None,
    ) -> None:
        """Name the boundary; `span_name` is that of a span to open around the block, None opens none.

        Raises ValueError for a boundary or a stage that does not exist.
        """
        self._boundary = FailureBoundary(boundary)
        self._stage = None if stage is None else FailureStage(stage)
        self._operation = operation
        self._span_name = span_name
        self._started: Any = None
        self._number = 0
        self._span: Span = trace.INVALID_SPAN

    def __enter__(self) -> Self:
        """Remember the current span, or open one."""
        if self._span_name is not None:
            with _OBSERVE:
                recorder = self._recorder()
                if recorder.config.enabled:
                    self._started = recorder.tracer.start_as_current_span(
                        self._span_name, record_exception=False, set_status_on_exception=False
                    )
                    self._started.__enter__()
        self._span = trace.get_current_span()
        self._number = next(_numbers)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Record `error`, if there is one and it is more than the normal end of a generator or an iterator."""
        if error is not None and not is_a_normal_end(error):
            with _OBSERVE:
                self._observe(error)
        if self._started is not None:
            with _OBSERVE:
                self._started.__exit__(kind, error, traceback)

    def _observe(self, error: BaseException) -> None:
        log = current.get()
        if log is None:
            _drop_mark_of_before(error, self._boundary, self._number, self._span)
        event = record_failure(
            error, boundary=self._boundary, stage=self._stage, operation=self._operation, span=self._span
        )
        if event is not None and (log is None or log.span is not self._span):
            self._recorder().summarize(self._span, event)

    @staticmethod
    def _recorder() -> FailureRecorder:
        log = current.get()
        return default_recorder() if log is None else log.recorder

    def __call__(self, function: Callable[_P, _R]) -> Callable[_P, _R]:
        """Decorate a function or a coroutine function.

        Raises TypeError for generator functions: what runs between their steps is not theirs; observe within them.
        """
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise TypeError(
                "observe() decorates functions and coroutine functions; use `with observe(...)` in generators"
            )
        if inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__):

            @functools.wraps(function)
            async def observed_coroutine(*args: _P.args, **kwargs: _P.kwargs) -> Any:  # noqa: ANN401 - what the coroutine returns
                with self._again():
                    return await function(*args, **kwargs)  # type: ignore[misc]  # a coroutine, as was asked above

            return observed_coroutine  # type: ignore[return-value]  # a coroutine function in, one out

        @functools.wraps(function)
        def observed(*args: _P.args, **kwargs: _P.kwargs) -> _R:
            with self._again():
                return function(*args, **kwargs)

        return observed

    def _again(self) -> "observe":
        """Return a fresh block for one call, because calls can overlap."""
        return observe(self._boundary, stage=self._stage, operation=self._operation, span_name=self._span_name)
