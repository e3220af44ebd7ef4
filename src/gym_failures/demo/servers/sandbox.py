"""The sandbox server: it runs commands, and is the one that gets killed."""

import asyncio
import os
import signal

from fastapi import FastAPI

from gym_failures import kinds
from gym_failures.demo import plan
from gym_failures.demo.peers import Peers, Work
from gym_failures.demo.servers.base import server
from gym_failures.demo.settings import Settings
from gym_failures.demo.telemetry import send_now
from gym_failures.errors import FailureError
from gym_failures.kinds import FailureBoundary
from gym_failures.records import SandboxFailureDetails


def app(settings: Settings) -> FastAPI:
    """Return the app."""
    sandbox = server(Peers(settings), FailureBoundary.SANDBOX)

    @sandbox.post("/execute")
    async def execute(work: Work) -> dict[str, str]:
        if work.fault == plan.PEER_KILLED:
            # What it observed in other rollouts goes out first, so that every run of the demo counts the same. A kill
            # that comes from outside takes with it what was not sent yet.
            await asyncio.to_thread(send_now)
            os.kill(os.getpid(), signal.SIGKILL)
        if work.fault in {plan.SANDBOX_OOM, plan.GAP}:
            raise FailureError(
                kinds.PROVIDER_OOM_KILLED,
                boundary=FailureBoundary.SANDBOX,
                reason="the container used more memory than its limit of 512 MiB",
                details=SandboxFailureDetails(
                    provider="docker",
                    sandbox_id=f"box-{work.rollout_id}",
                    exit_code=137,
                    provider_status_reason="OOMKilled",
                ),
            )
        return {"output": "42"}

    return sandbox
