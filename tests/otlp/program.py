"""A program whose Collector is unreachable: it serves requests that fail, shuts down, and prints as JSON how that went.

It does so first without this package. Nothing is exported before the end, so what it holds changes by nothing else.
"""

import asyncio
import atexit
import json
import socket
import sys
import threading

import httpx
import psutil
from fastapi import FastAPI
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.instrumentation.fastapi import FastAPIInstrumentor
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

REQUESTS = 20
NEVER = 3_600_000  # milliseconds until a batch is exported that nobody asked for


async def fail() -> None:
    """Fail."""
    raise LookupError


async def answers(app: FastAPI) -> dict[str, object]:
    """Send requests, and return the statuses of their replies and how many had a report."""
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://app") as client:
        replies = [await client.get("/") for _ in range(REQUESTS)]
    return {
        "statuses": [reply.status_code for reply in replies],
        "reports": sum("gym-failure-report" in reply.headers for reply in replies),
    }


def held() -> dict[str, object]:
    """Return what this process must wait for, call or give back when it ends."""
    return {
        "threads": sorted(thread.name for thread in threading.enumerate()),
        "called at exit": atexit._ncallbacks(),
        "called at the exit of threads": len(threading._threading_atexits),
        "open files": psutil.Process().num_fds(),
    }


def instrument(provider: TracerProvider) -> None:
    """Import this package only now, and let it instrument everything."""
    from gym_failures.instrumentation.instrumentor import GymFailuresInstrumentor  # noqa: PLC0415

    GymFailuresInstrumentor().instrument(boundary="agent", tracer_provider=provider)


def main() -> dict[str, object]:
    """Return what was held and answered without this package, and with it."""
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))  # Held, so that nobody else comes to listen there.
        exporter = OTLPSpanExporter(f"http://127.0.0.1:{closed.getsockname()[1]}/v1/traces", timeout=0.5)
        processor = BatchSpanProcessor(exporter, schedule_delay_millis=NEVER)
        provider = TracerProvider()
        provider.add_span_processor(processor)
        app = FastAPI()
        app.get("/")(fail)
        FastAPIInstrumentor.instrument_app(app, tracer_provider=provider)
        sides = {}
        for side in ("without", "with"):
            if side == "with":
                assert not any(name.startswith("gym_failures") for name in sys.modules)
                instrument(provider)
            sides[side] = {**asyncio.run(answers(app)), "held": held()}
        provider.shutdown()
    return sides


if __name__ == "__main__":
    print(json.dumps(main()))  # noqa: T201 - the test reads it
