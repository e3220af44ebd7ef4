"""A program in which exceptions leave all that OpenTelemetry can stand around, and that prints what came out as JSON.

Its argument is the text of the exceptions; without one they have no text at all. PROVIDER=own sets a TracerProvider.
"""

import asyncio
import json
import os
import sys

import aiohttp
from fastapi import BackgroundTasks, FastAPI
from fastapi.responses import JSONResponse, Response
from opentelemetry import trace

if os.environ.get("PROVIDER") == "own":
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    trace.set_tracer_provider(provider)


class FailedError(Exception):
    """An error with the text that was asked for, or one that breaks over it as aiohttp's do without a request."""

    def __str__(self):
        """Return the text, if there is one."""
        return sys.argv[1]


class Broken(Response):
    """A reply that breaks after its first part."""

    async def __call__(self, scope, receive, send):  # noqa: ARG002 - ASGI
        """Send that part."""
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"data: 1", "more_body": True})
        raise FailedError


tracer = trace.get_tracer("program")
app = FastAPI()
handling = FastAPI()


@app.get("/raised")
@handling.get("/handled")
async def raised():
    """Fail."""
    raise FailedError


@app.get("/caused")
async def caused():
    """Fail because of something."""
    raise FailedError from ValueError("x")


@app.get("/streamed")
async def streamed():
    """Fail in the middle of a reply."""
    return Broken()


@app.get("/afterwards")
async def afterwards(tasks: BackgroundTasks):
    """Fail after the reply."""
    tasks.add_task(raised)


@handling.exception_handler(Exception)
async def handle(_, error):
    """Answer with the name of what was raised."""
    return JSONResponse(type(error).__name__, 500)


async def asked(path):
    """Call an app as a server does, and return all that it sent and what left it."""
    sent, requests = [], [{"type": "http.request", "body": b""}]

    async def receive():
        while not requests:
            await asyncio.Event().wait()
        return requests.pop()

    async def send(message):
        sent.append(message.get("status") or message["body"].decode())

    scope = {"type": "http", "method": "GET", "path": path, "raw_path": path.encode(), "query_string": b""}
    scope |= {"headers": [], "http_version": "1.1", "scheme": "http", "server": ("s", 80), "client": ("c", 1)}
    try:
        await (handling if path == "/handled" else app)(scope, receive, send)
    except Exception as error:  # noqa: BLE001 - whatever it is, is told
        return [*sent, type(error).__name__]
    return sent


async def called():
    """Make a call that fails before it is under way."""

    class Connector(aiohttp.TCPConnector):
        async def connect(self, *_, **__):
            raise FailedError

    async with aiohttp.ClientSession(connector=Connector()) as session, session.get("http://127.0.0.1/"):
        pass


def in_a_span():
    """Fail in a span of the program's own."""
    with tracer.start_as_current_span("in_a_span"):
        raise FailedError


def in_a_block():
    """Fail in a span that is no current one."""
    with tracer.start_span("in_a_block"):
        raise FailedError


def in_use():
    """Fail in a span that was opened elsewhere."""
    with trace.use_span(tracer.start_span("in_use"), end_on_exit=True):
        raise FailedError


def left_of(function):
    """Return the name of the exception that leaves a function."""
    try:
        result = function()
        if result is not None:
            asyncio.run(result)
    except Exception as error:  # noqa: BLE001 - whatever it is, is told
        return type(error).__name__
    return None


told = {path: asyncio.run(asked(path)) for path in ("/raised", "/caused", "/streamed", "/afterwards", "/handled")} | {
    function.__name__: left_of(function) for function in (called, in_a_span, in_a_block, in_use)
}
if os.environ.get("PROVIDER") == "own":
    told["spans"] = [json.loads(span.to_json()) for span in exporter.get_finished_spans()]
print(json.dumps(told))  # noqa: T201 - the test reads it
