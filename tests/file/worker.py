"""A server for processes of their own, each of which writes its spans to a file that is named after its process id.

`uvicorn tests.file.worker:app` serves it, and `python -m tests.file.worker COUNT` forks so many servers of it, after
the import and the instrumentation. The folder of the files is in the variable SPANS; where the delay of OpenTelemetry's
batches is set, spans are written in batches, else at once. Tests do not import it, because it
makes its tracer provider that of its process.
"""

import os
import socket
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import uvicorn
from fastapi import FastAPI
from opentelemetry import trace
from opentelemetry.exporter.otlp.json.file import FileSpanExporter
from opentelemetry.instrumentation.fastapi import FastAPIInstrumentor
from opentelemetry.sdk.environment_variables import OTEL_BSP_SCHEDULE_DELAY
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor

from gym_failures.errors import FailureError
from gym_failures.instrumentation import instrument_app
from gym_failures.recording import record_failure
from tests.file.processes import ATTEMPTS

HOST = "127.0.0.1"


@asynccontextmanager
async def lifespan(_: FastAPI) -> AsyncIterator[None]:
    """Open the file in the process that serves, whose parent may have imported this module."""
    path = Path(os.environ["SPANS"]) / f"{os.getpid()}.jsonl"
    processor = BatchSpanProcessor if OTEL_BSP_SCHEDULE_DELAY in os.environ else SimpleSpanProcessor
    provider.add_span_processor(processor(FileSpanExporter(path)))
    yield


provider = TracerProvider(resource=Resource({"service.name": "worker"}))
trace.set_tracer_provider(provider)
app = FastAPI(lifespan=lifespan)
FastAPIInstrumentor.instrument_app(app)
instrument_app(app, boundary="agent")


@app.post("/fail")
async def fail(gate: int | None = None):
    """Fail, after as many failures that were survived; with a gate, wait there in between."""
    for attempt in range(ATTEMPTS):
        record_failure(FailureError("agent_timeout", boundary="agent", reason=f"attempt {attempt}"))
    if gate is not None:
        wait_at(gate)
    cause = FailureError("provider_quota_exhausted", boundary="model")
    raise FailureError("agent_run_error", boundary="agent") from cause


def wait_at(gate: int) -> None:
    """Say who is here, and hold up this whole process until the gate is opened: it takes no other request meanwhile."""
    with socket.create_connection((HOST, gate)) as connection:
        connection.sendall(f"{os.getpid()}\n".encode())
        connection.recv(1)


def fork(count: int) -> None:
    """Fork servers while another thread is recording failures, so that they begin in the middle of one."""
    begun, enough = threading.Event(), threading.Event()
    recording = threading.Thread(target=record_until, args=(begun, enough))
    recording.start()
    begun.wait()
    listening = socket.create_server((HOST, 0))
    children = []
    for _ in range(count):
        child = os.fork()
        if child == 0:
            uvicorn.Server(uvicorn.Config(app)).run([listening])
            return
        children.append(child)
    print(f"running on http://{HOST}:{listening.getsockname()[1]}", file=sys.stderr, flush=True)  # noqa: T201 - as uvicorn
    enough.set()
    recording.join()
    for child in children:
        os.waitpid(child, 0)


def record_until(begun: threading.Event, enough: threading.Event) -> None:
    """Record one failure after the other."""
    while not enough.is_set():
        with trace.get_tracer(__name__).start_as_current_span("before the fork"):
            record_failure(FailureError("shutdown", boundary="agent"))
        begun.set()


if __name__ == "__main__":
    fork(int(sys.argv[1]))
