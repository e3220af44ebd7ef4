"""A stand-in for a provider of models: it knows nothing of Gym, of tracing, or of this package."""

import asyncio
import json
import socket
import struct
from collections import Counter
from typing import Final

from aiohttp import web

from gym_failures.demo import plan

_UNAUTHORIZED: Final = 401
_TOO_MANY_REQUESTS: Final = 429
_RESET: Final = struct.pack("ii", 1, 0)
"""SO_LINGER with no time to linger: closing the socket resets the connection."""
_LONGEST: Final = 60.0
"""How long an answer that nobody is meant to wait for takes, in seconds."""


class Provider:
    """Answers by the fault of the rollout that asks."""

    def __init__(self) -> None:
        """Know of no rollout yet."""
        self._seen: Counter[str] = Counter()
        self._arrived: dict[str, asyncio.Event] = {}

    def app(self) -> web.Application:
        """Return the app to serve."""
        app = web.Application()
        app.router.add_post("/v1/chat/completions", self._complete)
        app.router.add_get("/arrived/{rollout}", self._wait)
        return app

    async def _complete(self, request: web.Request) -> web.StreamResponse:
        work = await request.json()
        rollout, fault = work["rollout_id"], work["fault"]
        self._seen[rollout] += 1
        self._event(rollout).set()
        if fault == plan.PROVIDER_401:
            return web.json_response({"error": "the key is not valid"}, status=_UNAUTHORIZED)
        if fault == plan.PROVIDER_429:
            return web.json_response({"error": "the quota is used up"}, status=_TOO_MANY_REQUESTS)
        if fault == plan.CONNECTION_RESET and self._seen[rollout] == 1:
            _reset(request)
        if fault in {plan.AGENT_TIMEOUT, plan.CLIENT_CANCEL}:
            await asyncio.sleep(_LONGEST)
        if work["stream"]:
            return await _stream(request, breaks=fault == plan.STREAM_BROKEN)
        is_silent = fault == plan.JUDGE_UNPARSEABLE and work["text"].startswith("Judge")
        return web.json_response({"text": "It depends." if is_silent else "1.0"})

    async def _wait(self, request: web.Request) -> web.Response:
        """Answer when a rollout's request has come in."""
        await self._event(request.match_info["rollout"]).wait()
        return web.Response()

    def _event(self, rollout: str) -> asyncio.Event:
        return self._arrived.setdefault(rollout, asyncio.Event())


async def _stream(request: web.Request, *, breaks: bool) -> web.StreamResponse:
    response = web.StreamResponse(headers={"content-type": "text/event-stream"})
    await response.prepare(request)
    for number, word in enumerate(("so", "here", "it", "is")):
        if breaks and number == 2:  # noqa: PLR2004 - half of them
            _reset(request)
            break
        await response.write(f"data: {json.dumps({'text': word})}\n\n".encode())
    return response


def _reset(request: web.Request) -> None:
    transport = request.transport
    if transport is not None:
        transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        transport.abort()


async def serve(listening: socket.socket, stop: asyncio.Event) -> None:
    """Serve on a socket until told to stop."""
    runner = web.AppRunner(Provider().app(), handler_cancellation=True, shutdown_timeout=1.0)
    await runner.setup()
    await web.SockSite(runner, listening).start()
    print("ready", flush=True)  # noqa: T201 - whoever started this process reads it
    await stop.wait()
    await runner.cleanup()
