"""Show what reading costs beside merely reading the bytes and beside decoding them, and that rebuilding is linear.

The files are written by OpenTelemetry's own exporter: traces of ten spans, one span in a hundred failed, so that one
trace in ten has to be read in full. All that is compared takes turns within one run, and the medians count. Reading may
take three times as long as the bytes and half as long as orjson; rebuilding has to be linear. A database that reads
JSON stands beside them where it is installed (the dependency group `bench`). Exits with 1 when a budget is missed. Run
it as a script.
"""

import json
import random
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import orjson
from opentelemetry.exporter.otlp.json.file import FileSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags

from gym_failures import semconv
from gym_failures.attributes import to_attributes
from gym_failures.ids import new_id
from gym_failures.kinds import FailureBoundary
from gym_failures.reading import from_readable_span, read_reports, rebuild
from gym_failures.records import FailureEvent

try:
    import duckdb
except ModuleNotFoundError:
    duckdb = None

SPANS = 60_000
BATCHES = {"one span a line": 1, "512 spans a line, as the SDK batches": 512}
OF_TRACE = 10
FAILING = 0.01
ROUNDS = 9
BYTES_BUDGET = 3.0
ORJSON_FACTOR = 2.0
SIZES = (1_000, 10_000, 100_000)
FLATNESS = 2.0

# Of the schema only what the answer needs. The attributes hold the failure; the trace, who it belongs to.
FAILURES_IN_SQL = """
    SELECT span."traceId", span."spanId", event.attributes
    FROM (SELECT span, unnest(span.events) AS event
    FROM (SELECT unnest(scope.spans) AS span
    FROM (SELECT unnest(resource."scopeSpans") AS scope
    FROM (SELECT unnest("resourceSpans") AS resource
    FROM read_json(?, format = 'newline_delimited', maximum_object_size = 67108864, columns = {
        'resourceSpans': 'STRUCT("scopeSpans" STRUCT(spans STRUCT("traceId" VARCHAR, "spanId" VARCHAR, events
            STRUCT(name VARCHAR, attributes STRUCT(key VARCHAR, value STRUCT("stringValue" VARCHAR))[])[])[])[])[]'
    })))))
    WHERE event.name = 'gym.failure'
"""

CHANCE = random.Random(0)  # noqa: S311 - the same file each time
RESOURCE = Resource({"service.name": "policy_model", "service.instance.id": "1"})


def spans(count: int, *, of_trace: int = OF_TRACE) -> Iterator[ReadableSpan]:
    """Yield spans with the attributes that HTTP instrumentation gives them, in traces of `of_trace`."""
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


def write(path: Path, batch: int) -> None:
    """Write the file as the SDK does: one line for each batch."""
    exporter = FileSpanExporter(path)
    batched: list[ReadableSpan] = []
    for one in spans(SPANS):
        batched.append(one)
        if len(batched) == batch:
            exporter.export(batched)
            batched = []
    exporter.export(batched)
    exporter.shutdown()


def turns(sides: Mapping[str, Callable[[], object]]) -> dict[str, float]:
    """Return each side's median processor time in milliseconds; they take turns, so that all meet the same machine."""
    times: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(ROUNDS):
        for name, run in sides.items():
            start = time.process_time()
            run()
            times[name].append((time.process_time() - start) * 1e3)
    return {name: statistics.median(each) for name, each in times.items()}


def each_line(path: Path, use: Callable[[bytes], object]) -> None:
    """Use each line of the file as it is read."""
    with path.open("rb") as file:
        for line in file:
            use(line)


def query(path: Path) -> list[tuple[object, ...]]:
    """Return the failure events of the file as a database finds them, which makes no reports of them."""
    return duckdb.execute(FAILURES_IN_SQL, [str(path)]).fetchall()


def judge(what: str, ratio: float, *, least: float = 0.0, most: float = float("inf")) -> bool:
    """Print a ratio beside its budget; return whether it is within."""
    within = least <= ratio <= most
    bound = f"at least {least:.1f}x" if least else f"at most {most:.1f}x"
    print(f"{ratio:.2f}x {what}, budget {bound}: {'holds' if within else 'MISSED'}")
    return within


def reading(layout: str, batch: int) -> bool:
    """Print reading beside its floor and beside decoding; return whether it is as much faster as promised."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "traces.jsonl"
        write(path, batch)
        found = read_reports(path)
        size = path.stat().st_size
        sides: dict[str, Callable[[], object]] = {
            "the bytes, line by line": lambda: each_line(path, len),
            "read_reports": lambda: read_reports(path),
            "orjson.loads of each line": lambda: each_line(path, orjson.loads),
            "json.loads of each line": lambda: each_line(path, json.loads),
        }
        if duckdb is not None:
            duckdb.execute("SET threads = 1")
            sides["DuckDB's read_json"] = lambda: query(path)
        times = turns(sides)
    ours = times["read_reports"]
    print(f"{layout}: {size / 1e6:.0f} MB, {found.spans:,} spans, {len(found):,} traces with failures")
    print(f"{'':<28}{'ms':>8}{'MB/s':>8}{'beside ours':>13}")
    for name, milliseconds in times.items():
        print(f"{name:<28}{milliseconds:>8.0f}{size / 1e3 / milliseconds:>8.0f}{milliseconds / ours:>13.2f}")
    within = judge("of the bytes", ours / times["the bytes, line by line"], most=BYTES_BUDGET)
    within &= judge("faster than orjson", times["orjson.loads of each line"] / ours, least=ORJSON_FACTOR)
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
    fast = [reading(layout, batch) for layout, batch in BATCHES.items()]
    linear = rebuilding()
    sys.exit(0 if all(fast) and linear else 1)
