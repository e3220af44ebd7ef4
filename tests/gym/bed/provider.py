"""A stand-in for what lies around NeMo Gym: a provider of models that fails on demand, and a receiver of metrics.

It serves on loopback from a thread of the tests' process, and knows nothing of NeMo Gym, of tracing or of this package.
"""

import asyncio
import json
import re
import threading
from collections import Counter, defaultdict

from aiohttp import web

REFUSALS = {
    # No code and no text by which NeMo Gym's client would give the provider up for good.
    "m401": (401, {"message": "this key may not", "code": "denied"}),
    "mlate": (401, {"message": "this key may not", "code": "denied"}),
    "m429": (429, {"message": "slow down", "code": "rate_limit_exceeded"}),
    "m500": (500, {"message": "oops"}),
}
"""What the provider answers to a fault: a status, and the error of OpenAI's form."""

PATIENCE = 60.0
"""Longest time that it takes to begin and to end, in seconds."""

DROPPED = 3
"""Connections that `mdrop3` loses."""


class Provider:
    """Serves within a `with` block; `url` is where."""

    def __init__(self):
        """Have seen nothing."""
        self.seen = Counter()
        """Requests by scenario and path."""
        self.metrics = []
        """Bodies of the exports of metrics, as they came."""
        self._signals = defaultdict(asyncio.Event)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def __enter__(self):
        """Serve."""
        self._thread.start()
        self._runner, self.url = asyncio.run_coroutine_threadsafe(self._start(), self._loop).result(PATIENCE)
        return self

    def __exit__(self, *_):
        """Stop."""
        asyncio.run_coroutine_threadsafe(self._runner.cleanup(), self._loop).result(PATIENCE)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(PATIENCE)
        self._loop.close()

    async def _start(self):
        app = web.Application(client_max_size=2**26)
        app.router.add_post("/v1/responses", self._answer)
        app.router.add_post("/v1/chat/completions", self._answer)
        app.router.add_post("/v1/metrics", self._receive)
        app.router.add_get("/wait/{what}/{scenario}", self._wait)
        app.router.add_get("/release/{scenario}", self._release)
        runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.5)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        return runner, f"http://127.0.0.1:{runner.addresses[0][1]}"

    async def _receive(self, request):
        self.metrics.append(await request.read())
        return web.Response()

    async def _wait(self, request):
        """Answer once a scenario's request has come in ("arrived"), or its client has left it ("left")."""
        await self._signals[request.match_info["what"], request.match_info["scenario"]].wait()
        return web.Response()

    async def _release(self, request):
        """Let a request go on that is held."""
        self._signals["released", request.match_info["scenario"]].set()
        return web.Response()

    async def _answer(self, request):
        text = await request.text()
        found = re.search(r"\[scenario:([a-z0-9-]+)\]", text)
        scenario = found[1]
        fault = scenario.split("-")[1]
        self.seen[scenario, request.path] += 1
        self._signals["arrived", scenario].set()
        if fault in {"mhang", "mlate"}:
            await self._hold(scenario)
        if fault == "mdrop3" and self.seen[scenario, request.path] <= DROPPED:
            request.transport.abort()
            return web.Response()
        if fault == "m429once" and self.seen[scenario, request.path] == 1:
            fault = "m429"
        if fault in REFUSALS:
            status, error = REFUSALS[fault]
            return web.json_response({"error": error}, status=status)
        if fault == "mgarbage":
            return web.json_response({"hello": "world"})
        if request.path.endswith("/chat/completions"):
            return web.json_response(_completion())
        calls_a_tool = fault.startswith("t") and "function_call_output" not in text
        return web.json_response(_response(_tool_call(scenario, fault) if calls_a_tool else _message()))

    async def _hold(self, scenario):
        try:
            await self._signals["released", scenario].wait()
        except asyncio.CancelledError:
            self._signals["left", scenario].set()
            raise


def _response(item):
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 1.0,
        "model": "stand-in",
        "output": [item],
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


def _message():
    text = {"type": "output_text", "text": "It is cold.", "annotations": []}
    return {"id": "msg_1", "type": "message", "role": "assistant", "status": "completed", "content": [text]}


def _tool_call(scenario, fault):
    return {
        "id": "fc_1",
        "type": "function_call",
        "call_id": "call_1",
        "name": "no_such_tool" if fault == "tmissing" else "get_weather",
        "arguments": json.dumps({"town" if fault == "tinvalid" else "city": f"[scenario:{scenario}]"}),
        "status": "completed",
    }


def _completion():
    message = {"role": "assistant", "content": "It is cold."}
    choice = {"index": 0, "finish_reason": "stop", "message": message}
    return {"id": "c_1", "object": "chat.completion", "created": 1, "model": "stand-in", "choices": [choice]}
