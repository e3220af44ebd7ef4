"""Requests and shutdown while the Collector is unreachable, with and without this package.

Spans and metrics go to a port of this machine on which nobody listens. Requests and shutdown are timed on both sides in
turn, each time with new providers. Exits with status 1 when this package adds more to shutdown than the design allows,
or more to a request than it adds while the Collector is there.
"""

import asyncio
import contextlib
import gc
import logging
import socket
import statistics
import sys
import time
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from fastapi import FastAPI
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.instrumentation.fastapi import FastAPIInstrumentor
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader, PeriodicExportingMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

from gym_failures.config import Config
from gym_failures.errors import FailureError
from gym_failures.instrumentation import instrument_app
from gym_failures.recorder import FailureRecorder

ROUNDS: Final = 15
REQUESTS: Final = 100
"""In each round, of each kind."""
TIMEOUT: Final = 0.5
"""Seconds that the exporters try for; with more, they wait between attempts, and by chance."""
SHUTDOWN_BUDGET: Final = 0.1
"""Most seconds that this package may add to shutdown."""
REQUEST_BUDGET: Final = 1.05
"""Most that our share may change a request's time because the Collector is away; the rest is noise."""


class Nowhere(SpanExporter):
    """Stands for a Collector that is there."""

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Drop them."""
        return SpanExportResult.SUCCESS if spans else SpanExportResult.FAILURE


class Took(NamedTuple):
    """What one side took, in seconds."""

    well: float
    failing: float
    shutdown: float


class Round(NamedTuple):
    """All sides, one after the other."""

    there_without: Took
    there: Took
    away_without: Took
    away: Took


def main() -> int:
    """Print the table; return 1 when a budget does not hold."""
    logging.disable(logging.CRITICAL)
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))  # Held, so that nobody else comes to listen there.
        url = f"http://127.0.0.1:{closed.getsockname()[1]}"
        sides = [(to, ours) for to in (None, url) for ours in (False, True)]
        run(url, ours=True)  # What is imported and built at the first time.
        rounds = [Round(*(run(to, ours=ours) for to, ours in sides)) for _ in range(ROUNDS)]
    print(f"{'Collector unreachable':<30}{'OpenTelemetry':>14}{'with ours':>11}")
    held = [request_holds(rounds, kind) for kind in ("well", "failing")]
    more = statistics.median(one.away.shutdown - one.away_without.shutdown for one in rounds)
    print(
        f"{row(rounds, 'shutdown', 'shutdown, milliseconds', 1e3)}"
        f"  more: {more * 1e3:.1f} <= {SHUTDOWN_BUDGET * 1e3:.0f}  {verdict(more <= SHUTDOWN_BUDGET)}"
    )
    return 0 if all(held) and more <= SHUTDOWN_BUDGET else 1


def request_holds(rounds: list[Round], kind: str) -> bool:
    """Print what a request takes; return whether our share is the same with the Collector there and away."""
    there, away = (
        statistics.median(getattr(ours, kind) / getattr(bare, kind) for bare, ours in sides)
        for sides in ([one[:2] for one in rounds], [one[2:] for one in rounds])
    )
    holds = away / there <= REQUEST_BUDGET
    print(
        f"{row(rounds, kind, f'request ({kind}), microseconds', 1e6)}"
        f"  ratio {away:.3f}, else {there:.3f}: {away / there:.3f} <= {REQUEST_BUDGET}  {verdict(holds)}"
    )
    return holds


def row(rounds: list[Round], kind: str, name: str, unit: float) -> str:
    """Return the medians of both sides while the Collector is away."""
    bare = statistics.median(getattr(one.away_without, kind) for one in rounds)
    ours = statistics.median(getattr(one.away, kind) for one in rounds)
    return f"{name:<30}{bare * unit:>14.1f}{ours * unit:>11.1f}"


def verdict(holds: bool) -> str:  # noqa: FBT001 - it is all there is
    """Return the word for it."""
    return "holds" if holds else "MISSED"


def run(url: str | None, *, ours: bool) -> Took:
    """Serve requests, shut down, and return what that took; without a URL the Collector is there."""
    provider, meters, app = set_up(url, ours=ours)
    well = asyncio.run(seconds_each(app, "/well"))
    failing = asyncio.run(seconds_each(app, "/fail"))
    begun = time.monotonic()
    provider.shutdown()
    meters.shutdown()
    return Took(well, failing, time.monotonic() - begun)


def set_up(url: str | None, *, ours: bool) -> tuple[TracerProvider, MeterProvider, FastAPI]:
    """Return an app and the providers of its own that it is instrumented with."""
    exporter = Nowhere() if url is None else OTLPSpanExporter(f"{url}/v1/traces", timeout=TIMEOUT)
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(exporter))
    reader = (
        InMemoryMetricReader()
        if url is None
        else PeriodicExportingMetricReader(OTLPMetricExporter(f"{url}/v1/metrics", timeout=TIMEOUT))
    )
    meters = MeterProvider([reader], shutdown_on_exit=False)
    app = FastAPI()

    @app.post("/well")
    async def well() -> dict[str, float]:
        return {"reward": 1.0}

    @app.post("/fail")
    async def fail() -> None:
        raise FailureError("verifier_error", boundary="resources_server", reason="no answer")

    FastAPIInstrumentor.instrument_app(app, tracer_provider=provider, meter_provider=meters)
    if ours:
        recorder = FailureRecorder(Config(), tracer_provider=provider, meter_provider=meters)
        instrument_app(app, boundary="resources_server", recorder=recorder)
    return provider, meters, app


async def seconds_each(app: FastAPI, path: str) -> float:
    """Return the time of the processor that one request takes."""
    await call(app, path)
    # A collection of one side's garbage must not fall into the other's time.
    gc.collect()
    gc.disable()
    begun = time.thread_time()
    for _ in range(REQUESTS):
        await call(app, path)
    taken = time.thread_time() - begun
    gc.enable()
    return taken / REQUESTS


async def call(app: FastAPI, path: str) -> None:
    """Send one request to the app without a network."""
    scope = {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": "POST",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "root_path": "",
        "scheme": "http",
        "headers": [(b"host", b"127.0.0.1")],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 2),
        "state": {},
    }

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:  # noqa: ANN401 - of ASGI
        pass

    with contextlib.suppress(FailureError):  # Starlette has answered, and hands it on for the server's log.
        await app(scope, receive, send)


if __name__ == "__main__":
    sys.exit(main())
