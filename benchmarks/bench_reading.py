"""Show what reading costs beside merely reading the bytes and beside decoding them, and that rebuilding is linear.

The files are written by OpenTelemetry's own exporter. In those that are judged, one span in a hundred failed as it does
in a Gym: a failure makes all fail that is above it, so one rollout in thirty has five or six failed spans. The files in
which each failed span stands alone in a trace of ten, so that one trace in ten has to be read in full, are shown only.

All that is compared takes turns within one run, and the least of its times counts, because what makes a turn slower is
whatever else the machine does. Reading may take three times as long as the bytes line by line, half as long as orjson,
and an eighth of what DuckDB's `read_json` takes for the same answer (a quarter where each line is one span, which is
what DuckDB reads best); rebuilding has to be linear. DuckDB, from the dependency group `bench`, is asked for all that
reports are made of: the spans of the traces that failed. Its query is the fastest of several that were tried: it leaves
as JSON what it need not look into. Exits with 1 when a budget is missed. `make bench` installs it and runs this.
"""

import json
import random
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

import duckdb
import orjson
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags
from stored_rollouts import rollouts, write

from gym_failures import semconv
from gym_failures.attributes import to_attributes
from gym_failures.ids import new_id
from gym_failures.kinds import FailureBoundary
from gym_failures.reading import from_readable_span, read_reports, rebuild
from gym_failures.records import FailureEvent


class Layout(NamedTuple):
    """How spans are laid out in a file, and how much faster than DuckDB they have to be read."""

    name: str
    batch: int
    duckdb_factor: float


SPANS: Final = 60_000
FAILING: Final = 0.01
LAYOUTS: Final = (
    Layout("one span a line, written as it ends", 1, 4.0),
    Layout("512 spans a line, as the SDK batches", 512, 8.0),
)
OF_LONE_TRACE: Final = 10
ROUNDS: Final = 7
BYTES_BUDGET: Final = 3.0
ORJSON_FACTOR: Final = 2.0
SIZES: Final = (1_000, 10_000, 100_000)
FLATNESS: Final = 2.0

FAILED_IN_SQL: Final = """
    WITH spans AS MATERIALIZED (
        SELECT resource.resource AS process, span
        FROM (SELECT resource, unnest(scope.spans) AS span
        FROM (SELECT resource, unnest(resource."scopeSpans") AS scope
        FROM (SELECT unnest("resourceSpans") AS resource
        FROM read_json(?, format = 'newline_delimited', maximum_object_size = 67108864, columns = {
            'resourceSpans': 'STRUCT(resource JSON, "scopeSpans" STRUCT(spans STRUCT(
                "traceId" VARCHAR, "spanId" VARCHAR, "parentSpanId" VARCHAR, name VARCHAR, kind INTEGER,
                "startTimeUnixNano" VARCHAR, "endTimeUnixNano" VARCHAR, status JSON, attributes JSON, events JSON
            )[])[])[]'
        }))))
    )
    SELECT * FROM spans WHERE span."traceId" IN (
        SELECT span."traceId" FROM spans WHERE contains(span.events::VARCHAR, '"gym.failure"')
    )
"""

CHANCE: Final = random.Random(0)  # noqa: S311 - the same file each time
RESOURCE: Final = Resource({"service.name": "policy_model", "service.instance.id": "1"})


def spans(count: int, *, of_trace: int) -> Iterator[ReadableSpan]:
    """Yield spans in traces of `of_trace`, with the attributes of HTTP instrumentation; each fails alone."""
    above: SpanContext | None = None
    for number in range(count):
        if number % of_trace == 0:
            above = None
        trace_id = CHANCE.getrandbits(128) if above is None else above.trace_id
        context = SpanContext(trace_id, CHANCE.getrandbits(64), is_remote=False, trace_flags=TraceFlags(1))
        yield span(number, context, above, failed=CHANCE.random() < FAILING)
        if number % 2 == 0:
            above = context


def span(number: int, context: SpanContext, above: SpanContext | None, *, failed: bool) -> ReadableSpan:
    """Return one span; one that failed has the event, the summary and the status of that."""
    start = 1_700_000_000_000_000_000 + number
    attributes: dict[str, str | int] = {
        "http.request.method": "POST",
        "url.full": "http://127.0.0.1:12345/v1/responses",
        "http.response.status_code": 500 if failed else 200,
        "http.route": "/v1/responses",
        "network.peer.address": "127.0.0.1",
        "network.peer.port": 34567,
        "user_agent.original": "Python/3.13 aiohttp/3.14",
        semconv.NEMO_GYM_ROLLOUT_ID: f"{context.trace_id:032x}",
    }
    events = []
    if failed:
        failure = FailureEvent(
            event_id=new_id(),
            failure_kind="provider_unavailable",
            boundary=FailureBoundary.MODEL,
            failure_reason="the provider says that it is not available at the moment",
            http_status=500,
        )
        attributes |= {semconv.FAILURE_ID: failure.event_id, semconv.FAILURE_KIND: failure.failure_kind}
        events.append(Event(semconv.EVENT_NAME, to_attributes(failure, root=True), start))
    return ReadableSpan(
        "POST /v1/responses",
        context,
        above,
        RESOURCE,
        attributes,
        events,
        kind=SpanKind.SERVER if number % 2 == 0 else SpanKind.CLIENT,
        status=Status(StatusCode.ERROR if failed else StatusCode.UNSET),
        start_time=start,
        end_time=start + 1_000_000,
    )


def turns(sides: Mapping[str, Callable[[], object]]) -> dict[str, float]:
    """Return each side's least processor time in milliseconds; they take turns, so that all meet the same machine."""
    times = dict.fromkeys(sides, float("inf"))
    for _ in range(ROUNDS):
        for name, run in sides.items():
            start = time.process_time()
            run()
            times[name] = min(times[name], (time.process_time() - start) * 1e3)
    return times


def each_line(path: Path, use: Callable[[bytes], object]) -> None:
    """Use each line of the file as it is read."""
    with path.open("rb") as file:
        for line in file:
            use(line)


def query(path: Path) -> set[object]:
    """Return the traces that DuckDB finds, after it has given all their spans."""
    return {span["traceId"] for _, span in duckdb.execute(FAILED_IN_SQL, [str(path)]).fetchall()}


def judge(what: str, ratio: float, *, least: float = 0.0, most: float = float("inf")) -> bool:
    """Print a ratio beside its budget; return whether it is within."""
    within = least <= ratio <= most
    bound = f"at least {least:.1f}x" if least else f"at most {most:.1f}x"
    print(f"{ratio:.2f}x {what}, budget {bound}: {'holds' if within else 'MISSED'}")
    return within


def reading(what: str, stored: Callable[[], Iterable[ReadableSpan]], layout: Layout, *, judged: bool) -> bool:
    """Print reading beside its floor and beside decoding; return whether it is as fast as promised, if it is judged."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "traces.jsonl"
        write(path, stored(), layout.batch)
        found = read_reports(path)
        size = path.stat().st_size
        sides: dict[str, Callable[[], object]] = {
            "the bytes, line by line": lambda: each_line(path, len),
            "read_reports": lambda: read_reports(path),
            "orjson.loads of each line": lambda: each_line(path, orjson.loads),
            "json.loads of each line": lambda: each_line(path, json.loads),
            "DuckDB's read_json": lambda: query(path),
        }
        duckdb.execute("SET threads = 1")
        if query(path) != {report.trace_id for report in found}:
            raise RuntimeError("DuckDB finds other traces than we do")
        times = turns(sides)
    ours = times["read_reports"]
    print(f"{what}, {layout.name}: {size / 1e6:.0f} MB, {found.spans:,} spans, {len(found):,} traces with failures")
    print(f"{'':<28}{'ms':>8}{'MB/s':>8}{'beside ours':>13}")
    for name, milliseconds in times.items():
        print(f"{name:<28}{milliseconds:>8.0f}{size / 1e3 / milliseconds:>8.0f}{milliseconds / ours:>13.2f}")
    within = True
    if judged:
        within &= judge("of the bytes", ours / times["the bytes, line by line"], most=BYTES_BUDGET)
        within &= judge("faster than orjson", times["orjson.loads of each line"] / ours, least=ORJSON_FACTOR)
        within &= judge("faster than DuckDB", times["DuckDB's read_json"] / ours, least=layout.duckdb_factor)
    print()
    return within


def rebuilding() -> bool:
    """Print the cost per span of rebuilding one trace of more and more spans; return whether it stays flat."""
    traces = {size: [from_readable_span(one) for one in spans(size, of_trace=size)] for size in SIZES}
    times = turns({f"{size:,}": partial(rebuild, trace) for size, trace in traces.items()})
    per_span = [milliseconds * 1e3 / size for size, milliseconds in zip(SIZES, times.values(), strict=True)]
    print(f"{'spans in one trace':<28}{'us/span':>8}{'beside the first':>18}")
    for name, cost in zip(times, per_span, strict=True):
        print(f"{name:<28}{cost:>8.2f}{cost / per_span[0]:>18.2f}")
    return judge("of the cost per span in the smallest", max(per_span) / per_span[0], most=FLATNESS)


if __name__ == "__main__":
    gym, lone = partial(rollouts, SPANS, FAILING), partial(spans, SPANS, of_trace=OF_LONE_TRACE)
    fast = [reading("rollouts of a Gym", gym, layout, judged=True) for layout in LAYOUTS]
    for layout in LAYOUTS:
        reading("lone failures, not judged", lone, layout, judged=False)
    sys.exit(0 if all([*fast, rebuilding()]) else 1)
