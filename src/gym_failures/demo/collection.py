"""The collection client of the demo: it sends the rollouts to the agent and says how each one ended."""

import asyncio
import json
from typing import Final

from opentelemetry import trace
from opentelemetry.instrumentation.aiohttp_client import AioHttpClientInstrumentor

from gym_failures import semconv
from gym_failures.demo.peers import Peers, Work
from gym_failures.demo.plan import CLIENT_CANCEL, Rollout, plan
from gym_failures.demo.settings import COLLECTION, Settings
from gym_failures.instrumentation.aiohttp_client import instrument_aiohttp
from gym_failures.kinds import FailureBoundary
from gym_failures.log import FailureLog

AT_ONCE: Final = 8
"""Rollouts that run at the same time."""


async def collect(settings: Settings) -> None:
    """Run every rollout of the plan, the last one after all others; prints one line of JSON for each that has ended."""
    AioHttpClientInstrumentor().instrument()
    instrument_aiohttp(boundary=FailureBoundary.COLLECTION)
    peers = Peers(settings)
    *together, last = plan(settings.seed)
    limit = asyncio.Semaphore(AT_ONCE)

    async def run(rollout: Rollout) -> None:
        async with limit:
            failed = await _outcome(peers, rollout)
        ended = {"rollout": rollout.rollout_id, "fault": rollout.fault, "failed": failed}
        print(json.dumps(ended), flush=True)  # noqa: T201 - whoever started this process reads it

    async with peers.connected():
        await asyncio.gather(*map(run, together))
        await run(last)


async def _outcome(peers: Peers, rollout: Rollout) -> bool:
    """Run a rollout; returns whether it failed."""
    running = asyncio.ensure_future(_run(peers, rollout))
    if rollout.fault == CLIENT_CANCEL:
        await peers.arrived(rollout.rollout_id)
        running.cancel()
    (failure,) = await asyncio.gather(running, return_exceptions=True)
    return failure is not None


async def _run(peers: Peers, rollout: Rollout) -> None:
    span = trace.get_tracer(COLLECTION).start_as_current_span(
        "rollout",
        attributes={semconv.NEMO_GYM_ROLLOUT_ID: rollout.rollout_id},
        record_exception=False,
        set_status_on_exception=False,
    )
    with span, FailureLog(FailureBoundary.COLLECTION):
        await peers.ask("agent", "/run", Work(rollout_id=rollout.rollout_id, fault=rollout.fault))
