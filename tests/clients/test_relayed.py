"""An app that copies the headers of a reply into its own, as relays do: whose report it then is."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from threading import Barrier, BrokenBarrierError, Thread
from types import SimpleNamespace
from typing import Any

import aiohttp
import httpx
import pytest

from gym_failures import limits
from gym_failures.config import Config
from gym_failures.errors import FailureError, report_for
from gym_failures.header import encode_report
from gym_failures.instrumentation.aiohttp_client import instrument_aiohttp, uninstrument_aiohttp
from gym_failures.instrumentation.asgi import FailureMiddleware
from gym_failures.instrumentation.httpx import instrument_httpx, uninstrument_httpx
from gym_failures.log import FailureLog
from gym_failures.recording import record_failure
from gym_failures.refused import RefusedValues
from gym_failures.replies import report_of
from gym_failures.semconv import HEADER_NAME
from gym_failures.testing import Telemetry
from tests.clients.callers import PATIENCE
from tests.failing import peer, reply
from tests.servers.asgi import Call, body, start

VALUE = encode_report(report_for(FailureError("provider_quota_exhausted", boundary="model")))
OTHER = encode_report(report_for(FailureError("judge_failed", boundary="agent")))

Ask = Callable[[str], Awaitable[Any]]


@pytest.fixture(autouse=True)
def watched() -> Iterator[None]:
    """Watch aiohttp and httpx."""
    instrument_aiohttp()
    instrument_httpx()
    yield
    uninstrument_httpx()
    uninstrument_aiohttp()


async def by_aiohttp(url: str) -> Any:
    """Call by a client that is watched."""
    async with aiohttp.ClientSession() as session, session.get(url) as response:
        return response.headers


async def by_httpx(url: str) -> Any:
    """Call by another one."""
    async with httpx.AsyncClient(timeout=PATIENCE, verify=False) as client:  # noqa: S501 - there is no TLS here
        return (await client.get(url)).headers


async def in_a_log_within(url: str) -> Any:
    """Call in a part of the request that has a log of its own."""
    with FailureLog("sandbox"):
        return await by_aiohttp(url)


async def by_reading(url: str) -> Any:
    """Ask for the report in the reply of a client that nobody watches."""
    response = SimpleNamespace(headers={HEADER_NAME: VALUE}, url=url)
    report_of(response)
    return response.headers


async def by_an_exception(url: str) -> Any:
    """Record the exception of a client that nobody watches, which has the reply."""
    error = RuntimeError()
    error.response = SimpleNamespace(headers={HEADER_NAME: VALUE}, url=url)  # type: ignore[attr-defined]
    record_failure(error)
    return error.response.headers  # type: ignore[attr-defined]


WAYS = (by_aiohttp, by_httpx, in_a_log_within, by_reading, by_an_exception)


def relay(ask: Ask, config: Config, *, status: int = 502, others: str = "") -> Call:
    """Let an app answer with the header of the reply that it gets by `ask`, joined with the value of another one."""

    async def app(scope: Any, receive: Any, send: Any) -> None:  # noqa: ARG001 - ASGI
        headers = await ask(url)
        await send(start(status, (HEADER_NAME.encode(), (others + headers[HEADER_NAME]).encode())))
        await send(body(b""))

    with peer(reply(502, headers=f"{HEADER_NAME}: {VALUE}\r\n")) as port, Telemetry(config) as telemetry:
        url = f"http://127.0.0.1:{port}/"
        call = Call(FailureMiddleware(app, boundary="agent", recorder=telemetry.recorder))
        asyncio.run(call.run())
    return call


def kinds(call: Call) -> set[str]:
    """Return the kinds of all failures in the reply."""
    return set() if call.report is None else {event.failure_kind for event in call.report.events.values()}


@pytest.mark.parametrize("ask", WAYS)
@pytest.mark.parametrize("status", [200, 502])
def test_what_was_not_believed_in_a_reply_is_not_in_the_next_one(ask: Ask, status: int) -> None:
    """A report that was refused to an outsider does not come in by the header that an app copies from it."""
    assert "provider_quota_exhausted" not in kinds(relay(ask, Config(accept_from="none"), status=status))


@pytest.mark.parametrize("ask", WAYS)
def test_what_was_believed_in_a_reply_is_the_cause_in_the_next_one(ask: Ask) -> None:
    """A report from a server of one's own stays the cause when the app copies the header, as NeMo Gym's agents do."""
    report = relay(ask, Config()).report
    assert report is not None
    assert report.events[report.events[report.failure_id].cause_id].failure_kind == "provider_quota_exhausted"


def test_only_what_was_not_believed_is_left_out() -> None:
    """What the app says itself is read, also when an outsider's value is joined to it."""
    call = relay(by_aiohttp, Config(accept_from="none"), others=f"{OTHER} ,, ")
    assert kinds(call) == {"judge_failed", "agent_run_error"}


def test_no_value_is_believed_when_too_many_were_not() -> None:
    """Nobody makes room for a value that was refused by having others refused after it."""
    refused = RefusedValues()
    refused.add([VALUE])
    assert refused.others([OTHER.encode()]) == [OTHER]
    refused.add(f"1.{number}" for number in range(limits.REFUSED_VALUES))
    assert refused.others([VALUE, OTHER]) == []


def test_two_values_that_are_refused_at_once_are_both_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two threads that are the first to refuse something in a request, neither undoes what the other does."""
    both = Barrier(2)

    class Meeting(RefusedValues):
        """One that is not made before two threads make one, if two do."""

        def __init__(self) -> None:
            with suppress(BrokenBarrierError):
                both.wait(0.1)
            super().__init__()

    monkeypatch.setattr("gym_failures.book.RefusedValues", Meeting)
    log = FailureLog("agent")
    threads = [Thread(target=log.refuse, args=([value],)) for value in (VALUE, OTHER)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert list(log.not_refused([VALUE, OTHER])) == []
