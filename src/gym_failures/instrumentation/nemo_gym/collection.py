"""Rollouts in NeMo Gym's collection client: a span and a log for each, and what failed in its row.

A rollout is a call of ``/run`` by whoever serves no request himself. It begins with that call. It ends when the row is
made of the reply, or else with the task that called.
"""

import asyncio
import functools
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, Final

from opentelemetry import trace
from opentelemetry.trace import Span

from gym_failures import kinds, rows, semconv, waiting
from gym_failures.guard import Guard
from gym_failures.ids import new_id
from gym_failures.instrumentation.nemo_gym import identity, prepare
from gym_failures.instrumentation.nemo_gym.hooks import Hook
from gym_failures.instrumentation.nemo_gym.identity import value_of
from gym_failures.kinds import FailureBoundary
from gym_failures.log import FailureLog
from gym_failures.patching import Method
from gym_failures.recorder import default_recorder
from gym_failures.recording import current
from gym_failures.records import FailureEvent
from gym_failures.replies import report_of
from gym_failures.shapes import lenient_event
from gym_failures.text import type_name

_GUARD: Final = Guard("nemo_gym_collection")

_RUN: Final = "/run"
_OPERATION: Final = "POST /run"

# NeMo Gym takes these for answers of something in front of the environment server, and of no other status is it sure
# that the rollout did not run (`rollout_collection._agent_request_failure_row`).
_DID_NOT_RUN: Final = frozenset({429, 502, 503, 504})


class Rollout:
    """One rollout: its span, its log, the reply, and the row that comes of it."""

    __slots__ = ("_keys", "_task", "_watched", "error", "log", "response", "span")

    def __init__(self, span: Span, log: FailureLog) -> None:
        """Begin; both are this rollout's own."""
        self.span = span
        self.log = log
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
            self.log.settle()
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
        told = rows.read_row(result).report if isinstance(result, dict) else None
        if told is None or told.failure_id is None:
            return None
        event = told.events[told.failure_id].model_copy(update={"event_id": new_id()})  # no row has named it yet
        same = [
            one for one in events.values() if (one.boundary, one.failure_kind) == (event.boundary, event.failure_kind)
        ]
        known = same[-1] if same else self.log.observe_failure(event)
        return known if value_of(result, "mask_sample") else None

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
                "failure_kind": value_of(row, "_ng_failure_class") or ran,
                "failure_reason": f"HTTP {status}",
                "operation": _OPERATION,
                "exception_type": type_name(error),
                "http_status": status,
                "cause_id": report.failure_id,
            }
        )


_current: Final[ContextVar[Rollout | None]] = ContextVar("gym_failures_rollout", default=None)


def _beginning_rollout(request: Method) -> Method:
    """Wrap the client that all calls between servers go through."""

    @functools.wraps(request)
    async def beginning(client: Any, server_name: Any, url_path: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - as the method
        rollout: Rollout | None = None
        if url_path == _RUN:
            with _GUARD:
                rollout = _begin(kwargs.get("json"))
        if rollout is None:
            return await request(client, server_name, url_path, *args, **kwargs)
        try:
            with trace.use_span(rollout.span, record_exception=False, set_status_on_exception=False):
                rollout.response = await request(client, server_name, url_path, *args, **kwargs)
        except BaseException as error:
            rollout.error = error
            raise
        return rollout.response

    return beginning


def _begin(body: object) -> Rollout | None:
    """Begin a rollout in the context of the caller; None where that serves a request, as an environment server does."""
    before, log = _current.get(), current.get()
    if log is not None and (before is None or log is not before.log):
        return None
    if before is not None:
        before.leave()
    prepare()
    recorder = default_recorder()
    if not recorder.config.enabled:
        return None
    span = recorder.tracer.start_span(semconv.ROLLOUT_SPAN_NAME, attributes=identity.of_run(body))
    log = FailureLog(FailureBoundary.COLLECTION, operation=_OPERATION, recorder=recorder, span=span)
    current.set(log)
    rollout = Rollout(span, log)
    _current.set(rollout)
    return rollout


def _noticing_status(raise_for_status: Method) -> Method:
    """Wrap what raises for the status of a reply."""

    @functools.wraps(raise_for_status)
    async def noticing(response: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - as the function
        try:
            return await raise_for_status(response, *args, **kwargs)
        except BaseException as error:
            _notice(response, error)
            raise

    return noticing


def _ending_rollout(get_json: Method) -> Method:
    """Wrap what reads the result of a rollout."""

    @functools.wraps(get_json)
    async def ending(response: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - as the function
        try:
            result = await get_json(response, *args, **kwargs)
        except BaseException as error:
            _notice(response, error)
            raise
        rollout = _current.get()
        if rollout is not None and rollout.response is response:
            with _GUARD:
                keys = rollout.succeed(result)
                if isinstance(result, dict):
                    result.update(keys)
        return result

    return ending


def _notice(response: object, error: BaseException) -> None:
    rollout = _current.get()
    if rollout is not None and rollout.response is response:
        rollout.error = error


def _telling_failed_row(make_row: Method) -> Method:
    """Wrap what makes the row of a rollout that did not come back."""

    @functools.wraps(make_row)
    def telling(error: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - as the function
        row = make_row(error, *args, **kwargs)
        rollout = _current.get()
        with _GUARD:
            if rollout is not None and isinstance(error, Exception) and rollout.error is error:
                row.update(rollout.fail(error, row))
        return row

    return telling


def _keeping_keys(make_record: Method) -> Method:
    """Wrap what makes a row of an episode's result: what stands beside that would be left behind."""

    @functools.wraps(make_record)
    def keeping(response: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - as the function
        record = make_record(response, *args, **kwargs)
        with _GUARD:
            record.update({key: response[key] for key in rows.KEYS if key in response})
        return record

    return keeping


HOOKS: Final = {
    "nemo_gym.server_utils": (Hook("ServerClient.request", _beginning_rollout),),
    "nemo_gym.rollout_collection": (
        Hook("raise_for_status", _noticing_status),
        Hook("get_response_json", _ending_rollout),
        Hook("_agent_request_failure_row", _telling_failed_row),
        Hook("_episode_record", _keeping_keys),
    ),
}
