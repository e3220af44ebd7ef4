"""Requests whose client is gone, whose work is cancelled, or whose work goes on after the reply."""

import asyncio
import contextvars
import logging
import socket
import threading

import pytest
from fastapi import BackgroundTasks, FastAPI, Request
from fastapi.responses import JSONResponse, StreamingResponse
from opentelemetry.instrumentation.asgi import OpenTelemetryMiddleware
from opentelemetry.trace import SpanKind, StatusCode
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect
from starlette.routing import Mount

from gym_failures.instrumentation import FailureMiddleware, instrument_app
from gym_failures.kinds import FailureStage
from gym_failures.log import current_log
from gym_failures.recording import record_failure
from gym_failures.semconv import HEADER_NAME, METRIC_REQUESTS_FAILED, OVERFLOW_SPAN_NAME
from tests.servers.asgi import Call, body, start
from tests.servers.assembling import assemble, dismantle
from tests.servers.serving import HOST, PATIENCE, ask, request


async def returns(send):
    """Give up without a word."""


async def answers(send):
    """Answer all the same."""
    await send(start(200))
    await send(body(b"late"))


async def answers_500(send):
    """Answer with an error, as a middleware that turns everything into a 500 does."""
    await send(start(500))
    await send(body(b"late"))


async def raises(send):
    """Say who is gone."""
    raise ClientDisconnect


async def is_cancelled(send):
    """End as a task does that was cancelled because its client is gone."""
    raise asyncio.CancelledError


@pytest.mark.parametrize("react", [returns, answers, answers_500, raises, is_cancelled])
def test_client_gone_before_the_reply(react, server, telemetry, caplog):
    """Whatever an app does when its client has gone: one failure, counted, no header, no complaint of the server."""
    waiting = threading.Event()
    sent = []

    async def app(scope, receive, send):
        await receive()
        waiting.set()
        assert (await receive())["type"] == "http.disconnect"
        await react(send)

    inner = assemble(app, "first", telemetry, telemetry.tracer_provider)

    async def outer(scope, receive, send):
        async def keep(message):
            sent.append(message)
            await send(message)

        await inner(scope, receive, keep)

    server.switch.serve(outer)
    with caplog.at_level(logging.ERROR), socket.create_connection((HOST, server.serving.port)) as connection:
        connection.sendall(request())
        assert waiting.wait(PATIENCE)
        connection.close()
        server.switch.left()
    assert telemetry.only_event()["failure.kind"] == "cancelled"
    assert telemetry.count(METRIC_REQUESTS_FAILED, failure_kind="cancelled") == 1
    assert telemetry.count() == 1
    assert not any(name == HEADER_NAME.encode() for message in sent for name, _ in message.get("headers", ()))
    assert not any("already" in record.getMessage() for record in caplog.records)


def test_client_gone_during_a_stream(server, telemetry):
    """A client that leaves in the middle of a stream is one failure, `cancelled`."""
    begun = threading.Event()
    app = FastAPI()

    @app.get("/")
    async def root():
        async def parts():
            yield "data: 1\n\n"
            begun.set()
            await asyncio.Event().wait()

        return StreamingResponse(parts(), media_type="text/event-stream")

    server.switch.serve(assemble(app, "first", telemetry, telemetry.tracer_provider))
    with socket.create_connection((HOST, server.serving.port)) as connection:
        connection.sendall(request())
        assert begun.wait(PATIENCE)
    server.switch.left()
    dismantle(app)
    assert telemetry.only_event()["failure.kind"] == "cancelled"
    assert telemetry.count(METRIC_REQUESTS_FAILED, failure_kind="cancelled") == 1


async def answering(scope, receive, send):
    """Answer."""
    await send(start(200))


@pytest.mark.parametrize("app", [answering, Starlette(routes=[Mount("/", app=answering)])], ids=["bare", "starlette"])
def test_send_that_fails_is_a_client_that_is_gone(app, telemetry):
    """An OSError out of the server's `send` means that the client has gone; the app gets that very exception."""
    gone = BrokenPipeError("peer")

    async def send(message):
        raise gone

    call = Call(assemble(app, "bare", telemetry, None))
    call.send = send
    with telemetry.span("request", kind=SpanKind.SERVER), pytest.raises(BrokenPipeError) as caught:
        asyncio.run(call.run())
    dismantle(app)
    assert caught.value is gone
    assert telemetry.only_event()["failure.kind"] == "cancelled"


def test_a_failure_of_an_app_whose_client_is_gone_keeps_its_kind(telemetry):
    """An exception of the app's own is its failure, even when nobody waits for it any more."""

    async def app(scope, receive, send):
        await receive()
        raise KeyError("lost")

    received = [{"type": "http.disconnect"}]
    call = Call(FailureMiddleware(app, boundary="agent", recorder=telemetry.recorder), received=received)
    with telemetry.span("request", kind=SpanKind.SERVER), pytest.raises(KeyError):
        asyncio.run(call.run())
    assert telemetry.only_event()["failure.kind"] == "agent_run_error"


@pytest.mark.parametrize("started", [False, True])
def test_cancelled_work(started, telemetry):
    """Cancelled work is recorded and counted, and the span's status is as without us (opentelemetry-python#4484)."""

    async def app(scope, receive, send):
        if started:
            await send(start(200, (b"content-type", b"text/event-stream")))
        await asyncio.Event().wait()

    async def main(app):
        call = Call(OpenTelemetryMiddleware(app, tracer_provider=telemetry.tracer_provider))
        task = asyncio.create_task(call.run())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return call.sent

    plain = asyncio.run(main(app))
    sent = asyncio.run(main(FailureMiddleware(app, boundary="agent", recorder=telemetry.recorder)))
    without, span = (span for span in telemetry.spans() if span.kind is SpanKind.SERVER)
    assert sent == plain
    assert span.status.status_code is without.status.status_code
    assert span.attributes["failure.kind"] == "cancelled"
    assert telemetry.only_event()["failure.kind"] == "cancelled"
    assert telemetry.count(METRIC_REQUESTS_FAILED, failure_kind="cancelled") == 1


def test_cancelled_work_that_is_answered(telemetry):
    """Where a middleware answers for cancelled work, as NeMo Gym's does at shutdown, it was cancelled all the same."""

    class Answering:
        def __init__(self, app):
            self.app = app

        async def __call__(self, scope, receive, send):
            try:
                await self.app(scope, receive, send)
            except asyncio.CancelledError:
                await JSONResponse("Request was cancelled", status_code=500)(scope, receive, send)

    app = FastAPI()
    app.add_middleware(Answering)

    @app.get("/")
    async def wait():
        waiting.set()
        await asyncio.Event().wait()

    async def main():
        task = asyncio.create_task(call.run())
        await waiting.wait()
        task.cancel()
        await task

    instrument_app(app, boundary="agent", recorder=telemetry.recorder)
    call, waiting = Call(app), asyncio.Event()
    with telemetry.span("request", kind=SpanKind.SERVER):
        asyncio.run(main())
    own = call.report.events[call.report.failure_id]
    assert own.failure_kind == "cancelled"
    assert len(call.report.events) == telemetry.count() == 1
    assert telemetry.named("request").status.status_code is StatusCode.UNSET


class Never:
    """What never comes."""

    def __await__(self):
        """Wait."""
        yield


async def waiting_for_ever(scope, receive, send):
    """Wait for ever."""
    await Never()


@pytest.mark.parametrize(
    "app", [waiting_for_ever, Starlette(routes=[Mount("/", app=waiting_for_ever)])], ids=["bare", "starlette"]
)
def test_a_coroutine_that_is_closed_has_not_failed(app, telemetry):
    """GeneratorExit is the normal end of what nobody awaits any more: nothing is recorded."""
    coroutine = Call(assemble(app, "bare", telemetry, None)).run()
    coroutine.send(None)
    coroutine.close()
    dismantle(app)
    assert telemetry.counts() == {}


def test_a_coroutine_that_is_closed_from_elsewhere_ends_its_log(telemetry):
    """Whoever closes a coroutine may do so in another context, as the garbage collector does; its log ends there."""
    logs = []

    async def app(scope, receive, send):
        logs.append(current_log())
        await Never()

    coroutine = FailureMiddleware(app, boundary="agent", recorder=telemetry.recorder)(Call(app).scope, None, None)
    contextvars.copy_context().run(coroutine.send, None)
    coroutine.close()
    logs[0].observe_failure(ValueError("after the end"))
    assert not logs[0].has_failures


class Outlived:
    """An app that answers well, and whose task records a failure when the request is over."""

    def __init__(self):
        self._over = asyncio.Event()
        self._tasks = []

    async def __call__(self, scope, receive, send):
        """Answer, and leave a task behind."""
        self._tasks.append(asyncio.create_task(self._fail()))
        await send(start(200))
        await send(body(b""))

    async def _fail(self):
        await self._over.wait()
        return record_failure(ValueError("after the end")), current_log()

    def end_of(self, call):
        """Serve one call, and return the event and the log that the task finds then."""

        async def main():
            await call.run()
            self._over.set()
            return await self._tasks[0]

        return asyncio.run(main())


def test_a_late_failure_has_the_operation_that_a_function_names(telemetry):
    """What the user's functions are told of a request that is over is enough to name it, as long as it lasted."""
    app = Outlived()
    names = {"operation": lambda scope: f"{scope['endpoint']} {scope['path']}", "stage": lambda scope: scope["method"]}
    call = Call(FailureMiddleware(app, boundary="agent", recorder=telemetry.recorder, **names), path="/run")
    call.scope |= {"endpoint": "run", "method": "agent"}
    event, _ = app.end_of(call)
    assert (event.operation, event.stage) == ("run /run", FailureStage.AGENT)


def test_a_failure_of_a_task_that_outlives_its_request(telemetry):
    """A log that is first asked for after the end of its request keeps nothing; the failure is in its trace."""
    app = Outlived()
    watched = FailureMiddleware(app, boundary="agent", recorder=telemetry.recorder)
    _, log = app.end_of(Call(OpenTelemetryMiddleware(watched, tracer_provider=telemetry.tracer_provider)))
    assert log.report().events == {}
    assert telemetry.only_event()["failure.late"] is True
    (short,) = (span for span in telemetry.spans() if span.name == OVERFLOW_SPAN_NAME)
    (request_span,) = (span for span in telemetry.spans() if span.kind is SpanKind.SERVER)
    assert short.links[0].context.span_id == request_span.context.span_id


def test_disconnect_after_the_reply_is_no_failure(telemetry):
    """A server says that the client is gone after every reply; that is the normal end."""

    async def app(scope, receive, send):
        await send(start(200))
        await send(body(b""))
        await receive()

    call = Call(assemble(app, "bare", telemetry, None), received=[{"type": "http.disconnect"}])
    asyncio.run(call.run())
    assert telemetry.counts() == {}


def test_background_task_that_fails(server, telemetry):
    """A failure after the reply is in that request's trace, not on another's span (contrib#1952), and fails neither."""
    second_is_there, failed = threading.Event(), threading.Event()
    app = FastAPI()

    def later():
        second_is_there.wait(PATIENCE)
        try:
            raise RuntimeError("too late")
        finally:
            failed.set()

    @app.get("/first")
    def first(tasks: BackgroundTasks):
        tasks.add_task(later)
        return JSONResponse({"reward": 1}, background=tasks)

    @app.get("/second")
    def second(request: Request):
        second_is_there.set()
        assert failed.wait(PATIENCE)
        return {"reward": 1}

    server.switch.serve(assemble(app, "first", telemetry, telemetry.tracer_provider))
    assert ask(server.serving.port, request(path="/first")).values(HEADER_NAME) == []
    assert ask(server.serving.port, request(path="/second")).values(HEADER_NAME) == []
    server.switch.left()
    server.switch.left()
    dismantle(app)
    event = telemetry.only_event()
    (own,) = (span for span in telemetry.spans() if span.name == "gym.failure")
    (request_span,) = (span for span in telemetry.spans() if span.name == "GET /first")
    assert (event["failure.late"], event["exception.type"]) == (True, "RuntimeError")
    assert own.parent.span_id == own.links[0].context.span_id == request_span.context.span_id
    assert telemetry.count(METRIC_REQUESTS_FAILED) == 0
    assert request_span.status.status_code is not StatusCode.ERROR
