"""User code, never run: the type checker reads it as a user's would, and each line must come out as it says here."""

from collections.abc import AsyncIterable, AsyncIterator, Iterator
from typing import assert_type

import gym_failures
from gym_failures import (
    Config,
    EpisodeFailure,
    FailureBoundary,
    FailureError,
    FailureEvent,
    FailureLog,
    FailureReport,
    FailureStage,
    ModelFailureDetails,
    SandboxFailureDetails,
    SdkErrorDetails,
    error_from,
    kinds,
    observe,
    record_failure,
    report_for,
    validate_failure_event_map,
)
from gym_failures.instrumentation import (
    GymFailuresInstrumentor,
    instrument_aiohttp,
    instrument_httpx,
    raise_for_failure,
)
from gym_failures.replies import report_of
from gym_failures.streams import watch

assert_type(gym_failures.__version__, str)
assert_type(gym_failures.enable(server_name="policy_model", boundary="model"), bool)
assert_type(gym_failures.FAILURE_KINDS, frozenset[str])
assert_type(kinds.is_registered("judge_failed"), bool)
assert_type(kinds.is_namespaced("my_server:lost_key"), bool)
assert_type(kinds.validate_failure_kind(kinds.JUDGE_FAILED), str | None)

event = FailureEvent(
    event_id="e1",
    failure_kind=kinds.PROVIDER_UNAVAILABLE,
    boundary=FailureBoundary.MODEL,
    stage=FailureStage.AGENT,
    http_status=401,
    details=ModelFailureDetails(provider_request_id="r1"),
    foreign_error=SdkErrorDetails(exception_type="AuthenticationError", message="no such key", http_status=401),
)
assert_type(event.cause_id, str | None)
assert_type(event.boundary, FailureBoundary)
assert_type(event.details, SandboxFailureDetails | ModelFailureDetails | None)

report = FailureReport(events={event.event_id: event}, failure_id="e1")
assert_type(report.merged(FailureReport()), FailureReport)
assert_type(report.events["e1"], FailureEvent)
assert_type(FailureReport.model_validate_json("{}"), FailureReport)
validate_failure_event_map(report.events)

assert_type(EpisodeFailure(failure_reason="lost", terminal=True).stage, FailureStage | None)

assert_type(report_for(KeyError("k"), boundary="agent", stage=FailureStage.SEED), FailureReport)
assert_type(error_from(report), FailureError | None)
assert_type(FailureError("judge_failed", boundary="agent", reason="no answer").event_id, str | None)
assert_type(
    Config(accept_from=["default", "10.1.0.0/16"], reply_to=lambda scope: "x" in scope).accepts("http://host"), bool
)


assert_type(record_failure(KeyError("k"), boundary="agent", stage="seed"), FailureEvent | None)


@observe("sandbox", span_name="exec")
def executed(command: str) -> int:
    """Keep its signature under the decorator."""
    return len(command)


assert_type(executed("ls"), int)
with FailureLog("collection") as log:
    assert_type(log.fail(KeyError("k")), FailureEvent | None)
    assert_type(log.report(), FailureReport)


def relay(chunks: AsyncIterable[bytes]) -> None:
    """Hand streams on, and look at a reply."""
    assert_type(watch(chunks), AsyncIterator[bytes])
    assert_type(watch([b"data: 1"]), Iterator[bytes])
    assert_type(report_of(object()), FailureReport | None)
    raise_for_failure(object(), config=Config(accept_from="all"))


GymFailuresInstrumentor().instrument(boundary=FailureBoundary.MODEL)
instrument_aiohttp(boundary="agent")
instrument_httpx(boundary=FailureBoundary.AGENT)

gym_failures.FailureReports  # type: ignore[attr-defined]  # the lazy package must not make a misspelt name look right
FailureReport(failure_ids="e1")  # type: ignore[call-arg]
