"""16,000 requests in flight against one server, of which one in twenty fails; no report may reach another request.

The server is a uvicorn process of its own, with a FastAPI app that OpenTelemetry instruments. It holds every request
until all have arrived, and then lets them go at once. Each that fails has a reason of its own, and so has each failure
that a request observes and survives. Beside it, in the same run, the same server without this package: the difference
in resident memory is what one request in flight costs. Exits with status 1 when a reply carries anything but its own
failures, when the counters say something else, or when the memory is over the budget.
"""

import asyncio
import gc
import json
import logging
import resource
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

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
from gym_failures.header import decode_report
from gym_failures.instrumentation import instrument_app
from gym_failures.recorder import FailureRecorder
from gym_failures.recording import record_failure

REQUESTS: Final = 16_000
ONE_IN: Final = 20
"""Of so many requests one fails; of these, every other one survives what it observed and answers 200."""
BUDGET_BYTES: Final = 2_048
"""Most memory of ours, a request in flight."""
WARM_UP: Final = 400
CONNECTING: Final = 256
"""Connections that are opened at the same time; more than a server's backlog holds would be refused."""
DESCRIPTORS: Final = REQUESTS + 1_000
HOST: Final = "127.0.0.1"
SIDES: Final = ("without", "with")
KIND: Final = "verifier_error"


def main() -> int:
    """Print the table; return 1 when a reply is wrong or the budget does not hold."""
    if len(sys.argv) > 1:
        serve(ours=sys.argv[1] == "with")
        return 0
    allow_descriptors()
    runs = {side: asyncio.run(load(side)) for side in SIDES}
    print(f"{REQUESTS:,} in flight{'':<10}" + "".join(f"{side:>12}" for side in SIDES))
    for name in ("bytes a request in flight", "replies", "status 500", "with a report", "crossed or wrong", "counted"):
        print(f"{name:<26}" + "".join(f"{runs[side].row(name):>12,}" for side in SIDES))
    share = runs["with"].bytes_each - runs["without"].bytes_each
    failing = REQUESTS // ONE_IN
    checks = {
        "every failing request has its own report": runs["with"].reports == failing,
        "no reply carries another request's failure": not any(run.wrong for run in runs.values()),
        "every failure is counted once": runs["with"].counted == failing,
        "replies are the same on both sides": runs["with"].statuses == runs["without"].statuses,
        f"ours a request: {share:,} bytes, at most {BUDGET_BYTES:,}": share <= BUDGET_BYTES,
    }
    for name, holds in checks.items():
        print(f"{name:<50}{'holds' if holds else 'MISSED'}")
    return 0 if all(checks.values()) else 1


# --- The server -------------------------------------------------------------------------------------------------------


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
    listening = socket.create_server((HOST, 0), backlog=CONNECTING)
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


# --- The client -------------------------------------------------------------------------------------------------------


class Run(NamedTuple):
    """What one server did."""

    bytes_each: int
    """Resident memory that one request in flight takes."""
    statuses: Counter[int]
    reports: int
    wrong: int
    """Replies with anything but their own failure."""
    counted: int

    def row(self, name: str) -> int:
        """Return the number that the table shows under `name`."""
        return {
            "bytes a request in flight": self.bytes_each,
            "replies": self.statuses.total(),
            "status 500": self.statuses[500],
            "with a report": self.reports,
            "crossed or wrong": self.wrong,
            "counted": self.counted,
        }[name]


class Exchange(asyncio.Protocol):
    """One request on a connection of its own, and all that comes back."""

    def __init__(self, path: str) -> None:
        self._request = f"GET {path} HTTP/1.1\r\nhost: {HOST}\r\nconnection: close\r\n\r\n".encode()
        self._received = b""
        self.reply: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send the request."""
        transport.write(self._request)  # type: ignore[attr-defined]

    def data_received(self, data: bytes) -> None:
        """Keep a part of the reply."""
        self._received += data

    def connection_lost(self, exc: Exception | None) -> None:
        """Give the reply, which ends with the connection."""
        if exc is None:
            self.reply.set_result(self._received)
        else:
            self.reply.set_exception(exc)


async def load(side: str) -> Run:
    """Hold all requests in a new server, let them go, and look at every reply."""
    with served(side) as port:
        await held(port, range(1, WARM_UP + 1))
        before = json.loads(body_of(await ask(port, "/state/0")))
        full, replies = await held(port, range(1, REQUESTS + 1))
        after = json.loads(body_of(await ask(port, "/state/0")))
    checked = [verdict(number, reply, ours=side == "with") for number, reply in enumerate(replies, 1)]
    return Run(
        bytes_each=(full["memory"] - before["memory"]) // REQUESTS,
        statuses=Counter(status_of(reply) for reply in replies),
        reports=sum(report for report, _ in checked),
        wrong=sum(not right for _, right in checked),
        counted=after["counted"] - before["counted"],
    )


async def held(port: int, numbers: range) -> tuple[dict[str, int], list[bytes]]:
    """Return how the server stands with all those requests in flight, and then their replies."""
    connecting = asyncio.Semaphore(CONNECTING)

    async def begin(number: int) -> asyncio.Future[bytes]:
        async with connecting:
            return await connect(port, f"/held/{number}")

    replies = await asyncio.gather(*(begin(number) for number in numbers))
    state = json.loads(body_of(await ask(port, f"/state/{len(numbers)}")))
    await ask(port, "/release")
    return state, await asyncio.gather(*replies)


async def connect(port: int, path: str) -> asyncio.Future[bytes]:
    """Send a request, and return what will be its reply."""
    loop = asyncio.get_running_loop()
    _, exchange = await loop.create_connection(lambda: Exchange(path), HOST, port)
    return exchange.reply


async def ask(port: int, path: str) -> bytes:
    """Send a request and return its reply."""
    return await (await connect(port, path))


def status_of(reply: bytes) -> int:
    """Return the status in a reply's first line."""
    return int(reply.split(b" ", 2)[1])


def body_of(reply: bytes) -> bytes:
    """Return what follows a reply's headers."""
    return reply.partition(b"\r\n\r\n")[2]


def verdict(number: int, reply: bytes, *, ours: bool) -> tuple[bool, bool]:
    """Return whether a reply carries a report, and whether it is the one that this request must have, or none."""
    head = reply.partition(b"\r\n\r\n")[0].decode("latin-1").split("\r\n")
    prefix = f"{semconv.HEADER_NAME}: "
    values = [line.removeprefix(prefix) for line in head if line.startswith(prefix)]
    reports = [decode_report(value) for value in values]
    found: list[Any] = [
        (event.failure_kind, event.failure_reason, event.event_id == report.failure_id)
        for report in reports
        if report is not None
        for event in report.events.values()
    ]
    fails = ours and number % ONE_IN == 0
    expected = [(KIND, f"request {number}", number % (2 * ONE_IN) == 0)] if fails else []
    return bool(values), found == expected


@contextmanager
def served(side: str) -> Iterator[int]:
    """Give the port of a new server process within the block."""
    command = [sys.executable, __file__, side]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:  # noqa: S603 - this very file
        try:
            assert server.stdout is not None  # noqa: S101 - it is a pipe
            yield int(server.stdout.readline())
        finally:
            server.kill()


def allow_descriptors() -> None:
    """Let this process have a socket for each request."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if most != resource.RLIM_INFINITY and most < DESCRIPTORS:
        raise SystemExit(f"the limit of open files is {most:,}, and {DESCRIPTORS:,} are needed")
    resource.setrlimit(resource.RLIMIT_NOFILE, (DESCRIPTORS, most))


if __name__ == "__main__":
    sys.exit(main())
