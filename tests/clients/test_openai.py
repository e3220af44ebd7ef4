"""The openai client, which retries by itself and raises errors of its own: each attempt is one failure, no more."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, NamedTuple

import openai
import pytest

from gym_failures.instrumentation.httpx import instrument_httpx, uninstrument_httpx
from gym_failures.log import FailureLog
from gym_failures.testing import Telemetry
from tests.clients.callers import GIVE_UP, PATIENCE
from tests.clients.test_calls import FAILED, reporting
from tests.failing import Act, drops, is_silent, nobody, peer, reply

Ask = Callable[..., Any]


@pytest.fixture(autouse=True)
def watched(telemetry: Telemetry) -> Iterator[None]:
    """Watch httpx at the boundary of a model server."""
    instrument_httpx(boundary="model", recorder=telemetry.recorder)
    yield
    uninstrument_httpx()


def ask(port: int, retries: int = 0, read: float = PATIENCE) -> Any:
    """Ask a model behind a port; wait `read` seconds for its answer."""
    timeout = openai.Timeout(PATIENCE, read=read)
    url, http = f"http://127.0.0.1:{port}/v1", openai.DefaultHttpxClient(verify=False, timeout=timeout)
    with openai.OpenAI(api_key="none", base_url=url, max_retries=retries, http_client=http) as client:
        return client.chat.completions.create(model="m", messages=[])


def ask_async(port: int, retries: int = 0, read: float = PATIENCE) -> Any:
    """Ask a model behind a port, asynchronously; wait `read` seconds for its answer."""

    async def call() -> Any:
        timeout = openai.Timeout(PATIENCE, read=read)
        url, http = f"http://127.0.0.1:{port}/v1", openai.DefaultAsyncHttpxClient(verify=False, timeout=timeout)
        async with openai.AsyncOpenAI(api_key="none", base_url=url, max_retries=retries, http_client=http) as client:
            return await client.chat.completions.create(model="m", messages=[])

    return asyncio.run(call())


both = pytest.mark.parametrize("ask", [ask, ask_async], ids=["sync", "async"])

AT_ONCE = "retry-after-ms: 1\r\n"  # the client's own wait would be half a second


class Case(NamedTuple):
    """A provider, what the SDK raises of it, and the failure that this is."""

    act: Act
    error: type[Exception]
    kind: str
    status: int | None = None


CASES = {
    "401": Case(reply(401), openai.AuthenticationError, "provider_unavailable", 401),
    "403": Case(reply(403), openai.PermissionDeniedError, "provider_unavailable", 403),
    "429": Case(reply(429), openai.RateLimitError, "provider_quota_exhausted", 429),
    "500": Case(reply(500), openai.InternalServerError, "provider_unavailable", 500),
    "404": Case(reply(404), openai.NotFoundError, "protocol_violation", 404),
    "drops": Case(drops, openai.APIConnectionError, "transport_peer_drop"),
    "is silent": Case(is_silent, openai.APITimeoutError, "transport_timeout"),
}


@both
@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_an_sdk_s_error_is_the_failed_call(ask: Ask, case: Case, telemetry: Telemetry) -> None:
    """What the SDK raises of a failed call is that failure: one event, counted once (NVIDIA-NeMo/Gym#316)."""
    with peer(case.act) as port, pytest.raises(case.error), FailureLog("model") as log:
        ask(port, read=GIVE_UP if case.act is is_silent else PATIENCE)
    report = log.report()
    (own,) = report.events.values()
    assert report.failure_id == own.event_id
    assert (own.failure_kind, own.http_status) == (case.kind, case.status)
    assert telemetry.count() == 1


@both
def test_nobody_there(ask: Ask, telemetry: Telemetry) -> None:
    """A provider that cannot be reached is one failure, though two libraries raise three errors of it."""
    with nobody() as port, pytest.raises(openai.APIConnectionError), FailureLog("model") as log:
        ask(port)
    assert [event.failure_kind for event in log.report().events.values()] == ["transport_unreachable"]
    assert telemetry.count() == 1


@both
def test_retries_are_attempts(ask: Ask, telemetry: Telemetry) -> None:
    """A provider that answers 429 three times is three failures, and the last one is the request's own."""
    with (
        peer(reply(429, headers=AT_ONCE)) as port,
        pytest.raises(openai.RateLimitError),
        FailureLog("model") as log,
    ):
        ask(port, 2)
    report = log.report()
    assert [event.http_status for event in report.events.values()] == [429, 429, 429]
    assert report.failure_id == list(report.events)[-1]
    assert telemetry.count() == 3


@both
def test_an_sdk_s_error_of_a_reported_failure(ask: Ask, telemetry: Telemetry) -> None:
    """What the SDK raises of a reply with a report is one new failure here, caused by the reported one."""
    with (
        peer(reporting(FAILED)) as port,
        pytest.raises(openai.InternalServerError),
        FailureLog("model") as log,
    ):
        ask(port)
    report = log.report()
    assert report.events[report.failure_id].cause_id == "own"
    assert len(report.events) == 3
    assert telemetry.count() == 1


@both
def test_a_program_s_own_error_is_a_failure_of_its_own(ask: Ask) -> None:
    """What the program itself raises from an SDK's error says more than that, and is recorded with it as its cause."""
    with peer(reply(401)) as port, suppress(RuntimeError), FailureLog("model") as log:
        try:
            ask(port)
        except openai.OpenAIError as error:
            raise RuntimeError("no key for the judge") from error
    report = log.report()
    own = report.events[report.failure_id]
    assert own.failure_reason == "no key for the judge"
    assert report.events[own.cause_id].http_status == 401


@both
def test_a_library_s_error_of_another_kind_is_a_failure_of_its_own(ask: Ask) -> None:
    """An SDK's error that means something else than the failure it was raised from has that as its cause."""
    with peer(reply(401)) as port, suppress(openai.APIConnectionError), FailureLog("model") as log:
        try:
            ask(port)
        except openai.APIStatusError as error:
            raise openai.APIConnectionError(request=error.request) from error
    report = log.report()
    own = report.events[report.failure_id]
    assert own.failure_kind == "transport_unreachable"
    assert report.events[own.cause_id].failure_kind == "provider_unavailable"
