"""What one request has observed: its failures, those that replies brought, and which one is its own.

One `FailureLog` stands for one request (or one rollout in a collection client). It is one mutable object that a context
variable points to, so that tasks and threads which copied the context early still write into the same log
(starlette#1081).
"""

import functools
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import Token, copy_context
from types import TracebackType
from typing import Any, Final, ParamSpec, Self, TypeVar

from opentelemetry import trace
from opentelemetry.trace import Span

from gym_failures import limits, semconv
from gym_failures.carried import carried_by
from gym_failures.chain import Carried, failures_of
from gym_failures.classify import default_kind
from gym_failures.guard import Guard
from gym_failures.header import decode_reports
from gym_failures.ids import new_id
from gym_failures.kinds import FailureBoundary, FailureStage
from gym_failures.ledger import Ledger
from gym_failures.marks import Mark
from gym_failures.operations import Attempt, current_operation
from gym_failures.privacy import canonical
from gym_failures.propagation import header_values
from gym_failures.recorder import FailureRecorder, default_recorder
from gym_failures.recording import adopt, current, is_a_normal_end, owner_of
from gym_failures.records import FailureEvent, FailureReport
from gym_failures.repair import repair

_LOG: Final = Guard("log")
_NOTHING: Final = Ledger()

_P = ParamSpec("_P")
_R = TypeVar("_R")


class FailureLog:
    """The failures of one request, at most 512 events, safe in threads.

    As a context manager it is the log of the code within: an exception that leaves the block is its own failure. A log
    inside another one hands its events outward at the end. No method raises for anything that it is given to observe.
    """

    __slots__ = (
        "_kept",
        "_lock",
        "_operation",
        "_outer",
        "_owner",
        "_recorder",
        "_settled",
        "_shared",
        "_span",
        "_span_is_given",
        "_stage",
        "_state",
        "_token",
        "boundary",
    )  # fmt: skip

    _OPEN: Final = 0
    _SEALED: Final = 1
    _CLOSED: Final = 2

    def __init__(  # noqa: PLR0913 - what a request is, and what a test or a server replaces
        self,
        boundary: FailureBoundary | str = FailureBoundary.COLLECTION,
        *,
        stage: FailureStage | str | None = None,
        operation: str | None = None,
        recorder: FailureRecorder | None = None,
        span: Span | None = None,
        outer: "FailureLog | None" = None,
        owner: str | None = None,
    ) -> None:
        """Say where failures are observed and what the request is.

        `operation` names it, as ``<service> <METHOD> <route>``. `recorder` None takes the process's own; `span` None
        takes the span that is current at entry, or now. `owner` is the token of the marks that the log leaves on
        exceptions; None makes one, so that another log's exceptions are told from its own. Raises ValueError for
        a boundary or stage that does not exist.
        """
        # Looking a member up costs as much as all of the rest here.
        self.boundary = boundary if isinstance(boundary, FailureBoundary) else FailureBoundary(boundary)
        self._stage = FailureStage(stage) if isinstance(stage, str) else stage
        self._operation = operation
        self._recorder = recorder or default_recorder()
        self._span = trace.get_current_span() if span is None else span
        self._span_is_given = span is not None
        self._outer = outer
        self._state = self._OPEN
        self._lock = threading.Lock()
        self._kept: Ledger | None = None  # Most requests have nothing to keep.
        self._settled = False
        self._shared: dict[int, tuple[BaseException, FailureEvent]] | None = None
        self._owner = owner
        self._token: Token[Any] | None = None

    @property
    def span(self) -> Span:
        """The span that stands for the request; it gets the summary of the own failure."""
        return self._span

    @property
    def stage(self) -> FailureStage | None:
        """The stage that the request serves, if it is known."""
        return self._stage

    @property
    def recorder(self) -> FailureRecorder:
        """What this log writes with."""
        return self._recorder

    @property
    def operation(self) -> str | None:
        """The name of the request, as far as it is known by now."""
        return self._operation

    @property
    def own(self) -> FailureEvent | None:
        """The failure of the request itself, as far as it is known."""
        return self._ledger.own

    @property
    def omitted(self) -> bool:
        """Whether events are missing here, because a bound or a reply left them out."""
        return self._ledger.omitted

    @property
    def dropped(self) -> int:
        """Events that a bound of this log left out; they are on the spans all the same."""
        return self._ledger.dropped

    @property
    def has_failures(self) -> bool:
        """Whether anything was observed, or is known to be missing."""
        return self._kept is not None and (bool(self._kept.events) or self._kept.omitted)

    # --- Observing ----------------------------------------------------------------------------------------------------

    def observe_failure(  # noqa: PLR0913 - the fields of an event that its observer knows
        self,
        failure: BaseException | FailureEvent,
        *,
        boundary: FailureBoundary | str | None = None,
        stage: FailureStage | None = None,
        operation: str | None = None,
        span: Span | None = None,
        attempt: Attempt | None = None,
    ) -> FailureEvent | None:
        """Record a failure once, on `span` (None: the current one), and return its event.

        `failure` is an exception, whose explicit causes are recorded with it, or a finished event. `boundary`, `stage`
        and `operation` default to those of the log, `attempt` to the last one of the current operation. Returns None
        when the package is switched off.
        """
        with _LOG:
            if not self._recorder.config.enabled:
                return None
            at = self.boundary if boundary is None else FailureBoundary(boundary)
            where = trace.get_current_span() if span is None else span
            if isinstance(failure, FailureEvent):
                return self._add(failure, semconv.ORIGIN_LOCAL, where)
            context: dict[str, Any] = {"stage": stage or self.stage, "operation": operation or self.operation}
            call = attempt or current_operation()
            if call is not None:
                context |= {"operation_id": call.operation_id, "attempt_id": call.attempt_id}
            return self._observe_exception(failure, at, context, where)
        return None

    def observe_reply(
        self, reply: FailureReport | str | Iterable[Any] | Mapping[str, Any], *, span: Span | None = None
    ) -> FailureReport | None:
        """Record what a reply reports, as remote, on `span` (None: the current one).

        `reply` is a report, a header value, or the headers of the reply. Returns the report as it was understood,
        or None when there is none. Whether the peer is believed is for the caller to decide (`Config.accepts`).
        """
        with _LOG:
            if not self._recorder.config.enabled:
                return None
            report = _report_in(reply)
            if report is None:
                return None
            where = trace.get_current_span() if span is None else span
            events = {
                event.event_id: event
                for event in [self._add(event, semconv.ORIGIN_REMOTE, where) for event in report.events.values()]
            }
            self._leave_out(report.omitted)
            failure_id = report.failure_id
            if failure_id is not None and failure_id not in events:
                failure_id = None if failure_id not in report.events else self._canonical_id(report.events[failure_id])
            return repair(events, failure_id=failure_id, omitted=report.omitted).report
        return None

    def mark(self, event: FailureEvent) -> Mark:
        """Return what is left on an exception that stands for `event`, which this log has recorded."""
        return Mark((event,), self._token_of_marks())

    def fail(self, failure: BaseException | FailureEvent) -> FailureEvent | None:
        """Say that this request failed with `failure`, whatever status it answers with; the first call counts."""
        event = self.observe_failure(failure)
        if event is not None and self.own is None:
            self._own(event)
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

    def bind(self, function: Callable[_P, _R]) -> Callable[_P, _R]:
        """Return `function` bound to this log and the current context, for an executor's thread."""
        context = copy_context()
        context.run(current.set, self)

        @functools.wraps(function)
        def bound(*args: _P.args, **kwargs: _P.kwargs) -> _R:
            return context.copy().run(function, *args, **kwargs)

        return bound

    def report(self) -> FailureReport:
        """Return everything observed so far, with the own failure if it is decided; always a legal report."""
        with self._lock:
            events = dict(self._ledger.events)
        own = self.own
        return repair(events, failure_id=None if own is None else own.event_id, omitted=self.omitted).report

    # --- Life ---------------------------------------------------------------------------------------------------------

    def seal(self) -> None:
        """Say that the reply's header is written: what is recorded from now on is marked late."""
        if self._state == self._OPEN:
            self._state = self._SEALED

    def close(self) -> None:
        """End the log: what is recorded from now on goes on short spans of its own and is kept nowhere."""
        self._state = self._CLOSED
        self._shared = None

    @contextmanager
    def activate(self) -> Iterator[Self]:
        """Make this the current log within the block, and nothing more: no failure is recorded at its end."""
        token = current.set(self)
        try:
            yield self
        finally:
            _reset(token)

    def __enter__(self) -> Self:
        """Make this the current log, and take the current span as the request's unless one was given."""
        self._outer = current_log()
        if not self._span_is_given:
            self._span = trace.get_current_span()
        self._token = current.set(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Settle with the exception that leaves, hand the events to the log outside, and close."""
        if self._token is not None:
            _reset(self._token)
            self._token = None
        self.settle(None if error is None or is_a_normal_end(error) else error)
        if self._outer is not None:
            with _LOG:
                self._outer._absorb(self)  # noqa: SLF001 - of the same class
        self.close()

    # --- Within -------------------------------------------------------------------------------------------------------

    def _observe_exception(
        self, error: BaseException, boundary: FailureBoundary, context: Mapping[str, Any], span: Span
    ) -> FailureEvent | None:
        known = None if self._shared is None else self._shared.get(id(error))
        if known is not None and known[0] is error and known[1].boundary is boundary:
            return known[1]
        adopt(error, self._token_of_marks())
        found = failures_of(
            error,
            boundary=boundary,
            rules=self._recorder.config.rules,
            carried=self._carried,
            owner=self._token_of_marks(),
            **context,
        )
        self._leave_out(found.omitted)
        fresh = {mark.events[0].event_id for mark in found.fresh}
        written: dict[str, FailureEvent] = {}
        for event in found.events:
            origin = semconv.ORIGIN_LOCAL if event.event_id in fresh else semconv.ORIGIN_REMOTE
            written[event.event_id] = self._add(event, origin, span)
        for mark in found.fresh:
            self._own_mark(mark, written)
        own = None if found.own is None else written[found.own.event_id]
        if found.shared and own is not None and self._state != self._CLOSED:
            self._share({id(error): (error, own)})
        return own

    def _carried(self, error: BaseException) -> Carried | None:
        return carried_by(error, self._recorder.config.accepts)

    def _own_mark(self, mark: Mark, written: Mapping[str, FailureEvent]) -> None:
        mark.events = tuple(written.get(event.event_id, event) for event in mark.events)
        mark.owner = self._token_of_marks()

    def _token_of_marks(self) -> str:
        """Return what tells this log's marks from others; nested logs share it, because they are one request."""
        if self._outer is not None:
            return self._outer._token_of_marks()  # noqa: SLF001 - of the same class
        if self._owner is None:
            self._owner = new_id()
        return self._owner

    def _canonical_id(self, event: FailureEvent) -> str:
        return canonical(event, self._recorder.config).event_id

    def _add(self, event: FailureEvent, origin: str, span: Span) -> FailureEvent:
        """Keep and write an event unless its id is known; returns the first copy of that id."""
        event = canonical(event, self._recorder.config)
        with self._lock:
            known = self._known(event.event_id)
            if known is not None:
                return known
            if self._state != self._CLOSED:
                self._writable().keep(event, local=origin == semconv.ORIGIN_LOCAL)
        self._recorder.write(
            event,
            origin=origin,
            span=None if self._state == self._CLOSED else span,
            request_span=self.span,
            late=self._state != self._OPEN,
        )
        return event

    def _known(self, event_id: str) -> FailureEvent | None:
        found = self._ledger.events.get(event_id)
        if found is None and self._outer is not None:
            return self._outer._known(event_id)  # noqa: SLF001 - of the same class
        return found

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
            self._own(own)
            # A log within another one may have no span of its own: the outer one decides what becomes of the request.
            if self._outer is None or self._outer.span is not self.span:
                self._recorder.summarize(self.span, own, omitted=self.omitted)
            if self._outer is None:  # else it is one part of a request
                self._recorder.request_failed(own)
        elif self.omitted and self.span.is_recording():
            self.span.set_attribute(semconv.FAILURE_OMITTED, True)  # noqa: FBT003 - OpenTelemetry's signature
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

    def _absorb(self, inner: "FailureLog") -> None:
        """Take over what an inner log kept; it is on the spans already."""
        found = inner._kept  # noqa: SLF001 - of the same class
        self._share(inner._shared or {})  # noqa: SLF001 - of the same class
        if found is None:
            return
        with inner._lock:  # noqa: SLF001 - of the same class; its threads may still be recording
            events, local = dict(found.events), set(found.local)
        with self._lock:
            kept = self._writable()
            if self._state != self._CLOSED:
                for event_id, event in events.items():
                    if event_id not in kept.events:
                        kept.keep(event, local=event_id in local)
            kept.omitted = kept.omitted or found.omitted
            kept.dropped += found.dropped

    @property
    def _ledger(self) -> Ledger:
        """What was kept, to look at."""
        return _NOTHING if self._kept is None else self._kept

    def _writable(self) -> Ledger:
        """Return what was kept, to add to; only under the lock."""
        if self._kept is None:
            self._kept = Ledger()
        return self._kept

    def _own(self, event: FailureEvent) -> None:
        with self._lock:
            self._writable().own = event

    def _leave_out(self, omitted: bool) -> None:  # noqa: FBT001 - what another part says
        if omitted:
            with self._lock:
                self._writable().omitted = True

    def _share(self, exceptions: Mapping[int, tuple[BaseException, FailureEvent]]) -> None:
        """Remember what exceptions of other requests are in this one."""
        if self._shared is not None:
            self._shared.update(exceptions)
        elif exceptions:
            self._shared = dict(exceptions)


def _reset(token: Token[Any]) -> None:
    """Take back what was made current; where another context ends the block, there is nothing to take back.

    So does the task that closes an async generator, and the thread that ends a dependency of FastAPI.
    """
    with suppress(ValueError):
        current.reset(token)


def _report_in(reply: FailureReport | str | Iterable[Any] | Mapping[str, Any]) -> FailureReport | None:
    if isinstance(reply, FailureReport):
        return reply
    return decode_reports((reply,) if isinstance(reply, str) else header_values(reply))


def current_log() -> FailureLog | None:
    """Return the log of the request that this code works for, or None outside of one."""
    found = current.get()
    # What is no log makes one when it is asked for, as a request does in which nothing has failed so far.
    log = found if isinstance(found, FailureLog) else getattr(found, "log", None)
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
