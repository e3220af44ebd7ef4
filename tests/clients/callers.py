"""The clients under test, each called in the same way: one GET, its body read, its status raised if it is an error."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any, NamedTuple, Protocol

import aiohttp
from opentelemetry.instrumentation import httpx as otel_httpx
from opentelemetry.instrumentation.aiohttp_client import AioHttpClientInstrumentor
from opentelemetry.trace import TracerProvider

from gym_failures.instrumentation.aiohttp_client import instrument_aiohttp, uninstrument_aiohttp
from gym_failures.instrumentation.httpx import instrument_httpx, uninstrument_httpx

PATIENCE = 30.0
"""Seconds that a client waits for a peer that goes on; only a test that hangs waits so long."""

GIVE_UP = 0.05
"""Seconds that it waits where the peer has fallen silent; any number would do, for no byte is on its way."""

ORDERS = ("alone", "after OpenTelemetry", "before OpenTelemetry")


class Outcome(NamedTuple):
    """What a caller gets: a reply, or the exception that was raised."""

    status: int | None = None
    body: bytes = b""
    error: BaseException | None = None


class Call(Protocol):
    """A call of a URL, whose peer may fall silent."""

    def __call__(self, url: str, silent: str | None = None) -> Outcome:
        """Give up soon on the one part of the reply, "head" or "body", that does not come; on nothing when None."""


@dataclass(frozen=True)
class Caller:
    """A client library, called and instrumented."""

    name: str
    call: Call
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


def let_pass(seconds: float) -> None:
    """Put the clock of the running loop forward: what waits for less is over, however fast the machine is."""
    loop = asyncio.get_running_loop()
    clock = loop.time
    loop.time = lambda: clock() + seconds  # type: ignore[method-assign]


def _until_head(silent: str | None) -> float:
    return GIVE_UP if silent == "head" else PATIENCE


def _aiohttp(url: str, silent: str | None = None) -> Outcome:
    async def call() -> Outcome:
        timeout = aiohttp.ClientTimeout(sock_connect=PATIENCE, sock_read=_until_head(silent))
        async with aiohttp.ClientSession(timeout=timeout) as session, session.get(url) as response:
            if silent == "body":
                let_pass(2 * PATIENCE)
            body = await response.read()
            response.raise_for_status()
            return Outcome(response.status, body)

    try:
        return asyncio.run(call())
    except Exception as error:  # noqa: BLE001 - whatever it is, it is compared
        return Outcome(error=error)


def _hurry(response: Any) -> None:
    """Wait no longer for the body, now that the head is here: httpx looks anew for each part."""
    response.request.extensions["timeout"]["read"] = GIVE_UP


async def _hurry_async(response: Any) -> None:
    _hurry(response)


def _options(module: Any, silent: str | None, hurry: Callable[[Any], Any]) -> dict[str, Any]:
    return {
        "timeout": module.Timeout(PATIENCE, read=_until_head(silent)),
        "event_hooks": {"response": [hurry] if silent == "body" else []},
        "verify": False,
    }


def _sync(module: Any) -> Call:
    def call(url: str, silent: str | None = None) -> Outcome:
        try:
            with module.Client(**_options(module, silent, _hurry)) as client:
                response = client.get(url)
                response.raise_for_status()
                return Outcome(response.status_code, response.content)
        except Exception as error:  # noqa: BLE001 - as above
            return Outcome(error=error)

    return call


def _async(module: Any) -> Call:
    async def get(url: str, silent: str | None) -> Outcome:
        async with module.AsyncClient(**_options(module, silent, _hurry_async)) as client:
            response = await client.get(url)
            response.raise_for_status()
            return Outcome(response.status_code, response.content)

    def call(url: str, silent: str | None = None) -> Outcome:
        try:
            return asyncio.run(get(url, silent))
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
