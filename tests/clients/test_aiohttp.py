"""What is aiohttp's own: its order of signals, its silent second try, its redirects, its session-wide raising."""

import asyncio
import contextlib
import copy
import gc
import pickle
import socket
import threading
import weakref
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

import aiohttp
import pytest
from aiohttp import ClientResponse, ClientSession
from multidict import CIMultiDict
from opentelemetry.instrumentation.aiohttp_client import AioHttpClientInstrumentor

from gym_failures import semconv
from gym_failures.instrumentation.aiohttp_client import instrument_aiohttp, instrument_session, uninstrument_aiohttp
from gym_failures.log import FailureLog
from gym_failures.marks import mark_of
from gym_failures.records import FailureBoundary, FailureReport
from gym_failures.testing import Telemetry
from tests.clients.callers import GIVE_UP, PATIENCE, let_pass
from tests.clients.test_calls import FAILED, RECOVERED, reporting
from tests.failing import Act, answers, drops, is_silent, nobody, peer, reply

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def watched(telemetry: Telemetry) -> Iterator[None]:
    """Watch aiohttp at the boundary of an agent."""
    instrument_aiohttp(boundary="agent", recorder=telemetry.recorder)
    yield
    uninstrument_aiohttp()


def in_turn(*acts: Act) -> Act:
    """Do another thing with each connection; the last one again and again."""
    remaining = list(acts)
    lock = threading.Lock()

    def act(connection: socket.socket) -> None:
        with lock:
            chosen = remaining.pop(0) if len(remaining) > 1 else remaining[0]
        chosen(connection)

    return act


@contextmanager
def url_of(act: Act) -> Iterator[str]:
    """Give the URL of a peer that does `act`."""
    with peer(act) as port:
        yield f"http://127.0.0.1:{port}/"


# --- Tries that aiohttp makes by itself -------------------------------------------------------------------------------


async def test_a_try_that_is_repeated_in_silence_is_kept() -> None:
    """A lost connection that aiohttp makes good by a second try is a recovered failure of the first attempt."""
    with url_of(in_turn(drops, reply(200, body="well"))) as url, FailureLog("agent") as log:
        async with ClientSession() as session, session.get(url) as response:
            assert await response.text() == "well"
    (event,) = log.report().events.values()
    assert event.failure_kind == "transport_peer_drop"
    assert event.attempt_id == f"{event.operation_id}.1"
    assert log.report().failure_id is None


async def test_the_second_try_is_the_second_attempt() -> None:
    """When the second try is answered with a failure, that is the second attempt of the same operation."""
    with url_of(in_turn(drops, reply(500))) as url, FailureLog("agent") as log:
        async with ClientSession() as session, session.get(url):
            pass
    first, second = log.report().events.values()
    assert (first.attempt_id, second.attempt_id) == (f"{first.operation_id}.1", f"{first.operation_id}.2")


def answers_once(connection: socket.socket) -> None:
    """Answer, keep the connection, and drop it at the next request."""
    connection.recv(65_536)
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
    connection.recv(65_536)


async def test_a_kept_connection_that_was_dropped() -> None:
    """A kept connection that turns out to be dropped is a failed try, and the request gets its answer."""
    with url_of(in_turn(answers_once, reply(200))) as url, FailureLog("agent") as log:
        async with ClientSession() as session:
            for _ in range(2):
                async with session.get(url) as response:
                    assert response.status == 200
    assert [event.failure_kind for event in log.report().events.values()] == ["transport_peer_drop"]


async def test_what_is_not_repeated_is_one_failure() -> None:
    """A POST is not tried again, by us least of all."""
    seen = []

    def counts(connection: socket.socket) -> None:
        seen.append(connection)
        drops(connection)

    with url_of(counts) as url, FailureLog("agent") as log:
        async with ClientSession() as session:
            with pytest.raises(aiohttp.ServerDisconnectedError):
                await session.post(url, data=b"x")
    assert (len(seen), len(log.report().events)) == (1, 1)


# --- Replies ----------------------------------------------------------------------------------------------------------


async def test_a_report_on_a_redirect() -> None:
    """Each hop of a redirect is a reply, and may bring a report."""
    with url_of(reporting(RECOVERED, 200)) as last:
        hop = reply(302, headers=f"Location: {last}\r\n")
        with url_of(hop) as first, FailureLog("agent") as log:
            async with ClientSession() as session, session.get(first) as response:
                assert (response.status, str(response.url)) == (200, last)
    assert log.report() == RECOVERED


async def test_a_redirect_to_nobody_is_not_the_redirect_s_failure() -> None:
    """A hop that cannot be reached is a failure of its own, whatever the reply before it reported."""
    with nobody() as port, FailureLog("agent") as log:
        hop = reply(302, headers=f"Location: http://127.0.0.1:{port}/\r\n")
        with url_of(hop) as first, pytest.raises(aiohttp.ClientConnectorError):
            async with ClientSession() as session:
                await session.get(first)
    assert [event.failure_kind for event in log.report().events.values()] == ["transport_unreachable"]


class RefusedError(Exception):
    """What a program's own function makes of a reply."""


async def refuse(response: ClientResponse) -> None:
    """Be content with nothing but success."""
    if not response.ok:
        raise RefusedError


async def refuse_otherwise(response: ClientResponse) -> None:
    """Be content with nothing but success, and say so by an error of aiohttp's."""
    if not response.ok:
        raise aiohttp.ClientPayloadError


RAISING = {
    "raise_for_status": (True, aiohttp.ClientResponseError),
    "own function": (refuse, RefusedError),
    "own function with aiohttp's error": (refuse_otherwise, aiohttp.ClientPayloadError),
}


@pytest.mark.parametrize(("how", "error"), RAISING.values(), ids=RAISING.keys())
async def test_a_session_that_raises_by_itself(how: Any, error: type[Exception]) -> None:
    """A session that raises before its signals are sent loses nothing: neither the report nor the link to it."""
    with url_of(reporting(FAILED)) as url, pytest.raises(error), FailureLog("agent") as log:
        async with ClientSession(raise_for_status=how) as session:
            await session.get(url)
    report = log.report()
    assert report.events[report.failure_id].cause_id == "own"
    assert len(report.events) == 3


@pytest.mark.parametrize(("how", "error"), RAISING.values(), ids=RAISING.keys())
async def test_a_session_that_raises_without_a_report(how: Any, error: type[Exception]) -> None:
    """What it raises of a 500 without a report is the one failure that the 500 is."""
    with url_of(reply(500)) as url, pytest.raises(error), FailureLog("agent") as log:
        async with ClientSession(raise_for_status=how) as session:
            await session.get(url)
    report = log.report()
    assert [event.http_status for event in report.events.values()] == [500]
    assert report.failure_id in report.events


@pytest.mark.parametrize(("how", "error"), RAISING.values(), ids=RAISING.keys())
async def test_a_session_that_raises_and_a_program_that_goes_on(how: Any, error: type[Exception]) -> None:
    """What the program catches is no failure of its own: the log has what the reply reported, and no more."""
    with url_of(reporting(FAILED)) as url, FailureLog("agent") as log:
        async with ClientSession(raise_for_status=how) as session:
            with pytest.raises(error):
                await session.get(url)
    assert log.report() == FailureReport(events=FAILED.events)


async def lose_the_connection(response: ClientResponse) -> None:
    """Fail for another reason than the reply."""
    raise aiohttp.ClientConnectionError(str(response.status))


async def test_a_connection_that_is_lost_after_a_reply() -> None:
    """An error of a connection is none that was made of a reply before it."""
    with url_of(reporting(FAILED)) as url, FailureLog("agent") as log:
        async with ClientSession(raise_for_status=lose_the_connection) as session:
            with pytest.raises(aiohttp.ClientConnectionError):
                await session.get(url)
    assert [event.failure_kind for event in log.report().events.values()] == ["transport_peer_drop"]


# --- Exceptions on their way ------------------------------------------------------------------------------------------


async def raised_by(url: str) -> aiohttp.ClientResponseError:
    """Return what `raise_for_status` raises of a reply."""
    async with ClientSession() as session:
        response = await session.get(url)
        with pytest.raises(aiohttp.ClientResponseError) as caught:
            response.raise_for_status()
    return caught.value


def pickled(error: aiohttp.ClientResponseError) -> aiohttp.ClientResponseError:
    """Pickle an error and back, with headers of a kind that can be: those of requests and responses cannot."""
    request = error.request_info._replace(headers=CIMultiDict(error.request_info.headers))
    headers = CIMultiDict(error.headers or {})
    plain = aiohttp.ClientResponseError(request, (), status=error.status, message=error.message, headers=headers)
    copied: aiohttp.ClientResponseError = pickle.loads(pickle.dumps(plain))  # noqa: S301 - our own
    return copied


WAYS = {"itself": lambda error: error, "copied": copy.copy, "pickled": pickled}


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS.keys())
@pytest.mark.parametrize("seen", ["seen by our client", "not seen"])
async def test_an_exception_links_to_the_report_in_its_headers(way: Callable[[Any], Any], seen: str) -> None:
    """A ClientResponseError carries the report on, also to where the reply was never seen, and after pickle."""
    if seen == "not seen":
        uninstrument_aiohttp()
    with url_of(reporting(FAILED)) as url:
        error = way(await raised_by(url))
    with pytest.raises(aiohttp.ClientResponseError), FailureLog("collection") as log:
        raise error
    report = log.report()
    own = report.events[report.failure_id]
    assert (own.boundary, own.cause_id) == (FailureBoundary.COLLECTION, "own")


async def test_our_mark_does_not_spoil_pickle() -> None:
    """An exception that could be pickled before it was recorded can be pickled after."""
    with url_of(is_silent) as url, FailureLog("agent") as log:
        async with ClientSession() as session:
            with pytest.raises(aiohttp.ServerTimeoutError) as caught:
                await session.get(url, timeout=aiohttp.ClientTimeout(sock_read=GIVE_UP))
    copied = pickle.loads(pickle.dumps(caught.value))  # noqa: S301 - our own
    assert mark_of(copied).events == tuple(log.report().events.values())


# --- Cancelled and timed out ------------------------------------------------------------------------------------------


async def test_a_cancelled_call_is_no_failure() -> None:
    """The one who cancels a call knows why; the call itself records nothing, and CancelledError passes."""
    asked = threading.Event()

    def is_asked(connection: socket.socket) -> None:
        connection.recv(65_536)
        asked.set()
        is_silent(connection)

    with url_of(is_asked) as url, FailureLog("agent") as log:
        call = asyncio.ensure_future(raised_by(url))
        await asyncio.to_thread(asked.wait)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
    assert not log.has_failures


async def test_a_call_that_runs_out_of_the_caller_s_time() -> None:
    """A time-out round the call is one failure of kind time-out: the cancelling inside is its means, not its cause."""
    with url_of(is_silent) as url, pytest.raises(TimeoutError), FailureLog("agent") as log:
        async with ClientSession() as session, asyncio.timeout(0.05):
            await session.get(url)
    (event,) = log.report().events.values()
    assert (event.failure_kind, event.cause_id) == ("agent_timeout", None)


# --- Sessions and instrumentations ------------------------------------------------------------------------------------


async def test_a_response_is_not_kept() -> None:
    """A response that nobody needs is freed at once: it holds a connection."""
    gc.disable()
    try:
        with url_of(reporting(FAILED)) as url:
            async with ClientSession() as session:
                response = await session.get(url)
                await response.read()
                gone = weakref.ref(response)
                del response
                assert gone() is None
    finally:
        gc.enable()


async def test_a_session_that_exists(telemetry: Telemetry) -> None:
    """A session made before us is watched when it is named, and once however often."""
    uninstrument_aiohttp()
    with url_of(reply(500)) as url:
        async with ClientSession() as session:
            for _ in range(2):
                instrument_session(session, boundary="model")
            await session.get(url)
            assert telemetry_boundaries(telemetry) == ["model"]
            uninstrument_aiohttp()
            await session.get(url)
    assert telemetry.count() == 1


def telemetry_boundaries(telemetry: Telemetry) -> list[str]:
    """Return the boundary of each failure that was counted."""
    return [dict(series)[semconv.FAILURE_BOUNDARY] for series in telemetry.counts()]


async def test_the_program_s_own_signals_stay() -> None:
    """Signals that the program gives its session come after ours, and its list is left as it is."""
    ended = []

    async def on_end(*_: Any) -> None:
        ended.append(1)

    own = aiohttp.TraceConfig()
    own.on_request_end.append(on_end)
    given = [own]
    with url_of(reply(200)) as url:
        async with ClientSession(trace_configs=given) as session:
            await session.get(url)
            assert session.trace_configs[1:] == [own]
    assert (ended, given) == ([1], [own])


METHODS = {
    ClientSession: ["__init__"],
    aiohttp.ClientRequest: ["send"],
    ClientResponse: ["start", "read", "raise_for_status"],
}


def _methods() -> list[object]:
    return [owner.__dict__[name] for owner, names in METHODS.items() for name in names]


@pytest.mark.parametrize("first_out", ["us", "OpenTelemetry"])
@pytest.mark.parametrize("first_in", ["us", "OpenTelemetry"])
async def test_everything_is_put_back(first_in: str, first_out: str, telemetry: Telemetry) -> None:
    """Instrumented and not, any number of times, in any order with OpenTelemetry's: nothing of either stays behind."""
    uninstrument_aiohttp()
    plain = _methods()
    other = AioHttpClientInstrumentor()
    for _ in range(3):
        ins: list[Callable[[], Any]] = [
            lambda: instrument_aiohttp(boundary="agent"),
            lambda: other.instrument(tracer_provider=telemetry.tracer_provider),
        ]
        outs: list[Callable[[], Any]] = [uninstrument_aiohttp, other.uninstrument]
        for step in ins if first_in == "us" else ins[::-1]:
            step()
        one, another = outs if first_out == "us" else outs[::-1]
        one()
        async with ClientSession() as session:
            assert len(session.trace_configs) == 1  # the other one's
        another()
        async with ClientSession() as session:
            assert session.trace_configs == []
        assert _methods() == plain


async def test_a_session_that_outlives_the_instrumentation(telemetry: Telemetry) -> None:
    """A session made while we watched is left alone afterwards, and watched again by nobody."""
    with url_of(reply(500)) as url:
        async with ClientSession() as session:
            uninstrument_aiohttp()
            await session.get(url)
            instrument_aiohttp()
            await session.get(url)
    assert telemetry.count() == 0


async def test_the_last_choice_counts(telemetry: Telemetry) -> None:
    """Instrumenting again is no second instrumentation: the new boundary is in force, and a failure is one event."""
    instrument_aiohttp(boundary="sandbox")
    with url_of(reply(500)) as url:
        async with ClientSession() as session:
            await session.get(url)
    assert telemetry.counts() == {
        (
            (semconv.FAILURE_BOUNDARY, "sandbox"),
            (semconv.FAILURE_KIND, "provider_unavailable"),
            (semconv.FAILURE_ROOT, True),
        ): 1
    }


def test_a_boundary_that_does_not_exist() -> None:
    """A wrong boundary is refused when it is given, and changes nothing."""
    before = _methods()
    with pytest.raises(ValueError, match="nowhere"):
        instrument_aiohttp(boundary="nowhere")
    assert _methods() == before


Body = Callable[[ClientSession, str], Awaitable[object]]


async def _read_released(session: ClientSession, url: str) -> None:
    response = await session.get(url)
    response.release()
    await response.read()


async def _read_twice(session: ClientSession, url: str) -> None:
    response = await session.get(url)
    await response.read()
    response.release()
    await response.read()


async def _no_json(session: ClientSession, url: str) -> None:
    async with session.get(url) as response:
        await response.json()


MISUSES = {"released": _read_released, "read and released": _read_twice, "no JSON": _no_json}


@pytest.mark.parametrize("body", MISUSES.values(), ids=MISUSES.keys())
async def test_what_the_caller_does_wrong_is_no_failed_call(body: Body) -> None:
    """An exception that comes of how the caller uses a good response says nothing about the peer."""
    with url_of(answers(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 3\r\n\r\nabc")) as url:
        async with ClientSession() as session:
            with FailureLog("agent") as log, pytest.raises(aiohttp.ClientError):
                await body(session, url)
    assert not log.has_failures


# --- Bodies that break off --------------------------------------------------------------------------------------------

NINE_BYTES = b"HTTP/1.1 200 OK\r\nContent-Type: %s\r\nContent-Length: 9\r\n\r\n"


async def _whole(response: ClientResponse) -> None:
    await response.read()


async def _in_parts(response: ClientResponse) -> None:
    async for _ in response.content.iter_any():
        pass


async def _in_lines(response: ClientResponse) -> None:
    async for _ in response.content:
        pass


READERS = {"whole": _whole, "in parts": _in_parts, "in lines": _in_lines}


@pytest.mark.parametrize("content_type", [b"text/plain", b"text/event-stream"])
@pytest.mark.parametrize("read", READERS.values(), ids=READERS.keys())
async def test_a_body_that_breaks_off(
    read: Callable[[ClientResponse], Awaitable[None]], content_type: bytes, telemetry: Telemetry
) -> None:
    """A body that breaks off is one failed attempt, however it is read, also if the program catches that.

    It stands on the request's span, because the call's own has ended.
    """
    act = in_turn(answers(NINE_BYTES % content_type + b"abc"), answers(NINE_BYTES % content_type + b"abcdefghi"))
    with url_of(act) as url, telemetry.span("request") as span, FailureLog("agent", span=span) as log:
        async with ClientSession() as session:
            for _ in range(2):
                with contextlib.suppress(aiohttp.ClientPayloadError):
                    async with session.get(url) as response:
                        await read(response)
    [event] = log.report().events.values()
    assert (event.failure_kind, event.attempt_id) == ("transport_peer_drop", f"{event.operation_id}.1")


async def test_a_body_that_the_program_has_read_enough_of() -> None:
    """A program that closes a response before its end is no failure of the peer."""

    def act(connection: socket.socket) -> None:
        connection.sendall(NINE_BYTES % b"text/plain" + b"abc")
        is_silent(connection)

    with url_of(act) as url, FailureLog("agent") as log:
        async with ClientSession() as session, session.get(url) as response:
            assert await response.content.read(3) == b"abc"
    assert not log.has_failures


async def test_a_limit_on_the_whole_call_ends_the_body_too() -> None:
    """A body that does not come within the caller's limit is a failed attempt, also where the program reads parts."""

    def act(connection: socket.socket) -> None:
        connection.sendall(NINE_BYTES % b"text/plain" + b"abc")
        is_silent(connection)

    with url_of(act) as url, FailureLog("agent") as log:
        async with (
            ClientSession(timeout=aiohttp.ClientTimeout(total=PATIENCE)) as session,
            session.get(url) as response,
        ):
            let_pass(2 * PATIENCE)
            with pytest.raises(TimeoutError):
                await _in_parts(response)
    assert [event.exception_type for event in log.report().events.values()] == ["TimeoutError"]
