"""A failure on its way up through several servers, each with a client of its own kind (NVIDIA-NeMo/Gym#316)."""

import json
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack
from typing import Any

import aiohttp
import httpx
import openai
import pytest
from fastapi import FastAPI
from opentelemetry.instrumentation.fastapi import FastAPIInstrumentor

from gym_failures.instrumentation import instrument_app, uninstrument_app
from gym_failures.instrumentation.aiohttp_client import instrument_aiohttp, uninstrument_aiohttp
from gym_failures.instrumentation.httpx import instrument_httpx, uninstrument_httpx
from gym_failures.log import FailureLog
from gym_failures.records import FailureReport
from gym_failures.testing import Telemetry
from tests.clients.callers import PATIENCE
from tests.failing import drops, nobody, peer, reply
from tests.servers.serving import Serving

pytestmark = pytest.mark.anyio

Ask = Callable[[str], Awaitable[Any]]


async def by_aiohttp(url: str) -> Any:
    """Call as NeMo Gym's servers do."""
    async with aiohttp.ClientSession() as session, session.get(url) as response:
        response.raise_for_status()
        return await response.json()


async def by_httpx(url: str) -> Any:
    """Call by httpx."""
    async with httpx.AsyncClient(timeout=PATIENCE, verify=False) as client:  # noqa: S501 - there is no TLS here
        return (await client.get(url)).raise_for_status().json()


async def by_openai(url: str) -> Any:
    """Call a provider by its SDK."""
    http = openai.DefaultAsyncHttpxClient(timeout=PATIENCE, verify=False)
    async with openai.AsyncOpenAI(api_key="none", base_url=url, max_retries=0, http_client=http) as client:
        return (await client.models.list()).data


@pytest.fixture
def hosts(telemetry: Telemetry) -> Iterator[ExitStack]:
    """Watch all clients, and hold servers until the end of the test."""
    instrument_aiohttp(recorder=telemetry.recorder)
    instrument_httpx(recorder=telemetry.recorder)
    with ExitStack() as hosts:
        yield hosts
    uninstrument_httpx()
    uninstrument_aiohttp()


def serve(hosts: ExitStack, telemetry: Telemetry, boundary: str, ask: Ask, url: str) -> str:
    """Serve an app that passes on what it is told by `url`, and return where."""
    app = FastAPI()

    @app.get("/run")
    async def run() -> Any:
        return await ask(url)

    FastAPIInstrumentor.instrument_app(app, tracer_provider=telemetry.tracer_provider)
    instrument_app(app, boundary=boundary, recorder=telemetry.recorder)
    hosts.callback(FastAPIInstrumentor.uninstrument_app, app)
    hosts.callback(uninstrument_app, app)
    return f"{hosts.enter_context(Serving(app)).url}/run"


def told(report: FailureReport) -> list[tuple[str, str, int | None]]:
    """Return boundary, kind and status from the own failure down to the root cause."""
    chain, event_id = [], report.failure_id
    while event_id is not None:
        event = report.events[event_id]
        chain.append((event.boundary.value, event.failure_kind, event.http_status))
        event_id = event.cause_id
    return chain


PROVIDERS = {
    "401": (reply(401), ("model", "provider_unavailable", 401)),
    "429": (reply(429), ("model", "provider_quota_exhausted", 429)),
    "500": (reply(500), ("model", "provider_unavailable", 500)),
    "rubbish": (reply(200, body="rubbish", content_type="application/json"), ("model", "protocol_violation", None)),
    "drops": (drops, ("model", "transport_peer_drop", None)),
}
CLIENTS = {
    "aiohttp": (by_aiohttp, by_aiohttp),
    "httpx": (by_httpx, by_httpx),
    "openai and aiohttp": (by_openai, by_aiohttp),
}


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("clients", CLIENTS)
async def test_the_root_cause_reaches_the_top(
    clients: str, provider: str, hosts: ExitStack, telemetry: Telemetry
) -> None:
    """The report at the top names what the provider did and everything that failed because of it, once each."""
    outward, between = CLIENTS[clients]
    act, root = PROVIDERS[provider]
    model = serve(hosts, telemetry, "model", outward, f"http://127.0.0.1:{hosts.enter_context(peer(act))}/v1")
    agent = serve(hosts, telemetry, "agent", between, model)
    with pytest.raises((aiohttp.ClientError, httpx.HTTPError)), FailureLog("collection") as log:
        await between(agent)
    report = log.report()
    assert told(report) == [("collection", "agent_request_failed", 500), ("agent", "agent_run_error", 500), root]
    assert [event.boundary.value for event in report.events.values()].count("agent") == 1
    assert telemetry.count() == len(report.events)
    hosts.close()  # a server ends its span after its reply
    on_spans = {event_id for rebuilt in telemetry.reports(by="trace") for event_id in rebuilt.report.events}
    assert on_spans == set(report.events) - {report.failure_id}  # there is no span at the top


async def test_what_was_recovered_from_is_told_beside(hosts: ExitStack, telemetry: Telemetry) -> None:
    """An agent that goes on without a tool succeeds, and the top knows what the tool said."""

    async def without_the_tool(url: str) -> Any:
        try:
            return await by_aiohttp(url)
        except aiohttp.ClientError:
            return json.loads("{}")

    tool = serve(hosts, telemetry, "resources_server", by_aiohttp, f"http://127.0.0.1:{hosts.enter_context(nobody())}")
    agent = serve(hosts, telemetry, "agent", without_the_tool, tool)
    with FailureLog("collection") as log:
        assert await by_aiohttp(agent) == {}
    (event,) = log.report().events.values()
    assert (event.boundary.value, event.failure_kind) == ("resources_server", "transport_unreachable")
    assert log.report().failure_id is None
