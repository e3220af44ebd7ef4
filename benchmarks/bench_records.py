"""Show that a report costs the same per event whether it has 8 events or 10,000.

Builds, validates, merges and serialises reports of 1, 8, 128 and 10,000 events, prints the cost per event, and exits
with 1 when a step costs more than twice as much per event at 10,000 as at 128.
"""

import gc
import sys
import time
from collections.abc import Callable
from itertools import pairwise

from gym_failures import kinds
from gym_failures.records import (
    FailureBoundary,
    FailureEvent,
    FailureReport,
    ModelFailureDetails,
    SdkErrorDetails,
)

SIZES = (1, 8, 128, 10_000)
FLAT_FROM, FLAT_TO = 128, 10_000
FLAT_WITHIN = 2.0
SAMPLE_SECONDS = 0.02
SAMPLES = 25


def build(size: int, name: str = "e") -> FailureReport:
    """Build a report of `size` events, alternately a provider's answer and what broke because of it, in one chain."""
    ids = [f"{name}{number:031x}" for number in range(size)]
    events: dict[str, FailureEvent] = {}
    for cause_id, event_id in pairwise([None, *ids]):
        assert event_id is not None  # noqa: S101 - None stands for the missing cause of the first only
        events[event_id] = (
            _server_failed(event_id, cause_id) if len(events) % 2 else _provider_failed(event_id, cause_id)
        )
    return FailureReport(events=events, failure_id=ids[-1])


def _provider_failed(event_id: str, cause_id: str | None) -> FailureEvent:
    return FailureEvent(
        event_id=event_id,
        boundary=FailureBoundary.MODEL,
        failure_kind=kinds.PROVIDER_QUOTA_EXHAUSTED,
        failure_reason="Rate limit reached for requests per minute. Limit: 500, used 500, requested 1.",
        stage=kinds.FailureStage.AGENT,
        operation="policy_model POST /v1/responses",
        operation_id=event_id,
        attempt_id=f"{event_id}.1",
        exception_type="openai.RateLimitError",
        http_status=429,
        cause_id=cause_id,
        foreign_error=SdkErrorDetails(
            exception_type="openai.RateLimitError", message="Rate limit reached", http_status=429
        ),
        details=ModelFailureDetails(provider_request_id="req_0123456789abcdef", request_upload_complete=True),
    )


def _server_failed(event_id: str, cause_id: str | None) -> FailureEvent:
    return FailureEvent(
        event_id=event_id,
        boundary=FailureBoundary.AGENT,
        failure_kind=kinds.AGENT_RUN_ERROR,
        failure_reason="the model server answered 500",
        operation="simple_agent POST /run",
        cause_id=cause_id,
    )


def steps(size: int) -> dict[str, Callable[[], object]]:
    """Return what runs each step on a report of `size` events."""
    report = build(size)
    python, text = report.model_dump(), report.model_dump_json()
    half_shared = report.merged(build(size, "f"))
    return {
        "build": lambda: build(size),
        "validate Python": lambda: FailureReport.model_validate(python),
        "validate JSON": lambda: FailureReport.model_validate_json(text),
        "merge": lambda: report.merged(half_shared),
        "serialise Python": report.model_dump,
        "serialise JSON": report.model_dump_json,
    }


def seconds(run: Callable[[], object], rounds: int) -> float:
    """Return the processor time that `rounds` runs take: what else the machine does is not ours to count."""
    start = time.process_time()
    for _ in range(rounds):
        run()
    return time.process_time() - start


def microseconds_per_event(runs: dict[int, Callable[[], object]]) -> dict[int, float]:
    """Return the cost per event of each size in `runs`, from its least disturbed turn.

    Whatever else the machine does can only add to a turn, and more to a large report, which outgrows the processor's
    cache: medians on a busy machine say up to twice as much for it. The sizes take turns, and a turn is long enough to
    measure.
    """
    rounds = {size: max(1, round(SAMPLE_SECONDS / seconds(run, 1))) for size, run in runs.items()}
    samples: dict[int, list[float]] = {size: [] for size in runs}
    for _ in range(SAMPLES):
        for size, run in runs.items():
            samples[size].append(seconds(run, rounds[size]) / rounds[size] / size * 1e6)
    return {size: min(costs) for size, costs in samples.items()}


def main() -> int:
    """Print the table; return 1 when a step is not flat."""
    of_size = {size: steps(size) for size in SIZES}
    # The garbage collector stays on, as it is for users, but does not go through the inputs of all sizes each time.
    gc.collect()
    gc.freeze()
    ratio = f"{FLAT_TO:,}/{FLAT_FROM}"
    print(f"{'microseconds per event':<24}" + "".join(f"{size:>10,}" for size in SIZES) + f"{ratio:>14}")
    steep = []
    for name in of_size[FLAT_FROM]:
        costs = microseconds_per_event({size: of_size[size][name] for size in SIZES})
        growth = costs[FLAT_TO] / costs[FLAT_FROM]
        print(f"{name:<24}" + "".join(f"{costs[size]:>10.2f}" for size in SIZES) + f"{growth:>13.2f}x")
        if growth > FLAT_WITHIN:
            steep.append(name)
    print(f"each step within {FLAT_WITHIN:g}x: " + (f"no: {', '.join(steep)}" if steep else "yes"))
    return 1 if steep else 0


if __name__ == "__main__":
    sys.exit(main())
