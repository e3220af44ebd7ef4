"""A server in the middle that is traced, but does not know this package: what fails behind it is a bare 500 here."""

from typing import Any

from fastapi import FastAPI

from gym_failures.demo.peers import Peers, Work
from gym_failures.demo.servers.base import traced
from gym_failures.demo.settings import Settings


def app(settings: Settings) -> FastAPI:
    """Return the app."""
    peers = Peers(settings)
    relay = traced(peers)

    @relay.post("/execute")
    async def execute(work: Work) -> dict[str, Any]:
        async with peers.post("sandbox", "/execute", work) as response:
            response.raise_for_status()
            answer: dict[str, Any] = await response.json()
            return answer

    return relay
