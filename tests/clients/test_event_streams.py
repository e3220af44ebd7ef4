"""Event streams through real clients: the comment line of a broken one is read, and nothing else is different."""

import asyncio
import json
import re
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any, NamedTuple

import aiohttp
import openai
import pytest

from gym_failures.config import Config
from gym_failures.header import encode_report
from gym_failures.instrumentation.aiohttp_client import instrument_aiohttp, uninstrument_aiohttp
from gym_failures.instrumentation.httpx import MODULES, instrument_httpx, uninstrument_httpx
from gym_failures.log import FailureLog
from gym_failures.marks import mark_of
from gym_failures.records import FailureReport
from gym_failures.streams import comment_line, watch
from gym_failures.testing import Telemetry
from tests.clients.callers import PATIENCE
from tests.clients.test_calls import FAILED
from tests.failing import Act, peer

pytestmark = pytest.mark.usefixtures("watched")

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
COMMENT = comment_line(encode_report(FAILED))


def event(text: str) -> bytes:
    """Make an event as an OpenAI-like server streams a chat."""
    chunk = {
        "id": "c1",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "m",
        "choices": [{"index": 0, "delta": {"content": text}, "finish_reason": None}],
    }
    return b"data: " + json.dumps(chunk).encode() + b"\n\n"


DONE = b"data: [DONE]\n\n"


def streams(*chunks: bytes, whole: bool = False) -> Act:
    """Answer with an event stream of these chunks, ended as HTTP has it or broken off."""

    def act(connection: socket.socket) -> None:
        connection.recv(65_536)
        connection.sendall(HEAD)
        for chunk in chunks:
            connection.sendall(b"%x\r\n%s\r\n" % (len(chunk), chunk))
        if whole:
            connection.sendall(b"0\r\n\r\n")
        with suppress(OSError):
            connection.shutdown(socket.SHUT_WR)
        while connection.recv(65_536):  # what is left unread would reset the connection
            pass

    return act


@pytest.fixture
def watched(telemetry: Telemetry) -> Iterator[None]:
    """Watch every client at the boundary of an agent."""
    instrument_aiohttp(boundary="agent", recorder=telemetry.recorder)
    instrument_httpx(boundary="agent", recorder=telemetry.recorder)
    yield
    uninstrument_httpx()
    uninstrument_aiohttp()


@pytest.fixture
def unwatched(watched: None) -> None:  # noqa: ARG001 - undone here, and by it once more
    """Watch no client."""
    uninstrument_httpx()
    uninstrument_aiohttp()


class Read(NamedTuple):
    """What a program got of a stream, and how that ended."""

    items: list[Any]
    error: BaseException | None


Reader = Callable[[str], Read]


def _aiohttp(url: str) -> Read:
    async def read() -> Read:
        data = b""
        async with aiohttp.ClientSession() as session, session.get(url) as response:
            try:
                async for chunk in response.content.iter_any():
                    data += chunk
            except Exception as error:  # noqa: BLE001 - whatever it is, it is compared
                return Read([data], error)
            return Read([data], None)

    return asyncio.run(read())


def _httpx(module: Any) -> Reader:
    def read(url: str) -> Read:
        data = b""
        with module.Client(timeout=PATIENCE, verify=False) as client, client.stream("GET", url) as response:
            try:
                for chunk in response.iter_bytes():
                    data += chunk
            except Exception as error:  # noqa: BLE001 - as above
                return Read([data], error)
        return Read([data], None)

    return read


def _httpx_async(module: Any) -> Reader:
    async def read(url: str) -> Read:
        data = b""
        async with module.AsyncClient(timeout=PATIENCE, verify=False) as client, client.stream("GET", url) as response:
            try:
                async for chunk in response.aiter_bytes():
                    data += chunk
            except Exception as error:  # noqa: BLE001 - as above
                return Read([data], error)
        return Read([data], None)

    return lambda url: asyncio.run(read(url))


def _openai(url: str) -> Read:
    items: list[Any] = []
    http = openai.DefaultHttpxClient(timeout=PATIENCE, verify=False)
    with openai.OpenAI(api_key="none", base_url=url, max_retries=0, http_client=http) as client:
        try:
            stream = client.chat.completions.create(model="m", messages=[], stream=True)
            items.extend(chunk.choices[0].delta.content for chunk in stream)
        except Exception as error:  # noqa: BLE001 - as above
            return Read(items, error)
    return Read(items, None)


def _openai_async(url: str) -> Read:
    async def read() -> Read:
        items: list[Any] = []
        http = openai.DefaultAsyncHttpxClient(timeout=PATIENCE, verify=False)
        async with openai.AsyncOpenAI(api_key="none", base_url=url, max_retries=0, http_client=http) as client:
            try:
                stream = await client.chat.completions.create(model="m", messages=[], stream=True)
                async for chunk in stream:
                    items.append(chunk.choices[0].delta.content)  # noqa: PERF401 - what came before an error counts
            except Exception as error:  # noqa: BLE001 - as above
                return Read(items, error)
        return Read(items, None)

    return asyncio.run(read())


READERS: dict[str, Reader] = {"aiohttp": _aiohttp, "openai": _openai, "openai async": _openai_async}
for _module in (import_module(name) for name in MODULES if find_spec(name)):
    READERS |= {_module.__name__: _httpx(_module), f"{_module.__name__} async": _httpx_async(_module)}

every_reader = pytest.mark.parametrize("read", READERS.values(), ids=READERS.keys())


@dataclass(frozen=True)
class Stream:
    """A stream, the comment line after it, and how it ends."""

    events: tuple[bytes, ...]
    line: tuple[bytes, ...] = ()
    """The line in the chunks that it comes in; none where there is nothing to say."""
    whole: bool = False
    """Whether it ends as HTTP has it; else it breaks off."""

    def act(self, *, silent: bool = False) -> Act:
        """Answer with it, or with what a server without this package would have sent."""
        return streams(*self.events, *(() if silent else self.line), whole=self.whole)


AFTER_LINE = comment_line(encode_report(FAILED), after=b"\n")

STREAMS = {
    "well": Stream((event("a"), event("b"), DONE), whole=True),
    "broken off": Stream((event("a"), event("b"))),
    "ended early": Stream((event("a"), event("b")), whole=True),
    "reported, broken": Stream((event("a"),), (COMMENT,)),
    "reported, ended": Stream((event("a"),), (COMMENT,), whole=True),
    "reported in a line, broken": Stream((event("a"), b'data: {"id'), (COMMENT,)),
    "reported in a line, ended": Stream((event("a"), b'data: {"id'), (COMMENT,), whole=True),
    "reported after a line, broken": Stream((event("a"), event("b")[:-1]), (AFTER_LINE,)),
    "reported after a line, ended": Stream((event("a"), event("b")[:-1]), (AFTER_LINE,), whole=True),
    "reported at once": Stream((), (COMMENT,), whole=True),
    "reported in pieces": Stream((event("a"),), (COMMENT[:60], COMMENT[60:]), whole=True),
}
every_stream = pytest.mark.parametrize("stream", STREAMS.values(), ids=STREAMS.keys())


def read_from(read: Reader, act: Act) -> Read:
    """Read a stream from a peer."""
    with peer(act) as port:
        return read(f"http://127.0.0.1:{port}/v1")


@every_stream
@every_reader
def test_the_report_of_a_broken_stream_arrives(read: Reader, stream: Stream) -> None:
    """The log has the report of the comment line, as remote, however the stream was cut and ended."""
    with FailureLog("agent") as log:
        read_from(read, stream.act())
    remote = {event_id for event_id in log.report().events if event_id in FAILED.events}
    assert remote == (set(FAILED.events) if stream.line else set())


def _told(read: Reader, act: Act) -> tuple[Any, ...]:
    """Return what can be compared of a reading: items, and types and texts of exceptions without ports and addresses.

    Of a stream that breaks off, aiohttp forgets what the program has not read yet; how much that is is chance.
    """
    got = read_from(read, act)
    errors, error = [], got.error
    while error is not None:
        errors.append((type(error), re.sub(r":\d+|0x[0-9a-f]+", "", str(error)), type(error.__context__)))
        error = error.__cause__
    return None if errors and read is _aiohttp else got.items, errors


@every_stream
@every_reader
@pytest.mark.usefixtures("unwatched")
def test_the_program_reads_the_same(read: Reader, stream: Stream, telemetry: Telemetry) -> None:
    """Bytes, items and exceptions are the same as without us, to the openai client too."""
    plain = _told(read, stream.act())
    instrument_aiohttp(recorder=telemetry.recorder)
    instrument_httpx(recorder=telemetry.recorder)
    with FailureLog("agent"):
        assert _told(read, stream.act()) == plain


@every_stream
@pytest.mark.parametrize("read", [_openai, _openai_async], ids=["openai", "openai async"])
@pytest.mark.usefixtures("unwatched")
def test_the_comment_goes_unnoticed(read: Reader, stream: Stream) -> None:
    """The openai client of a program without this package gives the same items and ends the same without the line."""
    assert _told(read, stream.act()) == _told(read, stream.act(silent=True))


@pytest.mark.anyio
async def test_aiohttp_reads_what_comes_later() -> None:
    """What comes after the program has begun to read is seen as well, and before aiohttp forgets it."""
    reading = threading.Event()

    def act(connection: socket.socket) -> None:
        connection.recv(65_536)
        connection.sendall(HEAD + b"3\r\n: a\r\n")
        reading.wait(PATIENCE)
        connection.sendall(b"%x\r\n%s\r\n" % (len(COMMENT), COMMENT))

    with peer(act) as port, FailureLog("agent") as log:
        async with aiohttp.ClientSession() as session, session.get(f"http://127.0.0.1:{port}") as response:
            assert await response.content.readexactly(3) == b": a"
            reading.set()
            with pytest.raises(aiohttp.ClientPayloadError) as caught:
                await response.content.read()
    assert mark_of(caught.value).events == (FAILED.events["own"], FAILED.events["root"])
    assert log.report() == FailureReport(events=FAILED.events)


@pytest.mark.anyio
async def test_a_program_that_has_had_enough_of_a_stream() -> None:
    """What a program meets that reads on after it let go is its own doing, whatever the stream reported."""
    stop = threading.Event()

    def act(connection: socket.socket) -> None:
        connection.recv(65_536)
        connection.sendall(HEAD + b"%x\r\n%s\r\n" % (len(COMMENT), COMMENT))
        stop.wait(PATIENCE)

    with peer(act) as port, FailureLog("agent") as log:
        async with aiohttp.ClientSession() as session:
            response = await session.get(f"http://127.0.0.1:{port}")
            await response.content.readexactly(len(COMMENT))
            response.close()
            stop.set()
            with pytest.raises(aiohttp.ClientConnectionError) as caught:
                await response.content.readany()
    assert mark_of(caught.value) is None
    assert log.report() == FailureReport(events=FAILED.events)


@every_reader
def test_what_breaks_with_the_stream_is_caused_by_the_report(read: Reader) -> None:
    """The exception with which a reported stream breaks is no failure beside the reported one, but comes of it."""
    with suppress(Exception), FailureLog("agent") as log:
        raise read_from(read, STREAMS["reported, broken"].act()).error
    report = log.report()
    own = report.events[report.failure_id]
    assert own.cause_id == "own"
    assert report.events.keys() == {own.event_id, "own", "root"}


@every_reader
def test_a_stream_that_breaks_without_a_report_is_one_failure(read: Reader) -> None:
    """The exception with which any other stream breaks is one failure of this side, a lost connection."""
    with suppress(Exception), FailureLog("agent") as log:
        raise read_from(read, STREAMS["broken off"].act()).error
    (own,) = log.report().events.values()
    assert own.failure_kind == "transport_peer_drop"


@every_reader
def test_the_report_outside_of_a_request(read: Reader, telemetry: Telemetry) -> None:
    """Without a log the report is on the span that was current when the reply began."""
    with telemetry.span("top"):
        read_from(read, STREAMS["reported, ended"].act())
    assert {event["failure.id"] for event in telemetry.events()} == {"own", "root"}
    assert {event["failure.origin"] for event in telemetry.events()} == {"remote"}


@pytest.mark.parametrize("name", ["aiohttp", "httpx", "httpx async"])
def test_a_stream_of_a_peer_that_is_not_believed(name: str) -> None:
    """A comment line from a host that was not chosen is left alone."""
    with Telemetry(Config(accept_from="none")) as telemetry:
        instrument_aiohttp(recorder=telemetry.recorder)
        instrument_httpx(recorder=telemetry.recorder)
        with FailureLog("agent") as log:
            read_from(READERS[name], STREAMS["reported, ended"].act())
    assert not log.has_failures


@pytest.mark.usefixtures("unwatched")
def test_a_relay_watches_by_itself() -> None:
    """A program that reads with a client of another kind hands its chunks through `watch`."""
    with FailureLog("agent") as log:
        (data,) = read_from(_httpx(import_module("httpx")), STREAMS["reported, ended"].act()).items
        assert b"".join(watch([data])) == data
    assert log.report() == FailureReport(events=FAILED.events)
