"""One failing call with each HTTP client and SDK: what it raises at an address."""

import aiohttp
import httpx
import openai
import requests

from tests.failing import caught, caught_async

PATIENCE = 30.0
"""How long a call waits for a peer that will answer, in seconds; only a test that hangs waits so long."""


def with_aiohttp(url: str, read: float = PATIENCE, total: float | None = None) -> BaseException:
    """Get JSON with aiohttp; wait `read` seconds for each part of the answer and `total` for all of it."""

    async def call() -> object:
        timeout = aiohttp.ClientTimeout(total=total, sock_read=read)
        async with aiohttp.ClientSession(timeout=timeout) as session, session.get(url) as response:
            response.raise_for_status()
            return await response.json()

    return caught_async(call)


def with_httpx(url: str, read: float = PATIENCE) -> BaseException:
    """Get JSON with httpx; wait `read` seconds for each part of the answer."""

    def call() -> object:
        with httpx.Client(timeout=httpx.Timeout(PATIENCE, read=read), follow_redirects=True, trust_env=False) as client:
            return client.get(url).raise_for_status().json()

    return caught(call)


def with_async_httpx(url: str, read: float = PATIENCE) -> BaseException:
    """Get JSON with httpx in asyncio, else like `with_httpx`."""

    async def call() -> object:
        async with httpx.AsyncClient(
            timeout=httpx.Timeout(PATIENCE, read=read), follow_redirects=True, trust_env=False
        ) as client:
            return (await client.get(url)).raise_for_status().json()

    return caught_async(call)


def with_requests(url: str, read: float = PATIENCE) -> BaseException:
    """Get JSON with requests; wait `read` seconds for each part of the answer."""

    def call() -> object:
        with requests.Session() as session:
            session.trust_env = False
            response = session.get(url, timeout=(PATIENCE, read))
            response.raise_for_status()
            return response.json()

    return caught(call)


def with_openai(url: str, read: float = PATIENCE) -> BaseException:
    """Ask a model with the openai SDK, with a secret in the request; wait `read` seconds for the answer."""

    def call() -> object:
        with openai.OpenAI(
            base_url=url, api_key="key", timeout=openai.Timeout(PATIENCE, read=read), max_retries=0
        ) as client:
            return client.chat.completions.create(model="m", messages=[{"role": "user", "content": "s3cr3t"}])

    return caught(call)
