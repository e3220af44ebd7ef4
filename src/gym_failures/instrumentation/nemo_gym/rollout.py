"""One rollout of a collection client: its span and its log, and what its row needs in addition."""

import asyncio
import functools
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, Final

from opentelemetry.trace import Span

from gym_failures import kinds, rows, semconv, waiting
from gym_failures.guard import Guard
from gym_failures.ids import new_id
from gym_failures.instrumentation.asgi.request_log import RequestLog
from gym_failures.instrumentation.nemo_gym import identity, prepare
from gym_failures.instrumentation.nemo_gym.identity import value_of
from gym_failures.kinds import FailureBoundary
from gym_failures.log import FailureLog
from gym_failures.recorder import default_recorder
from gym_failures.recording import current
from gym_failures.records import FailureEvent
from gym_failures.replies import report_of
from gym_failures.shapes import lenient_event
from gym_failures.text import type_name

_GUARD: Final = Guard("nemo_gym_rollout")

_OPERATION: Final = "POST /run"

# NeMo Gym takes these for answers of something in front of the environment server, and of no other status is it sure
# that the rollout did not run (`rollout_collection._agent_request_failure_row`).
_DID_NOT_RUN: Final = frozenset({429, 502, 503, 504})


class Rollout:
    """One rollout: its span, its log, the reply, and the row that comes of it."""

    __slots__ = ("_keys", "_task", "_watched", "error", "log", "outer", "response", "span")

    def __init__(self, span: Span, log: FailureLog, outer: FailureLog | None) -> None:
        """Begin; `span` and `log` are this rollout's own, `outer` is the log that the caller has around it."""
        self.span = span
        self.log = log
        self.outer = outer
        self.response: Any = None
        self.error: BaseException | None = None
        """What the call, or the reading of its reply, ended with; where no row is made of it."""
        self._keys: rows.Row | None = None
        self._watched = waiting.begin()
        self._task = asyncio.current_task()
        if self._task is not None:
            self._task.add_done_callback(self._abandon)

    def succeed(self, result: object) -> rows.Row:
        """End with the result of the run, and return what its row needs in addition."""
        return self._end(functools.partial(self._own_of_result, result))

    def fail(self, error: BaseException, row: object = None) -> rows.Row:
        """End with an error, of which NeMo Gym made `row` (None: no row), and return what that needs in addition."""
        return self._end(functools.partial(self._own_of_error, error, row))

    def leave(self) -> None:
        """End as far as it is known, when nothing more will be."""
        error = self.error
        if error is None:
            self.succeed(None)
        else:
            self.fail(error)

    def _abandon(self, task: "asyncio.Task[Any]") -> None:
        with _GUARD:
            if self.error is None and task.cancelled():
                self.error = asyncio.CancelledError()
            self.leave()

    def _end(self, own: Callable[[], FailureEvent | None]) -> rows.Row:
        if self._keys is not None:
            return self._keys
        self._keys = {}
        waiting.end(self._watched)
        if self._task is not None:
            self._task.remove_done_callback(self._abandon)
        try:
            event = own()
            if event is not None:
                self.log.fail(event)
            failed = self.log.settle()
            if failed is not None and self.outer is not None:
                self.log.recorder.request_failed(failed)  # Within another log it still is a request of its own.
            context = self.span.get_span_context()
            trace_id = f"{context.trace_id:032x}" if context.trace_flags.sampled else None
            self._keys = rows.failure_keys(self.log.report(), trace_id=trace_id)
        finally:
            self.log.close()
            self.span.end()
            self.error = self.response = None
        return self._keys

    def _own_of_result(self, result: object) -> FailureEvent | None:
        """Return the failure of a rollout that came back: the reply's own, or what the result itself says."""
        events = self.log.report().events
        report = None if self.response is None else report_of(self.response, config=self.log.recorder.config)
        if report is not None and report.failure_id in events:
            return events[report.failure_id]
        result = value_of(result, "result") or result  # an episode's has one within
        told = rows.event_of(result) if isinstance(result, dict) else None
        if told is None:
            return None
        event = told.model_copy(update={"event_id": new_id()})  # no row has named it yet
        same = [
            one for one in events.values() if (one.boundary, one.failure_kind) == (event.boundary, event.failure_kind)
        ]
        known = same[-1] if same else self.log.observe_failure(event)
        return known if value_of(result, "mask_sample") or value_of(result, rows.FAILURE_CLASS) else None

    def _own_of_error(self, error: BaseException, row: object) -> FailureEvent | None:
        """Return the failure of a rollout that did not come back: the reply's own is its cause."""
        report = None if self.response is None else report_of(self.response, config=self.log.recorder.config)
        if report is None or report.failure_id not in self.log.report().events:
            return self.log.observe_failure(error, span=self.span)
        status = self.response.status
        ran = kinds.AGENT_REQUEST_FAILED if status in _DID_NOT_RUN else kinds.AGENT_RUN_ERROR
        return lenient_event(
            {
                "event_id": new_id(),
                "boundary": FailureBoundary.COLLECTION,
                "failure_kind": value_of(row, rows.FAILURE_CLASS) or ran,
                "failure_reason": f"HTTP {status}",
                "operation": _OPERATION,
                "exception_type": type_name(error),
                "http_status": status,
                "cause_id": report.failure_id,
            }
        )


_current: Final[ContextVar[Rollout | None]] = ContextVar("gym_failures_rollout", default=None)


def begin(body: object) -> Rollout | None:
    """Begin a rollout in the context of the caller; None where that serves a request, as an environment server does.

    `body` is that of the run. A log that the caller has opened around it gets the rollout's events too.
    """
    before, outer = _current.get(), current.get()
    if before is not None and outer is before.log:
        before.leave()
        outer = before.outer
    if outer is not None and (not isinstance(outer, FailureLog) or isinstance(outer.outermost, RequestLog)):
        return None  # It is a request's, or within one's.
    prepare()
    recorder = default_recorder()
    if not recorder.config.enabled:
        return None
    span = recorder.tracer.start_span(semconv.ROLLOUT_SPAN_NAME, attributes=identity.of_run(body))
    log = FailureLog(FailureBoundary.COLLECTION, operation=_OPERATION, recorder=recorder, span=span)
    log.nest(outer)
    current.set(log)
    rollout = Rollout(span, log, outer)
    _current.set(rollout)
    return rollout


def of_reply(response: object) -> Rollout | None:
    """Return the rollout that this code works for, if the reply is that of its run."""
    rollout = _current.get()
    return rollout if rollout is not None and rollout.response is response else None


def of_error(error: BaseException) -> Rollout | None:
    """Return the rollout that this code works for, if that is what it ended with."""
    rollout = _current.get()
    return rollout if rollout is not None and rollout.error is error else None
