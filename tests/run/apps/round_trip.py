"""A program that serves an app and calls it, and prints as JSON what came back and what it has imported by then.

LIFESPAN=off serves without the app's lifespan. PROVIDER=own sets a TracerProvider in it.
"""

import asyncio
import json
import os
import socket
import sys
from contextlib import asynccontextmanager

import aiohttp
import uvicorn
from fastapi import FastAPI

if os.environ.get("PROVIDER") == "own":
    from opentelemetry import trace
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

begun = asyncio.Event()
finished = []
WATCHED = ("gym_failures", "opentelemetry.context", "opentelemetry.sdk.metrics", "pydantic", "wrapt")


@asynccontextmanager
async def lifespan(_):
    """Set the program's own provider, if it has one."""
    if os.environ.get("PROVIDER") == "own":
        exporter = InMemorySpanExporter()
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(exporter))
        trace.set_tracer_provider(provider)
        begun.set()
        yield
        finished.extend(sorted(span.name for span in exporter.get_finished_spans()))
    else:
        begun.set()
        yield


app = FastAPI(lifespan=lifespan)


@app.get("/fail")
async def fail():
    """Fail."""
    raise ConnectionRefusedError("down")


async def main():
    """Serve, call, and tell."""
    listening = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_config=None, lifespan=os.environ.get("LIFESPAN", "auto")))
    serving = asyncio.ensure_future(server.serve([listening]))
    if server.config.lifespan != "off":
        await begun.wait()
    url = f"http://127.0.0.1:{listening.getsockname()[1]}/fail"
    async with aiohttp.ClientSession() as session, session.get(url) as reply:
        told = {"status": reply.status, "body": await reply.text(), "report": reply.headers.get("gym-failure-report")}
    server.should_exit = True
    await serving
    told["finished"] = finished
    told["loaders"] = [type(aiohttp.__loader__).__name__, type(aiohttp.__spec__.loader).__name__]
    told["imported"] = {name: sys.modules[name].__file__ for name in WATCHED if name in sys.modules}
    print(json.dumps(told))  # noqa: T201 - the test reads it


if __name__ == "__main__":
    asyncio.run(main())
