"""What the servers of the demo share: how they are traced, and that they stop when nobody waits for them."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from fastapi import FastAPI, Request
from opentelemetry.instrumentation.aiohttp_client import AioHttpClientInstrumentor
from opentelemetry.instrumentation.fastapi import FastAPIInstrumentor
from starlette.middleware.base import RequestResponseEndpoint
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse, Response

from gym_failures.demo.peers import Peers
from gym_failures.instrumentation import instrument_app
from gym_failures.instrumentation.aiohttp_client import instrument_aiohttp
from gym_failures.instrumentation.asgi.scope import Scope
from gym_failures.kinds import FailureBoundary, FailureStage

_T = TypeVar("_T")


def server(
    peers: Peers,
    boundary: FailureBoundary,
    *,
    stage: FailureStage | Callable[[Scope], FailureStage | None] | None = None,
) -> FastAPI:
    """Return an app that stands at `boundary`, with OpenTelemetry and this package at work."""
    app = traced(peers)
    instrument_app(app, boundary=boundary, stage=stage)
    instrument_aiohttp(boundary=boundary)
    return app


def traced(peers: Peers) -> FastAPI:
    """Return an app that OpenTelemetry alone has instrumented."""
    app = FastAPI(lifespan=lambda _: peers.connected())
    app.middleware("http")(_answer_exceptions)
    FastAPIInstrumentor.instrument_app(app, exclude_spans=["receive", "send"])
    AioHttpClientInstrumentor().instrument()
    return app


async def _answer_exceptions(request: Request, call_next: RequestResponseEndpoint) -> Response:
    """Make a reply of any exception, as the servers of NeMo Gym do; uvicorn would close the connection after it."""
    try:
        return await call_next(request)
    except Exception as error:  # noqa: BLE001 - that is its purpose
        return JSONResponse({"error": type(error).__name__}, status_code=500)


async def unless_gone(request: Request, work: Coroutine[Any, Any, _T]) -> _T:
    """Return the result of `work`, or call it off when the client has gone, as the servers of NeMo Gym do."""
    working = asyncio.ensure_future(work)
    leaving = asyncio.ensure_future(_gone(request))
    try:
        await asyncio.wait({working, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            return working.result()
    finally:
        for task in (working, leaving):
            task.cancel()
        await asyncio.gather(working, leaving, return_exceptions=True)
    raise ClientDisconnect


async def _gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
