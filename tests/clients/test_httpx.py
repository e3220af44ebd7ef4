"""What is httpx's own: clients that exist are watched too, and its streams are its own in all but what is seen."""

import asyncio
import functools
import inspect
from collections.abc import AsyncGenerator, Callable, Iterator
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import pytest
from opentelemetry.instrumentation import httpx as otel_httpx

from gym_failures.exceptions import MissingExtraError
from gym_failures.instrumentation import httpx as adapter
from gym_failures.instrumentation.httpx import MODULES, instrument_httpx, uninstrument_httpx
from gym_failures.log import FailureLog
from gym_failures.testing import Telemetry
from tests.clients.callers import PATIENCE
from tests.clients.test_calls import FAILED, reporting
from tests.failing import answers, drops, is_silent, peer, reply

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("telemetry")]

INSTALLED = [import_module(name) for name in MODULES if find_spec(name)]
every_module = pytest.mark.parametrize("module", INSTALLED, ids=lambda module: module.__name__)


@pytest.fixture(autouse=True)
def watched(telemetry: Telemetry) -> Iterator[None]:
    """Watch httpx at the boundary of an agent."""
    instrument_httpx(boundary="agent", recorder=telemetry.recorder)
    yield
    uninstrument_httpx()


def otel_of(module: Any) -> Any:
    """Return OpenTelemetry's instrumentor of a module."""
    return getattr(otel_httpx, f"{module.__name__.upper()}ClientInstrumentor")()


def client_of(module: Any) -> Any:
    """Make a client that waits for peers that are slow."""
    return module.Client(timeout=PATIENCE, verify=False)


@every_module
def test_a_client_that_exists_is_watched(module: Any) -> None:
    """A client made before us is watched, and no longer once we are gone."""
    uninstrument_httpx()
    with client_of(module) as client, peer(reply(500)) as port:
        with FailureLog("agent") as before:
            client.get(f"http://127.0.0.1:{port}")
        instrument_httpx()
        with FailureLog("agent") as during:
            client.get(f"http://127.0.0.1:{port}")
        uninstrument_httpx()
        with FailureLog("agent") as after:
            client.get(f"http://127.0.0.1:{port}")
    assert [log.has_failures for log in (before, during, after)] == [False, True, False]


@every_module
def test_a_body_that_is_streamed(module: Any) -> None:
    """A body that breaks off while the program reads it is a failed call, and the program gets what had come."""
    act = answers(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc")
    with (
        client_of(module) as client,
        peer(act) as port,
        FailureLog("agent") as log,
        client.stream("GET", f"http://127.0.0.1:{port}") as response,
    ):
        chunks = response.iter_raw()
        assert next(chunks) == b"abc"
        with pytest.raises(module.RemoteProtocolError):
            next(chunks)
    assert [event.failure_kind for event in log.report().events.values()] == ["transport_peer_drop"]


@every_module
async def test_closing_a_stream_early(module: Any) -> None:
    """A program that closes an asynchronous stream before its end closes all of it then and there."""
    act = answers(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n3\r\nabc\r\n0\r\n\r\n")
    with peer(act) as port, FailureLog("agent") as log:
        async with module.AsyncClient(timeout=PATIENCE, verify=False) as client:
            async with client.stream("GET", f"http://127.0.0.1:{port}") as response:
                chunks = response.aiter_raw()
                assert await anext(chunks) == b"abc"
                await chunks.aclose()
            assert response.is_closed
    assert not log.has_failures


@every_module
async def test_a_stream_closes_what_it_is_put_around(module: Any) -> None:
    """The generator under a watched stream is closed with it, and not when it is collected."""
    closed = []

    class Inner(module.AsyncByteStream):  # type: ignore[misc,name-defined]
        async def __aiter__(self) -> AsyncGenerator[bytes, None]:
            try:
                yield b"a"
                yield b"b"
            finally:
                closed.append(1)

    call = adapter.Call(adapter.FailureBoundary.AGENT, None)
    stream = adapter._async_stream_class(module)(Inner(), adapter._Body(call, None))
    chunks = aiter(stream)
    assert await anext(chunks) == b"a"
    await chunks.aclose()
    assert closed == [1]


@every_module
async def test_a_cancelled_call_is_no_failure(module: Any) -> None:
    """The one who cancels a call knows why; the call itself records nothing."""
    with peer(is_silent) as port, FailureLog("agent") as log:
        async with module.AsyncClient(timeout=PATIENCE, verify=False) as client:
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(client.get(f"http://127.0.0.1:{port}"), 0.05)
    assert not log.has_failures


def _methods(module: Any) -> list[object]:
    return [
        module.HTTPTransport.__dict__["handle_request"],
        module.AsyncHTTPTransport.__dict__["handle_async_request"],
        module.Response.__dict__["raise_for_status"],
    ]


@pytest.mark.parametrize("first_out", ["us", "OpenTelemetry"])
@pytest.mark.parametrize("first_in", ["us", "OpenTelemetry"])
@every_module
def test_everything_is_put_back(module: Any, first_in: str, first_out: str, telemetry: Telemetry) -> None:
    """Instrumented and not, any number of times, in any order with OpenTelemetry's: nothing of either stays behind."""
    uninstrument_httpx()
    plain = _methods(module)
    other = otel_of(module)
    ins: list[Callable[[], Any]] = [
        lambda: instrument_httpx(boundary="agent"),
        lambda: other.instrument(tracer_provider=telemetry.tracer_provider),
    ]
    outs: list[Callable[[], Any]] = [uninstrument_httpx, other.uninstrument]
    for _ in range(3):
        for step in ins if first_in == "us" else ins[::-1]:
            step()
        assert _methods(module) != plain
        one, another = outs if first_out == "us" else outs[::-1]
        one()
        with client_of(module) as client, peer(reply(500)) as port, FailureLog("agent") as log:
            client.get(f"http://127.0.0.1:{port}")
        assert log.has_failures is (first_out == "OpenTelemetry")  # the other one goes on alone
        another()
        assert _methods(module) == plain


@every_module
def test_what_someone_holds_on_to_sees_no_more(module: Any) -> None:
    """A wrapper that a third party has put round ours, and that keeps it alive, calls on without being watched."""
    held = module.HTTPTransport.handle_request
    module.HTTPTransport.handle_request = functools.partialmethod(held)
    uninstrument_httpx()
    try:
        with client_of(module) as client, peer(reply(500)) as port, FailureLog("agent") as log:
            assert client.get(f"http://127.0.0.1:{port}").status_code == 500
    finally:
        module.HTTPTransport.handle_request = held.__wrapped__
    assert not log.has_failures


@every_module
def test_the_last_choice_counts(module: Any, telemetry: Telemetry) -> None:
    """Instrumenting again is no second instrumentation: the new boundary is in force, and a failure is one event."""
    instrument_httpx(boundary="sandbox", module=module)
    with (
        client_of(module) as client,
        peer(drops) as port,
        telemetry.span("top"),
        pytest.raises(module.RemoteProtocolError),
    ):
        client.get(f"http://127.0.0.1:{port}")
    assert telemetry.only_event()["failure.boundary"] == "sandbox"
    assert telemetry.count() == 1


def test_a_boundary_that_does_not_exist() -> None:
    """A wrong boundary is refused when it is given, and changes nothing."""
    with pytest.raises(ValueError, match="nowhere"):
        instrument_httpx(boundary="nowhere")


def test_without_httpx(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where neither generation is installed, that is said when it is asked for."""
    monkeypatch.setattr(adapter, "find_spec", lambda _: None)
    with pytest.raises(MissingExtraError, match=r"gym-failures\[httpx\]"):
        instrument_httpx()


@every_module
def test_the_methods_look_as_before(module: Any) -> None:
    """Whoever looks at a wrapped method finds its name, its signature and what it wraps."""
    wrapped = module.HTTPTransport.handle_request
    assert wrapped.__qualname__ == "HTTPTransport.handle_request"
    assert list(inspect.signature(wrapped).parameters) == ["self", "request"]
    assert inspect.iscoroutinefunction(module.AsyncHTTPTransport.handle_async_request)


@every_module
def test_a_transport_of_the_program_s_own(module: Any) -> None:
    """A transport that passes on to one of httpx's own is seen once, where the call is made."""

    class Passing(module.BaseTransport):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            self.inner = module.HTTPTransport(verify=False)

        def handle_request(self, request: Any) -> Any:
            return self.inner.handle_request(request)

    with (
        peer(reporting(FAILED)) as port,
        FailureLog("agent") as log,
        module.Client(timeout=PATIENCE, transport=Passing()) as client,
    ):
        assert client.get(f"http://127.0.0.1:{port}").status_code == 500
    assert log.report().events.keys() == {"own", "root"}
