"""The two ends of the load on NeMo Gym: rollouts that call its servers, and a provider of models behind these.

The provider receives the spans of the servers too.
"""

import asyncio
import json
import os
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

from aiohttp import web
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

HOST: Final = "127.0.0.1"
CONNECTING: Final = 256
"""Connections that are made at a time; more could be refused."""
PATIENCE: Final = 60
"""Longest time that spans may be on their way after a round, in seconds."""
OK: Final = 200

_TEXT: Final = "What is 6 times 7, and why? Think step by step. " * 10
QUESTION: Final = {"input": [{"role": "user", "content": _TEXT}] * 8, "temperature": 1.0}
ANSWER: Final = {
    "id": "resp_1",
    "object": "response",
    "created_at": 1.0,
    "model": "stand-in",
    "output": [
        {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "status": "completed",
            "content": [{"type": "output_text", "text": _TEXT, "annotations": []}],
        }
    ],
    "parallel_tool_calls": False,
    "tool_choice": "auto",
    "tools": [],
    "usage": {
        "input_tokens": 1,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": 1,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": 2,
    },
}
ASKED: Final = {
    "model": ("/v1/responses", json.dumps(QUESTION).encode()),
    "resources": ("/verify", json.dumps({"responses_create_params": QUESTION, "response": ANSWER}).encode()),
}
"""What a rollout asks of each server: the path behind the rollout's prefix, and the body."""


class Provider:
    """Answers requests when as many are there as it holds back, and counts the spans that come, by side."""

    def __init__(self) -> None:
        """Hold nothing back."""
        self.spans: Counter[int] = Counter()
        self._came = asyncio.Condition()
        self._count = 0
        self._full: Callable[[], None] | None = None
        self._held: list[asyncio.Future[None]] = []

    def hold(self, count: int, full: Callable[[], None]) -> None:
        """Hold the next `count` requests back until all are there; then call `full` and answer them."""
        self._count, self._full = count, full

    async def has_received(self, side: int, count: int) -> None:
        """Wait until so many spans of a side have come; raises TimeoutError when they do not."""
        async with asyncio.timeout(PATIENCE), self._came:
            await self._came.wait_for(lambda: self.spans[side] >= count)

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[int]:
        """Serve within the block, and give the port."""
        app = web.Application(client_max_size=2**26)
        app.router.add_post("/v1/responses", self._answer)
        app.router.add_post("/{side}/v1/traces", self._receive)
        # NeMo Gym keeps its connections for the next round.
        runner = web.AppRunner(app, access_log=None, keepalive_timeout=600, shutdown_timeout=0.5)
        await runner.setup()
        await web.TCPSite(runner, HOST, 0, backlog=4_096).start()
        try:
            yield runner.addresses[0][1]
        finally:
            await runner.cleanup()

    async def _answer(self, request: web.Request) -> web.Response:
        await request.read()
        if self._full is not None:
            here: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._held.append(here)
            if len(self._held) == self._count:
                self._full()
                self._full = None
                for one in self._held:
                    one.set_result(None)
                self._held = []
            await here
        return web.json_response(ANSWER)

    async def _receive(self, request: web.Request) -> web.Response:
        found = ExportTraceServiceRequest.FromString(await request.read())
        count = sum(len(scope.spans) for resource in found.resource_spans for scope in resource.scope_spans)
        async with self._came:
            self.spans[int(request.match_info["side"])] += count
            self._came.notify_all()
        return web.Response()


class Rollout(asyncio.Protocol):
    """A connection to a server over which one rollout makes its call."""

    def __init__(self) -> None:
        """Have asked nothing yet."""
        self._transport: Any = None
        self._received = b""
        self._asked = 0.0
        self._took: asyncio.Future[float] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the connection."""
        self._transport = transport

    def ask(self, request: bytes) -> asyncio.Future[float]:
        """Send a request; gives the seconds until the whole reply was there."""
        self._asked = time.perf_counter()
        self._transport.write(request)
        return self._took

    def data_received(self, data: bytes) -> None:
        """Keep a part of the reply; of any that is not well, the call ends with it as an error."""
        self._received += data
        head, found, body = self._received.partition(b"\r\n\r\n")
        if not found or self._took.done():
            return
        lines = head.lower().split(b"\r\n")
        length = next(int(line[15:]) for line in lines if line.startswith(b"content-length:"))
        if len(body) < length:
            return
        if int(lines[0].split()[1]) == OK:
            self._took.set_result(time.perf_counter() - self._asked)
        else:
            self._took.set_exception(RuntimeError(self._received.decode(errors="replace")[:2_000]))

    def connection_lost(self, exc: Exception | None) -> None:
        """End a call that has no reply yet."""
        if not self._took.done():
            self._took.set_exception(exc or ConnectionError("the server closed the connection"))

    def close(self) -> None:
        """Leave the server."""
        self._transport.close()


@asynccontextmanager
async def connected(port: int, count: int) -> AsyncIterator[list[Rollout]]:
    """Give so many connections to a server within the block."""
    connecting = asyncio.Semaphore(CONNECTING)
    loop = asyncio.get_running_loop()

    async def connect() -> Rollout:
        async with connecting:
            return (await loop.create_connection(Rollout, HOST, port))[1]

    rollouts = await asyncio.gather(*(connect() for _ in range(count)))
    try:
        yield rollouts
    finally:
        for rollout in rollouts:
            rollout.close()


def requests(server: str, count: int) -> Iterator[bytes]:
    """Yield what each rollout sends to a server: each is one of its own, and is traced."""
    path, body = ASKED[server]
    for number in range(count):
        yield (
            f"POST /ng-rollout/{number}-0{path} HTTP/1.1\r\nhost: {HOST}\r\naccept: */*\r\n"
            f"user-agent: python/3 aiohttp/3\r\ntraceparent: 00-{os.urandom(16).hex()}-{os.urandom(8).hex()}-01\r\n"
            f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
        ).encode() + body


async def ask_at_once(rollouts: Sequence[Rollout], asked: Sequence[bytes]) -> list[float]:
    """Have all rollouts ask; return how long each waited for its reply, in seconds."""
    return list(await asyncio.gather(*(one.ask(request) for one, request in zip(rollouts, asked, strict=True))))
