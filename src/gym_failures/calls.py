"""One call to another server, as the adapter of a client library sees it: what failed, and what the reply reports.

A failed attempt is one event. Where the reply brings a report, the remote failure is that event; where it brings none,
the status or the exception is. What the library or an SDK then raises from the same reply is the same failure.
"""

from collections.abc import Mapping
from typing import Any, Final

from opentelemetry import context as otel_context
from opentelemetry import trace
from opentelemetry.trace import Span

from gym_failures import limits, selfmetrics, semconv
from gym_failures.accepted import NOBODY, host_of
from gym_failures.carried import mark_for, remember
from gym_failures.classify import kind_of_reply
from gym_failures.guard import Guard, warn_once
from gym_failures.header import decode_reports
from gym_failures.ids import new_id
from gym_failures.kinds import FailureBoundary
from gym_failures.log import FailureLog, log_here, log_of
from gym_failures.marks import REMOTE, Mark, mark_of
from gym_failures.operations import Attempt, Operation, current_operation
from gym_failures.propagation import header_values
from gym_failures.recorder import FailureRecorder, say_omitted
from gym_failures.recording import current
from gym_failures.records import FailureEvent, FailureReport, ModelFailureDetails
from gym_failures.shapes import lenient_event
from gym_failures.streams import StreamWatch
from gym_failures.text import clean, cut
from gym_failures.waiting import look

_CALL: Final = Guard("client_call")

# Statuses that say of themselves that the call failed. Another 4xx is often an answer, as in polling for what is not
# there yet; it becomes a failure when an exception made of it leaves a boundary.
_FAILED: Final = frozenset({401, 403, 408, 429})

_REQUEST_IDS: Final = ("x-request-id", "request-id")
"""Headers by which providers name a request, as OpenAI and Anthropic document them."""

_NOT_BELIEVED: Final = (
    "the failure report in a reply of %s is not believed; if it should be, add that host to GYM_FAILURES_ACCEPT_FROM"
)

_SUPPRESSED: Final = (
    otel_context._SUPPRESS_INSTRUMENTATION_KEY,  # noqa: SLF001 - what OpenTelemetry's own instrumentation asks
    otel_context._SUPPRESS_HTTP_INSTRUMENTATION_KEY,  # noqa: SLF001 - as above
)


class Call:
    """One call, in one attempt or in as many as the library makes by itself. Nothing here raises."""

    __slots__ = ("_boundary", "_holder", "_log", "_number", "_operation", "_outside", "_recorder")

    def __init__(self, boundary: FailureBoundary, recorder: FailureRecorder | None) -> None:
        """Begin the first attempt, of the operation outside or of one of its own.

        Outside of a request, failures are observed at `boundary` and written by `recorder` (None: the process's own).
        """
        self._boundary = boundary
        self._recorder = recorder
        # What stands for the request is asked for its log when there is something to put into it.
        self._holder = current.get()
        self._log: FailureLog | None = None
        self._outside = trace.get_current_span() if self._holder is None else None
        self._operation = current_operation()
        self._number = 0 if self._operation is None else self._operation.begin_attempt()
        if self._operation is not None and self._operation.attempts > 1:
            look()

    def again(self) -> None:
        """Begin another attempt."""
        self._current_attempt()
        if self._operation is not None:
            self._number = self._operation.begin_attempt()
        look()

    @property
    def span(self) -> Span:
        """The span for what comes after the call's own: the request's, or outside of one that in which it began."""
        return self._log_of_call().span if self._outside is None else self._outside

    def failed(self, error: BaseException, *, span: Span | None = None) -> None:
        """Record the exception that ended an attempt, on `span` (None: the current one).

        A cancelled call is no failure: whoever cancelled it says what it means. Neither is an error that a stream broke
        with after the report had said why.
        """
        with _CALL:
            mark = mark_of(error)
            if isinstance(error, Exception) and not (mark and mark.owner == REMOTE) and not _is_suppressed():
                self._log_of_call().observe_failure(error, attempt=self._current_attempt(), span=span)

    def replied(self, status: int, headers: Any, url: object, *parts: object) -> Mark | None:  # noqa: ANN401 - multi-dicts
        """Record what a reply reports or, without a report, that its status is a failure, on the current span.

        `url` is where the reply came from, `headers` a multi-dict whose names match in any case. An exception that
        holds one of `parts` of the reply will stand for the same failure, whose mark is returned; None when the attempt
        did not fail.
        """
        with _CALL:
            failed = status >= limits.SERVER_ERROR_STATUS or status in _FAILED
            # Asked of nearly every reply, and nearly always the end of it.
            if not failed and semconv.HEADER_NAME not in headers:
                return None
            if _is_suppressed():
                return None
            log = self._log_of_call()
            if not log.recorder.config.enabled:
                return None
            report = _believed(header_values(headers), url, log)
            mark = None if report is None else self.reported(report, trace.get_current_span())
            if mark is None and failed:
                event = log.observe_failure(self._status_event(status, headers, log))
                mark = None if event is None else log.mark(event)
            if mark is not None:
                for part in parts:
                    remember(part, mark)
            return mark
        return None

    def reported(self, report: FailureReport, span: Span) -> Mark | None:
        """Record a report as remote on `span`; returns the mark of its own failure, None without one."""
        log = self._log_of_call()
        understood = log.observe_reply(report, span=span)
        if understood is None:
            return None
        if understood.omitted and span is not log.span:
            say_omitted(span)
        return mark_for(understood)

    def watch(self, url: object) -> StreamWatch | None:
        """Return what to show the body of an event stream from `url` to; None when its reports are not believed."""
        with _CALL:
            config = self._log_of_call().recorder.config
            if _is_suppressed() or not (config.enabled and config.accepts(str(url))):
                return None
            span = trace.get_current_span()
            return StreamWatch(lambda report: self.reported(report, span))
        return None

    def _status_event(self, status: int, headers: Any, log: FailureLog) -> FailureEvent:  # noqa: ANN401 - as above
        attempt = self._current_attempt()
        stage = log.stage
        return lenient_event(
            {
                "event_id": new_id(),
                "boundary": log.boundary,
                "failure_kind": kind_of_reply(status, boundary=log.boundary, stage=stage),
                "failure_reason": f"HTTP {status}",
                "stage": stage,
                "operation": log.operation,
                **attempt._asdict(),
                "http_status": status if status <= limits.HTTP_STATUS_MAX else None,
                "details": _details(headers) if log.boundary is FailureBoundary.MODEL else None,
            }
        )

    def _log_of_call(self) -> FailureLog:
        if self._log is None:
            self._log = log_of(self._holder) or log_here(self._boundary, self._recorder)
        return self._log

    def _current_attempt(self) -> Attempt:
        if self._operation is None:
            self._operation = Operation()
            self._number = self._operation.begin_attempt()
        return self._operation.attempt(self._number)


def _believed(values: list[object], url: object, log: FailureLog) -> FailureReport | None:
    """Return the report of these header values, if they hold one and the peer at `url` is believed."""
    if not values:
        return None
    if not log.believes(str(url), values):
        selfmetrics.dropped(selfmetrics.Loss.UNTRUSTED_PEER)
        if log.recorder.config.accept_from != NOBODY:
            warn_once("untrusted_peer", _NOT_BELIEVED, host_of(str(url)))
        return None
    return decode_reports(values)


def _details(headers: Mapping[str, Any]) -> ModelFailureDetails | None:
    """Return the id by which the provider knows the request, if the reply names it."""
    for name in _REQUEST_IDS:
        value = headers.get(name)
        if isinstance(value, str) and value:
            return ModelFailureDetails(provider_request_id=cut(clean(value), limits.NAME_LENGTH))
    return None


def _is_suppressed() -> bool:
    """Tell whether OpenTelemetry's own machinery is calling, such as an exporter."""
    return any(otel_context.get_value(key) for key in _SUPPRESSED)
