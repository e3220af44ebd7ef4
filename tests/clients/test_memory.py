"""What is left of a request when it is over, though something that it began lives on and has a copy of its context."""

import asyncio
import contextlib
import gc
import socket
import weakref
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from typing import Any

import aiohttp
import pytest
from aiohttp.abc import AbstractResolver

from gym_failures.errors import FailureError
from gym_failures.instrumentation.aiohttp_client import instrument_aiohttp, uninstrument_aiohttp
from gym_failures.instrumentation.asgi import FailureMiddleware
from gym_failures.log import FailureLog, current_log
from gym_failures.operations import operation
from gym_failures.outliving import Outliving
from gym_failures.recording import current, record_failure
from gym_failures.testing import Telemetry
from tests.failing import is_silent, peer
from tests.servers.asgi import Call, body, start


def keeps(connection: socket.socket) -> None:
    """Answer one request, and keep the connection for the next."""
    connection.recv(65_536)
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
    is_silent(connection)


@pytest.fixture(autouse=True)
def watched() -> Iterator[None]:
    """Watch aiohttp."""
    instrument_aiohttp()
    yield
    uninstrument_aiohttp()


class Held:
    """Something that a request has in its scope."""


async def served(telemetry: Telemetry, work: Callable[[], Awaitable[Any]]) -> tuple[Any, Any]:
    """Serve a request that does some work, and return what it has in its scope and what stands for it, if they live."""
    found = []

    async def app(_: Any, __: Any, send: Any) -> None:
        found.append(weakref.ref(current.get()))
        await work()
        await send(start(200))
        await send(body(b"ok"))

    call = Call(FailureMiddleware(app, boundary="agent", recorder=telemetry.recorder))
    call.scope["held"] = Held()
    found.insert(0, weakref.ref(call.scope["held"]))
    await asyncio.create_task(call.run())
    del call
    gc.collect()
    held, request = found
    return held(), request()


async def call(session: aiohttp.ClientSession, port: int) -> None:
    """Call a peer, in an operation."""
    with operation():
        async with session.get(f"http://127.0.0.1:{port}") as response:
            assert await response.read() == b"ok"


async def call_in_a_task(session: aiohttp.ClientSession, port: int) -> None:
    """Do so in a task, whose context nobody clears when the request is over."""
    await asyncio.create_task(call(session, port))


async def call_and_fail(session: aiohttp.ClientSession, port: int) -> None:
    """Do so, and have something to tell of."""
    await call(session, port)
    record_failure(ValueError("this once"))


@pytest.mark.parametrize("work", [call, call_in_a_task, call_and_fail])
def test_a_connection_of_aiohttp_keeps_nothing_of_the_request(
    work: Callable[[aiohttp.ClientSession, int], Awaitable[None]], telemetry: Telemetry
) -> None:
    """A connection lives longer than the request that made it, with a copy of its context, and does not hold it."""

    async def main(*ports: int) -> None:
        # Timers have contexts, too: those of time-outs, and one that a session begins at the end of its first call.
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=None)) as session:
            _, *others = [await served(telemetry, partial(work, session, port)) for port in ports]
            assert others == [(None, None), (None, None)]
            assert session.connector is not None
            assert len(session.connector._conns) == len(ports)

    with peer(keeps) as first, peer(keeps) as second, peer(keeps) as third:
        asyncio.run(main(first, second, third))


class Resolver(AbstractResolver):
    """One that finds nobody, and says why to us."""

    async def resolve(self, *_: Any, **__: Any) -> Any:
        """Fail."""
        record_failure(FailureError("agent_timeout", boundary="agent"))
        raise OSError

    async def close(self) -> None:
        """Have nothing to close."""


def test_a_connection_that_fails_is_the_request_s(telemetry: Telemetry) -> None:
    """What is recorded while a connection is made, and after it has failed, is in the log of the request."""
    reports = []

    async def work() -> None:
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(resolver=Resolver())) as session:
            with contextlib.suppress(aiohttp.ClientError):
                await session.get("http://nowhere.test")
        log = current_log()
        assert log is not None
        log.observe_failure(FailureError("judge_failed", boundary="agent"))
        reports.append(log.report())

    asyncio.run(served(telemetry, work))
    [report] = reports
    kinds = [event.failure_kind for event in report.events.values()]
    assert kinds == ["agent_timeout", "transport_unreachable", "judge_failed"]


def test_what_comes_of_a_connection_after_its_request_is_nobody_s(telemetry: Telemetry) -> None:
    """In the context of a connection whose request is gone, a failure is recorded as outside of any."""
    stands = Outliving(FailureLog("agent", recorder=telemetry.recorder))
    token = current.set(stands)
    try:
        assert current_log() is None
        assert record_failure(FailureError("judge_failed", boundary="agent")) is not None
        assert current.get() is stands
    finally:
        current.reset(token)
    assert (telemetry.count(), stands.recorder) == (1, telemetry.recorder)


def test_what_lives_on_holds_little_of_the_request(telemetry: Telemetry) -> None:
    """Whatever else a request begins holds what stands for it, but neither its scope nor the server's connection."""

    async def main() -> None:
        over = asyncio.Event()
        tasks = []

        async def work() -> None:
            tasks.append(asyncio.create_task(over.wait()))

        held, request = await served(telemetry, work)
        assert held is None
        assert request is not None
        over.set()
        await tasks[0]

    asyncio.run(main())
