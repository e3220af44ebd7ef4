"""The clients under test, each called in the same way: one GET, its body read, its status raised if it is an error."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any, NamedTuple

import aiohttp
from opentelemetry.instrumentation import httpx as otel_httpx
from opentelemetry.instrumentation.aiohttp_client import AioHttpClientInstrumentor
from opentelemetry.trace import TracerProvider

from gym_failures.instrumentation.aiohttp_client import instrument_aiohttp, uninstrument_aiohttp
from gym_failures.instrumentation.httpx import instrument_httpx, uninstrument_httpx

GIVE_UP = 0.2
"""Seconds without a byte after which a client gives up on a peer; the peers that it waits for never answer."""

ORDERS = ("alone", "after OpenTelemetry", "before OpenTelemetry")


class Outcome(NamedTuple):
    """What a caller gets: a reply, or the exception that was raised."""

    status: int | None = None
    body: bytes = b""
    error: BaseException | None = None


@dataclass(frozen=True)
class Caller:
    """A client library, called and instrumented."""

    name: str
    call: Callable[[str], Outcome]
    watch: Callable[..., None]
    unwatch: Callable[[], None]
    opentelemetry: Callable[[], Any]

    @contextmanager
    def watched(self, provider: TracerProvider, order: str = "alone", boundary: str = "agent") -> Iterator[None]:
        """Instrument the library, by OpenTelemetry too unless alone; undo it in the order in which it was done."""
        other = None if order == "alone" else self.opentelemetry()
        if order == "after OpenTelemetry":
            other.instrument(tracer_provider=provider)
        self.watch(boundary=boundary)
        if order == "before OpenTelemetry":
            other.instrument(tracer_provider=provider)
        try:
            yield
        finally:
            self.unwatch()
            if other is not None:
                other.uninstrument()


def _aiohttp(url: str) -> Outcome:
    async def call() -> Outcome:
        timeout = aiohttp.ClientTimeout(sock_connect=GIVE_UP, sock_read=GIVE_UP)
        async with aiohttp.ClientSession(timeout=timeout) as session, session.get(url) as response:
            body = await response.read()
            response.raise_for_status()
            return Outcome(response.status, body)

    try:
        return asyncio.run(call())
    except Exception as error:  # noqa: BLE001 - whatever it is, it is compared
        return Outcome(error=error)


def _sync(module: Any) -> Callable[[str], Outcome]:
    def call(url: str) -> Outcome:
        try:
            with module.Client(timeout=GIVE_UP, verify=False) as client:
                response = client.get(url)
                response.raise_for_status()
                return Outcome(response.status_code, response.content)
        except Exception as error:  # noqa: BLE001 - as above
            return Outcome(error=error)

    return call


def _async(module: Any) -> Callable[[str], Outcome]:
    async def get(url: str) -> Outcome:
        async with module.AsyncClient(timeout=GIVE_UP, verify=False) as client:
            response = await client.get(url)
            response.raise_for_status()
            return Outcome(response.status_code, response.content)

    def call(url: str) -> Outcome:
        try:
            return asyncio.run(get(url))
        except Exception as error:  # noqa: BLE001 - as above
            return Outcome(error=error)

    return call


def _all() -> Iterator[Caller]:
    yield Caller("aiohttp", _aiohttp, instrument_aiohttp, uninstrument_aiohttp, AioHttpClientInstrumentor)
    for name, instrumentor in (("httpx", "HTTPXClientInstrumentor"), ("httpx2", "HTTPX2ClientInstrumentor")):
        if find_spec(name):  # httpx2 came with a later generation of the openai client
            module, other = import_module(name), getattr(otel_httpx, instrumentor)
            yield Caller(name, _sync(module), instrument_httpx, uninstrument_httpx, other)
            yield Caller(f"{name} async", _async(module), instrument_httpx, uninstrument_httpx, other)


CALLERS = list(_all())
"""Every client that is installed."""
