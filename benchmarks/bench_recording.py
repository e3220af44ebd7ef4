"""Cost of recording one failure, beside the OpenTelemetry calls that it must make; prints a table of ratios.

Every number is a median of rounds that alternate between what is compared, in one process and one run, in time of the
processor, so that other work on the machine does not count. Exits with status 1 when a budget of the design does not
hold.
"""

import gc
import logging
import os
import statistics
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, NamedTuple

from opentelemetry.metrics import Counter
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from opentelemetry.trace import Span, StatusCode

from gym_failures import semconv
from gym_failures.attributes import to_attributes
from gym_failures.config import Config
from gym_failures.ids import new_id
from gym_failures.kinds import FailureBoundary, FailureStage
from gym_failures.log import FailureLog
from gym_failures.recorder import FailureRecorder, set_default_recorder
from gym_failures.recording import record_failure
from gym_failures.records import FailureEvent

ROUNDS: Final = 60
CALLS: Final = 300
RECORD_BUDGET: Final = 1.3
EXCEPTION_FACTOR: Final = 3.0
SILENT_BUDGET_US: Final = 1.0
THREADS: Final = 8

EVENT: Final = FailureEvent(
    event_id=new_id(),
    failure_kind="provider_quota_exhausted",
    boundary=FailureBoundary.MODEL,
    failure_reason="the provider says: too many requests",
    stage=FailureStage.AGENT,
    operation="model POST /v1/responses",
    exception_type="openai.RateLimitError",
    http_status=429,
)
LABELS: Final = {
    semconv.FAILURE_KIND: EVENT.failure_kind,
    semconv.FAILURE_BOUNDARY: EVENT.boundary.value,
    semconv.FAILURE_ROOT: True,
    semconv.FAILURE_STAGE: "agent",
}
SUMMARY: Final = {
    semconv.FAILURE_ID: EVENT.event_id,
    semconv.FAILURE_KIND: EVENT.failure_kind,
    semconv.FAILURE_BOUNDARY: EVENT.boundary.value,
}


class Row(NamedTuple):
    """One comparison."""

    what: str
    ours_us: float
    theirs_us: float
    measure: float
    budget: str
    holds: bool


def alternate(*parts: Callable[[int], float]) -> list[float]:
    """Return the median time of one call of each part, in microseconds; rounds alternate between the parts."""
    times: list[list[float]] = [[] for _ in parts]
    gc.disable()  # else a collection of one part's garbage falls into another part's time
    for _ in range(ROUNDS):
        for part, kept in zip(parts, times, strict=True):
            kept.append(part(CALLS) / CALLS * 1e6)
            gc.collect()
    gc.enable()
    return [statistics.median(kept) for kept in times]


def timed(calls: int, new: Callable[[], Span], call: Callable[[Span], object]) -> float:
    """Return the seconds that `call` takes on `calls` spans, fresh ones, whose making and ending does not count."""
    spans = [new() for _ in range(calls)]
    begun = time.thread_time()
    for span in spans:
        call(span)
    took = time.thread_time() - begun
    for span in spans:
        span.end()
    return took


def deep_error(depth: int = 20) -> Exception:
    """Return an exception that was raised `depth` frames deep."""

    def descend(left: int) -> None:
        if left == 0:
            raise RuntimeError("deep down")
        descend(left - 1)

    try:
        descend(depth)
    except RuntimeError as error:
        return error
    raise AssertionError


def loop(call: Callable[[], object]) -> Callable[[int], float]:
    """Return what times a number of calls, in seconds."""

    def run(calls: int) -> float:
        begun = time.thread_time()
        for _ in range(calls):
            call()
        return time.thread_time() - begun

    return run


def beside_the_sdk(recorder: FailureRecorder, new: Callable[[], Span], counter: Counter) -> list[Row]:
    """Return the rows of one failure on a recording span, directly and through a request's log."""
    attributes = to_attributes(EVENT, root=True)
    error = deep_error()

    def bare(span: Span) -> None:
        span.add_event(semconv.EVENT_NAME, attributes)
        counter.add(1, LABELS)
        span.set_attributes(SUMMARY)
        span.set_status(StatusCode.ERROR)

    def ours(span: Span) -> None:
        record_failure(EVENT, span=span)
        recorder.summarize(span, EVENT)

    def in_log(calls: int) -> float:
        spans = [new() for _ in range(calls)]
        events = [EVENT.model_copy(update={"event_id": new_id()}) for _ in range(calls)]
        logs = [FailureLog("model", recorder=recorder, span=span) for span in spans]
        begun = time.thread_time()
        for log, event in zip(logs, events, strict=True):
            log.fail(event)
            log.settle(status=200)
        took = time.thread_time() - begun
        for span in spans:
            span.end()
        return took

    us_ours, us_bare, us_exception, us_log = alternate(
        lambda n: timed(n, new, ours),
        lambda n: timed(n, new, bare),
        lambda n: timed(n, new, lambda span: span.record_exception(error)),
        in_log,
    )
    record, exception = us_ours / us_bare, us_exception / us_ours
    return [
        Row("record + summary / bare SDK calls", us_ours, us_bare, record, f"<= {RECORD_BUDGET}x",
            record <= RECORD_BUDGET),
        Row("record_exception, 20 frames / record", us_exception, us_ours, exception, f">= {EXCEPTION_FACTOR}x",
            exception >= EXCEPTION_FACTOR),
        Row("through a request's log / bare SDK calls", us_log, us_bare, us_log / us_bare, "shown", holds=True),
    ]  # fmt: skip


def when_nobody_looks(recorder: FailureRecorder, counter: Counter) -> list[Row]:
    """Return the rows of a span that is not sampled, and of a request in which nothing fails."""
    unsampled = TracerProvider(sampler=ALWAYS_OFF).get_tracer("bench").start_span("off")
    logging.getLogger(semconv.LOGGER_FAILURES).setLevel(logging.CRITICAL)
    us_silent, us_counter = alternate(
        loop(lambda: record_failure(EVENT, span=unsampled)), loop(lambda: counter.add(1, LABELS))
    )
    us_log, us_call = alternate(loop(lambda: FailureLog("agent", recorder=recorder)), loop(lambda: None))
    silent = us_silent - us_counter
    return [
        Row("span not sampled, beside the counter (us)", us_silent, us_counter, silent, f"<= {SILENT_BUDGET_US} us",
            silent <= SILENT_BUDGET_US),
        Row("a log in which nothing fails / a call", us_log, us_call, us_log / us_call, "shown", holds=True),
    ]  # fmt: skip


def main() -> int:
    """Print the table; return 1 when a budget does not hold."""
    meters = MeterProvider([InMemoryMetricReader()])
    provider = TracerProvider()
    tracer = provider.get_tracer("bench")
    recorder = FailureRecorder(Config(), tracer_provider=provider, meter_provider=meters)
    set_default_recorder(recorder)
    counter = meters.get_meter("bench").create_counter("bare")

    def new() -> Span:
        return tracer.start_span("bench")

    rows = beside_the_sdk(recorder, new, counter)
    rows += when_nobody_looks(recorder, counter)
    rows += concurrent(recorder, new, rows[0].ours_us)
    print(f"{'what':<44}{'us':>9}{'beside us':>11}{'measure':>9}  budget")
    for row in rows:
        verdict = "" if row.budget == "shown" else ("  holds" if row.holds else "  MISSED")
        print(f"{row.what:<44}{row.ours_us:>9.2f}{row.theirs_us:>11.2f}{row.measure:>9.2f}  {row.budget}{verdict}")
    return 0 if all(row.holds for row in rows) else 1


def concurrent(recorder: FailureRecorder, new: Callable[[], Span], alone_us: float) -> list[Row]:
    """Return the rows of eight threads at once, and of a forked child."""
    total = 4_000
    gate = threading.Barrier(THREADS)

    def work(_: int) -> None:
        spans = [new() for _ in range(total // THREADS)]
        gate.wait()
        for span in spans:
            record_failure(EVENT, span=span)
            recorder.summarize(span, EVENT)

    begun = time.perf_counter()
    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(work, range(THREADS)))
    threads_us = (time.perf_counter() - begun) / total * 1e6
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        took = timed(total, new, lambda span: record_failure(EVENT, span=span))
        os.write(write_end, f"{took / total * 1e6}".encode())
        os._exit(0)
    os.waitpid(child, 0)
    child_us = float(os.read(read_end, 64))
    return [
        Row("8 threads, spans made too / one thread", threads_us, alone_us, threads_us / alone_us, "shown", holds=True),
        Row("in a forked child / in the parent", child_us, alone_us, child_us / alone_us, "shown", holds=True),
    ]


if __name__ == "__main__":
    sys.exit(main())
