"""How a request observes: what failed here, and what replies say has failed elsewhere, each recorded once."""

import functools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from opentelemetry import trace
from opentelemetry.trace import Span

from gym_failures import semconv
from gym_failures.book import Book
from gym_failures.carried import carried_by
from gym_failures.chain import Failures, failures_of
from gym_failures.guard import Guard
from gym_failures.header import decode_reports
from gym_failures.ids import new_id
from gym_failures.kinds import FailureBoundary, FailureStage
from gym_failures.marks import REMOTE, UNTRACED, Mark, is_of_no_log
from gym_failures.operations import Attempt, current_operation
from gym_failures.privacy import canonical
from gym_failures.propagation import header_values
from gym_failures.recorder import FailureRecorder, default_recorder
from gym_failures.recording import owner_of
from gym_failures.records import FailureEvent, FailureReport
from gym_failures.repair import repair

_LOG: Final = Guard("log")


class Observing:
    """What observes for one request; `log.FailureLog` is it, and decides on top what became of the request.

    No method raises for anything that it is given to observe.
    """

    __slots__ = (
        "_book",
        "_operation",
        "_outer",
        "_owner",
        "_recorder",
        "_shared",
        "_span",
        "_stage",
        "boundary",
    )

    def __init__(  # noqa: PLR0913 - what a request is, and what a test or a server replaces
        self,
        boundary: FailureBoundary | str,
        *,
        stage: FailureStage | str | None,
        operation: str | None,
        recorder: FailureRecorder | None,
        span: Span | None,
        owner: str | None,
    ) -> None:
        # Looking a member up costs as much as all of the rest here.
        self.boundary = boundary if isinstance(boundary, FailureBoundary) else FailureBoundary(boundary)
        self._stage = FailureStage(stage) if isinstance(stage, str) else stage
        self._operation = operation
        self._recorder = recorder or default_recorder()
        self._span = trace.get_current_span() if span is None else span
        self._owner = owner
        self._outer: Observing | None = None
        self._shared: dict[int, tuple[BaseException, FailureEvent]] | None = None
        self._book = Book(self._recorder)

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
    def outermost(self) -> "Observing":
        """What observes around all others of the request; this one, if it is within none."""
        return self if self._outer is None else self._outer.outermost

    @property
    def own(self) -> FailureEvent | None:
        """The failure of the request itself, as far as it is known."""
        return self._book.ledger.own

    @property
    def omitted(self) -> bool:
        """Whether events are missing here, because a bound or a reply left them out."""
        return self._book.ledger.omitted

    @property
    def dropped(self) -> int:
        """Events that a bound left out: of this log, and those were written all the same, or of one exception."""
        return self._book.ledger.dropped

    @property
    def has_failures(self) -> bool:
        """Whether anything was observed, or is known to be missing."""
        ledger = self._book.ledger
        return bool(ledger.events) or ledger.omitted

    # --- Observing ----------------------------------------------------------------------------------------------------

    def observe_failure(  # noqa: PLR0913 - the fields of an event that its observer knows
        self,
        failure: BaseException | FailureEvent,
        *,
        boundary: FailureBoundary | str | None = None,
        stage: FailureStage | str | None = None,
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
            if not isinstance(failure, BaseException):
                return self._book.add(failure, semconv.ORIGIN_LOCAL, span=where, request_span=self.span)
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
            request_span = self.span
            known = (
                self._book.add(event, semconv.ORIGIN_REMOTE, span=where, request_span=request_span)
                for event in report.events.values()
            )
            events = {event.event_id: event for event in known}
            if report.omitted:
                self._book.leave_out()
            failure_id = report.failure_id
            if failure_id is not None and failure_id not in events:
                failure_id = self._canonical_id(report.events.get(failure_id))
            return repair(events, failure_id=failure_id, omitted=report.omitted).report
        return None

    def believes(self, url: str, values: Sequence[object]) -> bool:
        """Tell whether `values` of the report header are believed, in a reply from `url`; if not, `refuse` them."""
        if self._recorder.config.accepts(url):
            return True
        self.refuse(values)
        return False

    def refuse(self, values: Sequence[object]) -> None:
        """Believe these values of the report header not even in the reply to this request, should the app copy them."""
        self.outermost._book.refuse(values)  # noqa: SLF001 - of the same class

    def not_refused(self, values: Sequence[object]) -> Sequence[object]:
        """Return what is left of `values` of the report header, which the app has put on its own reply."""
        refused = self._book.disbelieved
        return values if refused is None else refused.others(values)

    def mark(self, event: FailureEvent) -> Mark:
        """Return what is left on an exception that stands for `event`, which this log has recorded."""
        return Mark((event,), self._token_of_marks())

    def report(self) -> FailureReport:
        """Return everything observed so far, with the own failure if it is decided; always a legal report."""
        own = self.own
        return repair(
            self._book.events(), failure_id=None if own is None else own.event_id, omitted=self.omitted
        ).report

    # --- Within -------------------------------------------------------------------------------------------------------

    def _observe_exception(
        self, error: BaseException, boundary: FailureBoundary, context: Mapping[str, Any], span: Span
    ) -> FailureEvent | None:
        known = None if self._shared is None else self._shared.get(id(error))
        if known is not None and known[0] is error and known[1].boundary is boundary:
            return known[1]
        token = self._token_of_marks()
        found = failures_of(
            error,
            boundary=boundary,
            rules=self._recorder.config.rules,
            carried=functools.partial(carried_by, believes=self.believes),
            owner=token,
            **context,
        )
        if found.omitted:
            self._book.leave_out(found.dropped)
        written = self._add_all(found, token, span)
        own = None if found.own is None else written[found.own.event_id]
        if found.shared and own is not None and not self._book.is_closed:
            self._share({id(error): (error, own)})
        return own

    def _add_all(self, found: Failures, token: str, span: Span) -> dict[str, FailureEvent]:
        """Keep and write what was found; returns the copies that are kept, by id, and makes the marks this log's."""
        fresh = {mark.events[0].event_id for mark in found.fresh}
        holders: dict[str, list[Mark]] = {}
        for mark in found.known:
            for event in mark.events:
                holders.setdefault(event.event_id, []).append(mark)
        written: dict[str, FailureEvent] = {}
        for event in found.events:
            if event.event_id in fresh:
                entry = self._book.add(event, semconv.ORIGIN_LOCAL, span=span, request_span=self.span)
            else:
                entry = self._add_known(event, holders.get(event.event_id, ()), token, span)
            written[event.event_id] = entry
        for mark in found.fresh:
            mark.events = tuple(written.get(event.event_id, event) for event in mark.events)
            mark.owner = token
        for mark in found.known:
            if is_of_no_log(mark.owner) and not is_of_no_log(token):
                mark.owner = token
        return written

    def _add_known(self, event: FailureEvent, marks: Sequence[Mark], token: str, span: Span) -> FailureEvent:
        """Keep an event that was recorded before, and write it if the request's trace does not have it.

        `marks` are those that hold it. One that this process was first to observe is local on one span only, wherever
        else it is told of.
        """
        is_local = all(mark.owner != REMOTE and mark.is_ours for mark in marks)
        request_span = self.span
        # Outside of logs only the failure itself is written, not what it was caused by.
        owners = {m.owner for m in marks if not is_of_no_log(m.owner) or m.events[0].event_id == event.event_id}
        if token in owners or (is_local and owner_of(request_span) in owners - {UNTRACED}):
            return self._book.keep(event, local=is_local)
        if is_local and UNTRACED in owners:
            return self._book.add(event, semconv.ORIGIN_LOCAL, span=span, request_span=request_span, is_counted=True)
        return self._book.add(event, semconv.ORIGIN_REMOTE, span=span, request_span=request_span)

    def _token_of_marks(self) -> str:
        """Return what tells this log's marks from others; nested logs share it, because they are one request."""
        if self._outer is not None:
            return self._outer._token_of_marks()  # noqa: SLF001 - of the same class
        if self._owner is None:
            self._owner = new_id()
        return self._owner

    def _canonical_id(self, event: FailureEvent | None) -> str | None:
        return None if event is None else canonical(event, self._recorder.config).event_id

    def _absorb(self, inner: "Observing") -> None:
        """Take over what an inner log observed; it is on the spans already."""
        self._share(inner._shared or {})  # noqa: SLF001 - of the same class
        self._book.absorb(inner._book)  # noqa: SLF001 - as above

    def _share(self, exceptions: Mapping[int, tuple[BaseException, FailureEvent]]) -> None:
        """Remember what exceptions of other requests are in this one."""
        if self._shared is not None:
            self._shared.update(exceptions)
        elif exceptions:
            self._shared = dict(exceptions)


def _report_in(reply: FailureReport | str | Iterable[Any] | Mapping[str, Any]) -> FailureReport | None:
    if isinstance(reply, FailureReport):
        return reply
    return decode_reports((reply,) if isinstance(reply, str) else header_values(reply))
