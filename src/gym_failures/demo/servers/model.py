"""The model server: it asks the provider, up to three times."""

from collections.abc import AsyncIterator
from typing import Any, Final

import aiohttp
from fastapi import FastAPI, Request
from starlette.responses import Response, StreamingResponse

from gym_failures.demo.peers import Peers, Work
from gym_failures.demo.servers.base import server, unless_gone
from gym_failures.demo.settings import Settings
from gym_failures.kinds import FailureBoundary
from gym_failures.operations import operation

_ATTEMPTS: Final = 3
_TOO_MANY_REQUESTS: Final = 429


def app(settings: Settings) -> FastAPI:
    """Return the app."""
    peers = Peers(settings)
    model = server(peers, FailureBoundary.MODEL)

    @model.post("/v1/responses", response_model=None)
    async def respond(work: Work, request: Request) -> Response | dict[str, Any]:
        if work.stream:
            # A stream that breaks takes its connection with it, which must not meet the next call by surprise.
            headers = {"connection": "close"}
            return StreamingResponse(_stream(peers, work), media_type="text/event-stream", headers=headers)
        return await unless_gone(request, _complete(peers, work))

    return model


async def _complete(peers: Peers, work: Work) -> dict[str, Any]:
    """Ask the provider; a quota that is used up and a lost connection are worth another attempt."""
    with operation():
        for attempts_left in reversed(range(_ATTEMPTS)):
            try:
                async with peers.post("provider", "/v1/chat/completions", work) as response:
                    if response.status == _TOO_MANY_REQUESTS and attempts_left:
                        continue
                    response.raise_for_status()
                    answer: dict[str, Any] = await response.json()
                    return answer
            except aiohttp.ClientConnectionError:
                if not attempts_left:
                    raise
    raise AssertionError("the last attempt returns or raises")


async def _stream(peers: Peers, work: Work) -> AsyncIterator[bytes]:
    async with peers.post("provider", "/v1/chat/completions", work) as response:
        async for chunk in response.content.iter_any():
            yield chunk
