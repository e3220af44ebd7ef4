"""How the processes of the demo call its servers."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import aiohttp
from opentelemetry.instrumentation.utils import suppress_http_instrumentation
from pydantic import BaseModel

from gym_failures.demo.settings import Settings
from gym_failures.instrumentation import raise_for_failure


class Work(BaseModel):
    """What a rollout asks of a server."""

    rollout_id: str
    fault: str
    text: str = ""
    stream: bool = False


class Peers:
    """The servers of a run, and the client that calls them."""

    def __init__(self, settings: Settings) -> None:
        """Take their addresses."""
        self._urls = settings.urls
        self._session: aiohttp.ClientSession | None = None

    @asynccontextmanager
    async def connected(self) -> AsyncIterator[None]:
        """Hold a client within the block; nothing can be called outside of it."""
        async with aiohttp.ClientSession() as self._session:
            yield

    def post(self, peer: str, path: str, work: Work) -> AbstractAsyncContextManager[aiohttp.ClientResponse]:
        """Begin a call; `async with` gives the response, whatever its status."""
        return self._client.post(self._urls[peer] + path, json=work.model_dump())

    async def arrived(self, rollout_id: str) -> None:
        """Wait until the provider has a request of a rollout, without a trace of the waiting."""
        with suppress_http_instrumentation():
            async with self._client.get(f"{self._urls['provider']}/arrived/{rollout_id}"):
                pass

    async def ask(self, peer: str, path: str, work: Work) -> dict[str, Any]:
        """Return a peer's answer; raises what it says has failed."""
        async with self.post(peer, path, work) as response:
            raise_for_failure(response)
            response.raise_for_status()
            answer: dict[str, Any] = await response.json()
            return answer

    @property
    def _client(self) -> aiohttp.ClientSession:
        if self._session is None:
            raise RuntimeError("a call outside of `connected`")
        return self._session
