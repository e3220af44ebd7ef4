"""What a request costs with this package, beside the same request that only OpenTelemetry instruments.

One FastAPI app is driven as a server drives it, message by message, so that no socket hides the cost. Rounds alternate
between the app as OpenTelemetry leaves it and the same app with this package put in; each ratio is the median of the
rounds' own ratios, in time of the processor. Exits with status 1 when a request in which nothing fails costs more than
the design allows; one that fails is shown beside it.
"""

import asyncio
import contextlib
import gc
import logging
import statistics
import sys
import time
from collections.abc import MutableMapping, Sequence
from typing import Any, Final, NamedTuple

from fastapi import FastAPI
from opentelemetry.instrumentation.fastapi import FastAPIInstrumentor
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from pydantic import BaseModel

from gym_failures.config import Config
from gym_failures.errors import FailureError
from gym_failures.instrumentation import instrument_app, uninstrument_app
from gym_failures.recorder import FailureRecorder

ROUNDS: Final = 60
CALLS: Final = 60
WARM_UP: Final = 10
"""Requests after each change of sides, which do not count: the stack of middleware is new."""
BUDGET: Final = 1.03
FAILED: Final = 500


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


RUN: Final = Run(model="policy", input=[Message(role="user", content="What is 6 times 7? " * 20)] * 8)


class Case(NamedTuple):
    """One request."""

    name: str
    method: str
    path: str
    body: bytes = b""
    status: int = 200


CASES: Final = (
    Case("GET that returns a dict", "GET", "/health"),
    Case("POST of a model, a model back", "POST", "/run", RUN.model_dump_json().encode()),
    Case("POST that fails", "POST", "/fail", RUN.model_dump_json().encode(), FAILED),
)


class Nowhere(SpanExporter):
    """Takes what the other thread hands it, whose time is not the request's."""

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Drop them."""
        return SpanExportResult.SUCCESS if spans else SpanExportResult.FAILURE


def make_app() -> FastAPI:
    """Return an app as a user writes it."""
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

    return app


async def call(app: FastAPI, case: Case) -> None:
    """Send one request, with the headers that a client of this kind sends, and take the reply."""
    headers = [
        (b"host", b"127.0.0.1:8000"),
        (b"accept", b"*/*"),
        (b"accept-encoding", b"gzip, deflate"),
        (b"user-agent", b"python/3 aiohttp/3"),
        (b"traceparent", b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
        (b"content-length", str(len(case.body)).encode()),
        (b"content-type", b"application/json"),
    ]
    scope = {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "server": ("127.0.0.1", 8000),
        "client": ("127.0.0.1", 40_000),
        "scheme": "http",
        "method": case.method,
        "root_path": "",
        "path": case.path,
        "raw_path": case.path.encode(),
        "query_string": b"",
        "headers": headers,
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


async def microseconds(app: FastAPI, case: Case) -> float:
    """Return the processor's time of one request."""
    for _ in range(WARM_UP):
        await call(app, case)
    gc.collect()
    begun = time.thread_time()
    for _ in range(CALLS):
        await call(app, case)
    return (time.thread_time() - begun) / CALLS * 1e6


async def main() -> int:
    """Print the table; return 1 when the budget does not hold."""
    logging.disable(logging.CRITICAL)
    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(Nowhere()))
    meters = MeterProvider([InMemoryMetricReader()])
    recorder = FailureRecorder(Config(), tracer_provider=provider, meter_provider=meters)
    app = make_app()
    FastAPIInstrumentor.instrument_app(app, tracer_provider=provider, meter_provider=meters)
    # A collection of one side's garbage must not fall into the other's time.
    gc.collect()
    gc.freeze()
    gc.disable()
    print(f"{'microseconds':<32}{'OpenTelemetry':>14}{'with ours':>11}{'ratio':>8}  budget")
    holds = True
    for case in CASES:
        bare, ours = [], []
        for _ in range(ROUNDS):
            bare.append(await microseconds(app, case))
            instrument_app(app, boundary="agent", recorder=recorder)
            ours.append(await microseconds(app, case))
            uninstrument_app(app)
        ratio = statistics.median(mine / theirs for mine, theirs in zip(ours, bare, strict=True))
        row = f"{case.name:<32}{statistics.median(bare):>14.1f}{statistics.median(ours):>11.1f}{ratio:>8.3f}"
        if case.status == FAILED:
            print(f"{row}  shown")
            continue
        print(f"{row}  <= {BUDGET:.2f}  {'holds' if ratio <= BUDGET else 'MISSED'}")
        holds = holds and ratio <= BUDGET
    provider.shutdown()
    meters.shutdown()
    return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
