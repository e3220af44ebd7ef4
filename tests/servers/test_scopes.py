"""One log for each request and none for anything else, however apps are nested, mounted or called."""

import asyncio
import contextvars
import threading
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest
from fastapi import FastAPI
from opentelemetry.instrumentation.asgi import OpenTelemetryMiddleware
from opentelemetry.trace import SpanKind
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.routing import Mount, WebSocketRoute

from gym_failures.errors import FailureError, report_for
from gym_failures.header import decode_report, encode_report
from gym_failures.instrumentation import FailureMiddleware, instrument_app, uninstrument_app
from gym_failures.instrumentation.asgi.middleware import InnerPart
from gym_failures.log import current_log
from gym_failures.operations import current_operation, operation
from gym_failures.propagation import get_report
from gym_failures.recording import record_failure
from gym_failures.semconv import HEADER_NAME
from tests.servers.asgi import Call, body, start


@pytest.mark.parametrize("kind", ["lifespan", "websocket", "webtransport", "of tomorrow"])
def test_other_scopes_pass_untouched(kind, telemetry):
    """Lifespan, websockets and unknown scopes reach the app as the same objects, and no log is opened (sentry#505)."""
    given = ({"type": kind}, object(), object())
    seen = []

    async def app(*arguments):
        seen.append((arguments, current_log()))

    asyncio.run(FailureMiddleware(app, boundary="agent", recorder=telemetry.recorder)(*given))
    assert all(one is other for one, other in zip(seen[0][0], given, strict=True))
    assert seen[0][1] is None
    assert given[0] == {"type": kind}


def test_websocket_of_an_instrumented_app(telemetry):
    """A websocket that fails in an instrumented app sends what it would send without us, and nothing is recorded."""

    async def talk(websocket):
        await websocket.accept()
        await websocket.send_text("hello")
        raise ValueError("broken off")

    def run(app):
        call = Call(app, path="/ws", received=[{"type": "websocket.connect"}])
        call.scope |= {"type": "websocket", "subprotocols": []}
        with pytest.raises(ValueError, match="broken off"):
            asyncio.run(call.run())
        return call.sent

    plain, ours = (Starlette(routes=[WebSocketRoute("/ws", talk)]) for _ in range(2))
    instrument_app(ours, boundary="agent", recorder=telemetry.recorder)
    assert run(ours) == run(plain)
    uninstrument_app(ours)
    assert telemetry.counts() == {}


def test_a_mounted_app_shares_the_log(telemetry):
    """A mounted app that is instrumented too writes into the log of the request, and the reply has one report."""
    logs = []

    async def root(scope, receive, send):
        logs.append(current_log())
        await FailureMiddleware(inner, boundary="model", recorder=telemetry.recorder)(scope, receive, send)

    async def inner(scope, receive, send):
        logs.append(current_log())
        record_failure(FailureError("provider_unavailable", boundary="agent"))
        await send(start(200))
        await send(body(b""))

    outer = Starlette(routes=[Mount("/sub", app=root)])
    instrument_app(outer, boundary="agent", recorder=telemetry.recorder)
    call = Call(outer, path="/sub/x")
    asyncio.run(call.run())
    uninstrument_app(outer)
    assert logs[0] is logs[1] is not None
    assert [event.failure_kind for event in call.report.events.values()] == ["provider_unavailable"]


@pytest.mark.parametrize("traced", [False, True], ids=["untraced", "traced"])
def test_an_app_called_in_process_keeps_its_own_log(traced, telemetry):
    """What is called without a network is a server of its own: only its reply tells its caller of its failures.

    Neither is its caller's span its span, nor its caller's attempt its attempt.
    """
    attempts = []

    async def callee(scope, receive, send):
        attempts.append(current_operation())
        record_failure(FailureError("provider_unavailable", boundary="model"))
        await send(start(503))
        await send(body(b""))

    async def caller(scope, receive, send):
        served = FailureMiddleware(callee, boundary="model", recorder=telemetry.recorder)
        if traced:
            served = OpenTelemetryMiddleware(served, tracer_provider=telemetry.tracer_provider)
        with operation() as call:
            call.begin_attempt()
            async with httpx.AsyncClient(transport=httpx.ASGITransport(served), base_url="http://callee") as client:
                replies.append(await client.get("/"))
        seen.append(current_log().report())
        await send(start(200))
        await send(body(b""))

    replies, seen = [], []
    app = FailureMiddleware(caller, boundary="agent", recorder=telemetry.recorder)
    call = Call(OpenTelemetryMiddleware(app, tracer_provider=telemetry.tracer_provider))
    asyncio.run(call.run())
    report = decode_report(replies[0].headers[HEADER_NAME])
    assert report.events[report.failure_id].boundary.value == "model"
    assert (len(seen[0].events), call.report, attempts) == (0, None, [None])
    mine = next(span for span in telemetry.spans() if span.kind is SpanKind.SERVER)
    assert "failure.id" not in mine.attributes
    assert all(event.attempt_id is None for event in report.events.values())


async def answering_503(scope, receive, send):
    """Answer 503."""
    await send(start(503))
    await send(body(b""))


def test_a_client_s_span_is_not_the_request_s(telemetry):
    """A CLIENT span that is current when an app is called from within its process stands for the call, not for it."""
    call = Call(FailureMiddleware(answering_503, boundary="agent", recorder=telemetry.recorder))
    with telemetry.span("call", kind=SpanKind.CLIENT):
        asyncio.run(call.run())
    assert "failure.id" not in telemetry.named("call").attributes
    assert call.report.failure_id is not None


def test_a_span_that_is_opened_further_in_is_found_at_the_reply(telemetry):
    """Round OpenTelemetry's middleware, instead of within it, the request's span is that of the reply's start."""
    traced = OpenTelemetryMiddleware(answering_503, tracer_provider=telemetry.tracer_provider)
    call = Call(FailureMiddleware(traced, boundary="agent", recorder=telemetry.recorder))
    asyncio.run(call.run())
    assert telemetry.named("GET /").attributes["failure.id"] == call.report.failure_id


def test_the_span_nearest_to_the_server_is_the_request_s(telemetry):
    """Of several spans that are opened within an app, the outermost stands for the request, whatever its kind."""

    class Spanning:
        def __init__(self, app):
            self.app = app

        async def __call__(self, scope, receive, send):
            with telemetry.span("the app's own"):
                await self.app(scope, receive, send)

    app = Starlette(routes=[Mount("/", app=answering_503)], middleware=[Middleware(Spanning)])
    app.add_middleware(OpenTelemetryMiddleware, tracer_provider=telemetry.tracer_provider)
    instrument_app(app, boundary="agent", recorder=telemetry.recorder)
    with telemetry.span("outside"):  # Which makes OpenTelemetry's an INTERNAL one.
        asyncio.run(Call(app).run())
    uninstrument_app(app)
    assert [span.name for span in telemetry.spans() if "failure.id" in span.attributes] == ["GET /"]


def test_a_server_s_span_is_the_request_s_wherever_it_is_found(telemetry):
    """A SERVER span stands for the request, even where another span was seen before it."""

    def spanning(app, name, kind):
        async def span(scope, receive, send):
            with telemetry.span(name, kind=kind):
                await app(scope, receive, send)

        return span

    served = spanning(InnerPart(answering_503), "GET /", SpanKind.SERVER)
    app = spanning(InnerPart(served), "the app's own", SpanKind.INTERNAL)
    asyncio.run(Call(FailureMiddleware(app, boundary="agent", recorder=telemetry.recorder)).run())
    assert [span.name for span in telemetry.spans() if "failure.id" in span.attributes] == ["GET /"]


def test_an_exception_that_the_caller_is_handling_is_not_the_request_s(telemetry):
    """What the caller of an app is handling at the time has nothing to do with how the app answers."""

    async def main():
        try:
            raise LookupError("of the caller")
        except LookupError:
            await call.run()

    call = Call(FailureMiddleware(answering_503, boundary="agent", recorder=telemetry.recorder))
    asyncio.run(main())
    (own,) = call.report.events.values()
    assert (own.exception_type, own.http_status) == (None, 503)


def test_requests_at_the_same_time_are_told_apart(telemetry):
    """Of many requests in flight each gets its own failure, even where all raise the same exception object."""
    constant = FailureError("provider_unavailable", boundary="agent", reason="the same")
    app = FastAPI()
    everyone = asyncio.Barrier(50)

    @app.get("/{number}")
    async def root(number: int):
        record_failure(FailureError("judge_failed", boundary="agent", reason=str(number)))
        await everyone.wait()
        raise constant

    instrument_app(app, boundary="agent", recorder=telemetry.recorder)

    async def main():
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
            return await asyncio.gather(*(client.get(f"/{number}") for number in range(50)))

    replies = asyncio.run(main())
    uninstrument_app(app)
    reports = [decode_report(reply.headers[HEADER_NAME]) for reply in replies]
    own = [report.events[report.failure_id] for report in reports]
    assert [
        [one.failure_reason for one in report.events.values() if one.failure_kind == "judge_failed"]
        for report in reports
    ] == [[str(number)] for number in range(50)]
    assert len({event.event_id for event in own}) == 50


def test_a_report_in_the_request_is_received_and_not_forwarded(telemetry):
    """What a request brings can be read by the app, and is neither in its log nor in its reply."""
    brought = report_for(FailureError("provider_unavailable", boundary="model"))
    seen = []

    async def app(scope, receive, send):
        seen.append((get_report(), current_log().has_failures))
        await send(start(200))
        await send(body(b""))

    async def main():
        await call.run()
        seen.append((get_report(), current_log()))

    call = Call(FailureMiddleware(app, boundary="agent", recorder=telemetry.recorder))
    call.scope["headers"].append((b"Gym-Failure-Report", encode_report(brought).encode()))
    asyncio.run(main())
    assert seen == [(brought, False), (None, None)]
    assert call.report is None


def test_headers_that_can_be_read_only_once_are_left_for_the_app(telemetry):
    """ASGI asks no more of a request's headers than that they can be read once, and the app reads them too."""
    read = []

    async def app(scope, receive, send):
        read.append((list(scope["headers"]), get_report()))
        await send(start(200))
        await send(body(b""))

    brought = report_for(FailureError("provider_unavailable", boundary="model"))
    headers = [(b"host", b"test"), (b"gym-failure-report", encode_report(brought).encode())]
    call = Call(FailureMiddleware(app, boundary="agent", recorder=telemetry.recorder))
    call.scope["headers"] = iter(headers)
    asyncio.run(call.run())
    assert read == [(headers, brought)]


def test_a_request_without_headers_has_a_log(telemetry):
    """A caller in the same process may leave the headers out, which ASGI's servers never do."""

    async def app(scope, receive, send):
        await send(start(500))
        await send(body(b""))

    call = Call(FailureMiddleware(app, boundary="agent", recorder=telemetry.recorder))
    del call.scope["headers"]
    asyncio.run(call.run())
    assert call.report is not None


def test_nothing_is_left_in_the_scope(telemetry):
    """After the request its scope is as it was, so that nothing of ours outlives it."""

    async def app(scope, receive, send):
        assert len(scope) == before + 1
        await send(start(200))
        await send(body(b""))

    call = Call(FailureMiddleware(app, boundary="agent", recorder=telemetry.recorder))
    before = len(call.scope)
    asyncio.run(call.run())
    assert len(call.scope) == before


def test_a_request_that_goes_well_makes_no_log(telemetry, monkeypatch):
    """Of a request in which nothing fails one small object is all there is: no log is made."""

    def refuse(*_, **__):
        raise AssertionError("a log was made")

    monkeypatch.setattr("gym_failures.instrumentation.asgi.observed.RequestLog", refuse)

    async def app(scope, receive, send):
        await receive()
        await send(start(404))
        await send(body(b"1", more=True))
        await send(body(b"2"))

    call = Call(FailureMiddleware(InnerPart(app), boundary="agent", recorder=telemetry.recorder))
    asyncio.run(call.run())
    assert [message["type"] for message in call.sent] == ["http.response.start", *["http.response.body"] * 2]


def test_threads_that_ask_at_once_get_one_log(telemetry):
    """A log is made when it is first asked for, and threads that do so at the same time get the same."""
    threads = 8
    everyone = threading.Barrier(threads)
    logs = []

    def ask():
        everyone.wait()
        logs.append(current_log())
        record_failure(ValueError("x"))

    async def app(scope, receive, send):
        await asyncio.gather(*(asyncio.to_thread(ask) for _ in range(threads)))
        await send(start(200))
        await send(body(b""))

    async def main():
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(threads))
        await call.run()

    call = Call(FailureMiddleware(app, boundary="agent", recorder=telemetry.recorder))
    asyncio.run(main())
    assert len({id(log) for log in logs}) == 1
    assert len(call.report.events) == threads


def test_the_log_of_a_request_is_nobody_s_block(telemetry):
    """What the middleware opened only the middleware ends: as a block of the app the log is refused."""

    def enter(log):
        with pytest.raises(RuntimeError, match="entered once"), log:
            pytest.fail("entered")

    async def app(scope, receive, send):
        enter(current_log())
        contextvars.Context().run(enter, current_log())
        record_failure(FailureError("judge_failed", boundary="agent"))
        await send(start(200))
        await send(body(b""))

    call = Call(FailureMiddleware(app, boundary="agent", recorder=telemetry.recorder))
    asyncio.run(call.run())
    assert len(call.report.events) == 1


def test_route_of_a_framework_that_only_the_span_knows(telemetry):
    """Where no route is in the scope, the operation has that of the span, and never a path with its values."""

    async def app(scope, receive, send):
        raise KeyError("secret")

    call = Call(FailureMiddleware(app, boundary="agent", recorder=telemetry.recorder), path="/items/secret")
    with telemetry.span("request", kind=SpanKind.SERVER) as span:
        span.set_attribute("http.route", "/items/{item}")
        with pytest.raises(KeyError):
            asyncio.run(call.run())
    assert telemetry.only_event()["failure.operation"] == "test GET /items/{item}"


def test_the_route_behind_a_rewritten_path(telemetry):
    """A middleware that takes a prefix off the path hands on a copy of the scope: the route is found there.

    NeMo Gym's servers do so with the id of a rollout (NVIDIA-NeMo/Gym#316).
    """

    class Unprefixed:
        def __init__(self, app):
            self.app = app

        async def __call__(self, scope, receive, send):
            await self.app({**scope, "path": scope["path"].removeprefix("/prefix")}, receive, send)

    app = FastAPI()
    app.add_middleware(Unprefixed)

    @app.get("/items/{item}")
    async def fail(item: str):
        raise ValueError(item)

    instrument_app(app, boundary="agent", recorder=telemetry.recorder, stage=lambda scope: stages[scope["path"]])
    stages = {"/items/1": "seed"}
    with telemetry.span("request", kind=SpanKind.SERVER), pytest.raises(ValueError, match="1"):
        asyncio.run(Call(app, path="/prefix/items/1").run())
    event = telemetry.only_event()
    assert (event["failure.operation"], event["failure.stage"]) == ("test GET /items/{item}", "seed")
