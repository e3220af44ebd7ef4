"""One failing call with each HTTP client and SDK: what it raises at an address."""

import aiohttp
import httpx
import openai
import requests

from tests.failing import caught, caught_async

SECONDS = 0.2
"""How long a call waits for a silent peer."""


def with_aiohttp(url: str, **timeouts: float) -> BaseException:
    """Get JSON with aiohttp; `timeouts` are those of its ClientTimeout."""

    async def call() -> object:
        timeout = aiohttp.ClientTimeout(**timeouts or {"sock_read": SECONDS})
        async with aiohttp.ClientSession(timeout=timeout) as session, session.get(url) as response:
            response.raise_for_status()
            return await response.json()

    return caught_async(call)


def with_httpx(url: str) -> BaseException:
    """Get JSON with httpx."""

    def call() -> object:
        with httpx.Client(timeout=SECONDS, follow_redirects=True, trust_env=False) as client:
            return client.get(url).raise_for_status().json()

    return caught(call)


def with_async_httpx(url: str) -> BaseException:
    """Get JSON with httpx in asyncio."""

    async def call() -> object:
        async with httpx.AsyncClient(timeout=SECONDS, follow_redirects=True, trust_env=False) as client:
            return (await client.get(url)).raise_for_status().json()

    return caught_async(call)


def with_requests(url: str) -> BaseException:
    """Get JSON with requests."""

    def call() -> object:
        with requests.Session() as session:
            session.trust_env = False
            response = session.get(url, timeout=SECONDS)
            response.raise_for_status()
            return response.json()

    return caught(call)


def with_openai(url: str) -> BaseException:
    """Ask a model with the openai SDK, with a secret in the request."""

    def call() -> object:
        with openai.OpenAI(base_url=url, api_key="key", timeout=SECONDS, max_retries=0) as client:
            return client.chat.completions.create(model="m", messages=[{"role": "user", "content": "s3cr3t"}])

    return caught(call)
