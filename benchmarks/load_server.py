"""The server of the load benchmark: it holds requests back, tells how it stands, and lets them go.

Run as a script with `with` or `without` (this package) it serves until the process is ended.
"""

import asyncio
import gc
import logging
import resource
import socket
import sys
from collections.abc import Sequence
from typing import Final

import psutil
import uvicorn
from fastapi import FastAPI
from opentelemetry.instrumentation.fastapi import FastAPIInstrumentor
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

from gym_failures import semconv
from gym_failures.config import Config
from gym_failures.errors import FailureError
from gym_failures.instrumentation import instrument_app
from gym_failures.recorder import FailureRecorder
from gym_failures.recording import record_failure

HOST: Final = "127.0.0.1"
ONE_IN: Final = 20
"""Of so many requests one fails; of these, every other one survives what it observed and answers 200."""
KIND: Final = "verifier_error"
BACKLOG: Final = 256
"""Connections that may wait to be accepted."""
DESCRIPTORS: Final = 17_000
"""Open files that either process may need: a socket for each request, and what it has anyway."""


class Nowhere(SpanExporter):
    """Takes spans and drops them."""

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Drop them."""
        return SpanExportResult.SUCCESS if spans else SpanExportResult.FAILURE


def serve(*, ours: bool) -> None:
    """Serve until the process is ended; the first line of output is the port."""
    logging.disable(logging.CRITICAL)
    allow_descriptors()
    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(Nowhere()))
    reader = InMemoryMetricReader()
    meters = MeterProvider([reader])
    app = make_app(reader)
    FastAPIInstrumentor.instrument_app(
        app, tracer_provider=provider, meter_provider=meters, excluded_urls="state/.*,release"
    )
    if ours:
        recorder = FailureRecorder(Config(), tracer_provider=provider, meter_provider=meters)
        instrument_app(app, boundary="resources_server", recorder=recorder)
    listening = socket.create_server((HOST, 0), backlog=BACKLOG)
    print(listening.getsockname()[1], flush=True)
    config = uvicorn.Config(app, http="httptools", ws="none", lifespan="off", log_config=None, access_log=False)
    uvicorn.Server(config).run([listening])


class Gate:
    """Holds back whoever comes, until it is opened."""

    def __init__(self) -> None:
        self.held = 0
        self._came = asyncio.Condition()
        self._opened = asyncio.Event()

    async def pass_through(self) -> None:
        """Wait until it is opened."""
        async with self._came:
            self.held += 1
            self._came.notify_all()
        await self._opened.wait()

    async def holds(self, count: int) -> None:
        """Wait until it holds back so many."""
        async with self._came:
            await self._came.wait_for(lambda: self.held >= count)

    def open(self) -> None:
        """Let all go."""
        self._opened.set()


def make_app(reader: InMemoryMetricReader) -> FastAPI:
    """Return an app that holds requests back, tells how it stands, and lets them go."""
    app = FastAPI()
    gates = [Gate()]

    @app.get("/held/{number}")
    async def hold(number: int) -> dict[str, int]:
        await gates[-1].pass_through()
        if number % ONE_IN == 0:
            error = FailureError(KIND, boundary="resources_server", reason=f"request {number}")
            if number % (2 * ONE_IN) == 0:
                raise error
            record_failure(error)
            await asyncio.sleep(0)  # All the others take their turns before this one answers.
        return {"number": number}

    @app.get("/state/{count}")
    async def state(count: int) -> dict[str, int]:
        await gates[-1].holds(count)
        gc.collect()
        return {"memory": psutil.Process().memory_info().rss, "counted": number_of(reader, semconv.METRIC_FAILURES)}

    @app.get("/release")
    async def release() -> None:
        gates.pop().open()
        gates.append(Gate())

    return app


def number_of(reader: InMemoryMetricReader, name: str) -> int:
    """Return the sum of a counter over all of its labels."""
    data = reader.get_metrics_data()
    found = [
        metric
        for resource_metrics in (data.resource_metrics if data else ())
        for scope_metrics in resource_metrics.scope_metrics
        for metric in scope_metrics.metrics
        if metric.name == name
    ]
    return sum(int(getattr(point, "value", 0)) for metric in found for point in metric.data.data_points)


def allow_descriptors() -> None:
    """Let this process have a socket for each request."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if most != resource.RLIM_INFINITY and most < DESCRIPTORS:
        raise SystemExit(f"the limit of open files is {most:,}, and {DESCRIPTORS:,} are needed")
    resource.setrlimit(resource.RLIMIT_NOFILE, (DESCRIPTORS, most))


if __name__ == "__main__":
    serve(ours=sys.argv[1] == "with")
