"""The server of the request benchmark: the same app with this package and without, side by side in one process.

Run as a script it serves until its input ends. The first line of output is two ports, without and with; then each line
of input is answered by one line: `time` by the processor's seconds that the process has used, `drive SIDE CASE COUNT`
by those that so many requests took which no server was between.
"""

import asyncio
import contextlib
import logging
import socket
import sys
import time
from collections.abc import MutableMapping, Sequence
from typing import Any, Final, NamedTuple

import uvicorn
from fastapi import FastAPI
from opentelemetry.instrumentation.fastapi import FastAPIInstrumentor
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from pydantic import BaseModel

from gym_failures.config import Config
from gym_failures.errors import FailureError
from gym_failures.instrumentation import instrument_app
from gym_failures.recorder import FailureRecorder

HOST: Final = "127.0.0.1"


class Message(BaseModel):
    """A turn of a conversation."""

    role: str
    content: str


class Run(BaseModel):
    """What an agent is asked for."""

    model: str
    input: list[Message]
    temperature: float | None = None


class Result(BaseModel):
    """What it answers."""

    reward: float
    output: list[Message]


class Case(NamedTuple):
    """One request."""

    name: str
    method: str
    path: str
    body: bytes = b""
    status: int = 200

    @property
    def headers(self) -> list[tuple[bytes, bytes]]:
        """Return the headers that a traced client of this kind sends."""
        return [
            (b"host", HOST.encode()),
            (b"accept", b"*/*"),
            (b"accept-encoding", b"gzip, deflate"),
            (b"user-agent", b"python/3 aiohttp/3"),
            (b"traceparent", b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
            (b"content-length", str(len(self.body)).encode()),
            (b"content-type", b"application/json"),
        ]


_RUN: Final = Run(model="policy", input=[Message(role="user", content="What is 6 times 7? " * 20)] * 8)

CASES: Final = (
    Case("GET that returns a dict", "GET", "/health"),
    Case("POST of a model, a model back", "POST", "/run", _RUN.model_dump_json().encode()),
    Case("POST that fails", "POST", "/fail", _RUN.model_dump_json().encode(), 500),
)


class Nowhere(SpanExporter):
    """Takes spans and drops them."""

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Drop them."""
        return SpanExportResult.SUCCESS if spans else SpanExportResult.FAILURE


def make_app(*, ours: bool) -> FastAPI:
    """Return an app as a user writes it, instrumented by OpenTelemetry and, if so, by this package."""
    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(Nowhere()))
    meters = MeterProvider([InMemoryMetricReader()])
    app = FastAPI()

    @app.get("/health")
    async def health() -> dict[str, str]:
        return {"status": "ok"}

    @app.post("/run")
    async def run(body: Run) -> Result:
        return Result(reward=1.0, output=body.input)

    @app.post("/fail")
    async def fail(body: Run) -> Result:
        raise FailureError("verifier_error", boundary="resources_server", reason=f"{body.model} gives no answer")

    FastAPIInstrumentor.instrument_app(app, tracer_provider=provider, meter_provider=meters)
    if ours:
        recorder = FailureRecorder(Config(), tracer_provider=provider, meter_provider=meters)
        instrument_app(app, boundary="agent", recorder=recorder)
    return app


async def call(app: FastAPI, case: Case) -> None:
    """Hand the app one request, message by message, and take the reply."""
    scope = {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "server": (HOST, 8000),
        "client": (HOST, 40_000),
        "scheme": "http",
        "method": case.method,
        "root_path": "",
        "path": case.path,
        "raw_path": case.path.encode(),
        "query_string": b"",
        "headers": case.headers,
        "state": {},
    }
    status = 0

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": case.body, "more_body": False}

    async def send(message: MutableMapping[str, Any]) -> None:
        nonlocal status
        status = message.get("status", status)

    with contextlib.suppress(FailureError):  # Starlette has answered, and hands it on for the server's log.
        await app(scope, receive, send)
    if status != case.status:
        raise RuntimeError(f"{case.name}: status {status}")


async def answer(line: bytes, apps: Sequence[FastAPI]) -> str:
    """Return the answer to a line of input."""
    if line == b"time\n":
        return str(time.process_time())
    side, number, count = map(int, line.split()[1:])
    begun = time.process_time()
    for _ in range(count):
        await call(apps[side], CASES[number])
    return str(time.process_time() - begun)


async def serve() -> None:
    """Serve until the input ends."""
    apps = [make_app(ours=False), make_app(ours=True)]
    # Named TCP, as uvicorn's own sockets are: only then asyncio sends a reply's head and body without delay.
    sockets = [socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP) for _ in apps]
    servers = []
    for app, listening in zip(apps, sockets, strict=True):
        listening.bind((HOST, 0))
        config = uvicorn.Config(app, http="httptools", ws="none", lifespan="off", log_config=None, access_log=False)
        servers.append(uvicorn.Server(config))
    serving = asyncio.gather(*(server.serve([one]) for server, one in zip(servers, sockets, strict=True)))
    lines = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    print(*(listening.getsockname()[1] for listening in sockets), flush=True)
    while line := await lines.readline():
        print(await answer(line, apps), flush=True)
    for server in servers:
        server.should_exit = True
    await serving


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    asyncio.run(serve())
