"""The agent server: it seeds a session, asks the model, runs a command, and has the result verified."""

import asyncio
from typing import Any, Final

from fastapi import FastAPI, Request

from gym_failures.demo import plan
from gym_failures.demo.peers import Peers, Work
from gym_failures.demo.servers.base import server, unless_gone
from gym_failures.demo.settings import Settings
from gym_failures.errors import error_from
from gym_failures.instrumentation import raise_for_failure
from gym_failures.kinds import FailureBoundary, FailureStage
from gym_failures.streams import CommentReader

_PATIENCE: Final = 0.3
"""How long the agent waits for a model that is too slow, in seconds."""


def app(settings: Settings) -> FastAPI:
    """Return the app."""
    peers = Peers(settings)
    agent = server(peers, FailureBoundary.AGENT, stage=FailureStage.AGENT)

    @agent.post("/run")
    async def run(work: Work, request: Request) -> dict[str, Any]:
        return await unless_gone(request, _rollout(peers, work))

    return agent


async def _rollout(peers: Peers, work: Work) -> dict[str, Any]:
    await peers.ask("resources", "/seed_session", work)
    async with asyncio.timeout(None) as limit:
        thinking = asyncio.ensure_future(peers.ask("model", "/v1/responses", work))
        if work.fault == plan.AGENT_TIMEOUT:
            # Time counts from when the request has got through, so that the same happens on a slow machine.
            await peers.arrived(work.rollout_id)
            limit.reschedule(asyncio.get_running_loop().time() + _PATIENCE)
        await thinking
    answer = await _read(peers, work.model_copy(update={"stream": True}))
    host = "relay" if work.fault == plan.GAP else "sandbox"
    await peers.ask(host, "/execute", work)
    return await peers.ask("resources", "/verify", work.model_copy(update={"text": answer}))


async def _read(peers: Peers, work: Work) -> str:
    """Return what the model streams; raises what the last comment of a stream that broke says."""
    text, comment = b"", CommentReader()
    async with peers.post("model", "/v1/responses", work) as response:
        raise_for_failure(response)
        response.raise_for_status()
        async for chunk in response.content.iter_any():
            text += chunk
            comment.feed(chunk)
    error = None if comment.report is None else error_from(comment.report)
    if error is not None:
        raise error
    return text.decode()
