"""Requests that are cancelled, as by a server that shuts down: one failure each, whoever answers for them."""

import asyncio
import socket
import threading

import anyio
import pytest
from fastapi import FastAPI
from fastapi.responses import JSONResponse
from starlette.middleware.base import BaseHTTPMiddleware

from gym_failures.header import decode_report, encode_report
from gym_failures.instrumentation import FailureMiddleware
from gym_failures.kinds import FailureBoundary
from gym_failures.log import current_log
from gym_failures.records import FailureEvent, FailureReport
from gym_failures.semconv import HEADER_NAME, METRIC_REQUESTS_FAILED
from tests.servers.asgi import Call, body, start
from tests.servers.assembling import assemble, dismantle
from tests.servers.serving import HOST, PATIENCE, Serving, parse, request

BROKEN = FailureEvent(event_id="0" * 32, boundary=FailureBoundary.MODEL, failure_kind="provider_unavailable")
"""A failure that has nothing to do with the cancellation."""


async def answer_cancelled_work(request, call_next):
    """Answer for work that was cancelled, as NeMo Gym's middleware for exceptions does."""
    try:
        return await call_next(request)
    except asyncio.CancelledError:
        return JSONResponse("cancelled", status_code=500)


class InTaskOfItsOwn:
    """Let the rest of the app run in a task group, as NeMo Gym's middleware that watches for disconnects does."""

    def __init__(self, app):
        self.app = app

    async def __call__(self, scope, receive, send):
        """Serve one scope."""
        async with anyio.create_task_group() as group:
            group.start_soon(self.app, scope, receive, send)


@pytest.mark.parametrize("grouped", [False, True], ids=["plain", "in a task group"])
@pytest.mark.parametrize("mode", ["bare", "first", "last"])
def test_a_request_that_is_cancelled_at_shutdown_is_one_failure(grouped, mode, telemetry):
    """It is `cancelled`, though the reply comes before the work within has heard of it (opentelemetry-python#4484).

    Each task that ends because of it has a CancelledError of its own; they are all the same failure.
    """
    waiting = threading.Event()
    app = FastAPI()
    app.add_middleware(BaseHTTPMiddleware, dispatch=answer_cancelled_work)
    if grouped:
        app.add_middleware(InTaskOfItsOwn)

    @app.get("/")
    async def hang():
        waiting.set()
        await asyncio.Event().wait()

    served = assemble(app, mode, telemetry, telemetry.tracer_provider)
    with Serving(served, lifespan="off", grace=0) as serving:
        connection = socket.create_connection((HOST, serving.port), timeout=PATIENCE)
        connection.sendall(request())
        assert waiting.wait(PATIENCE)
    with connection:
        reply = parse(b"".join(iter(lambda: connection.recv(65_536), b"")))
    dismantle(app)
    (value,) = reply.values(HEADER_NAME)
    report = decode_report(value)
    assert reply.status == 500
    assert [event.failure_kind for event in report.events.values()] == ["cancelled"]
    assert report.failure_id in report.events
    assert telemetry.count() == telemetry.count(METRIC_REQUESTS_FAILED, failure_kind="cancelled") == 1
    if mode != "bare":
        assert "failure.late" not in telemetry.only_event()


async def answers_while_it_handles(send):
    """Answer for a task of its own that was cancelled."""
    part = asyncio.ensure_future(asyncio.Event().wait())
    asyncio.get_running_loop().call_soon(part.cancel)
    try:
        await part
    except asyncio.CancelledError:
        await send(start(500))


async def cancel_me():
    """Let the current task be cancelled, and go on."""
    asyncio.current_task().cancel()
    try:
        await asyncio.sleep(0)
    except asyncio.CancelledError:
        return


async def answers_after_it_was_cancelled(send):
    """Answer when the exception is forgotten."""
    await cancel_me()
    await send(start(503))


async def answers_once_it_goes_on(send):
    """Take the cancellation back, as a time-out of asyncio does, and fail for a reason of its own."""
    await cancel_me()
    asyncio.current_task().uncancel()
    await send(start(500))


async def answers_well(send):
    """Have the answer all the same."""
    await cancel_me()
    await send(start(200))


async def says_why(send):
    """Say what has failed, and then be cancelled."""
    current_log().fail(BROKEN)
    await cancel_me()
    await send(start(500))


async def relays(send):
    """Pass on a reply that had failed elsewhere, and be cancelled."""
    value = encode_report(FailureReport(events={BROKEN.event_id: BROKEN}, failure_id=BROKEN.event_id))
    await cancel_me()
    await send(start(500, (HEADER_NAME.encode(), value.encode())))


@pytest.mark.parametrize(
    ("answers", "kinds"),
    [
        (answers_while_it_handles, {"cancelled"}),
        (answers_after_it_was_cancelled, {"cancelled"}),
        (answers_once_it_goes_on, {"agent_run_error"}),
        (answers_well, set()),
        (says_why, {"provider_unavailable"}),
        (relays, {"provider_unavailable", "agent_run_error"}),
    ],
)
def test_what_a_5xx_of_cancelled_work_is(answers, kinds, telemetry):
    """A 5xx for which nothing else is to blame is `cancelled` while its task is being cancelled, or handles that."""

    async def app(scope, receive, send):
        await answers(send)
        await send(body(b""))

    call = Call(FailureMiddleware(app, boundary="agent", recorder=telemetry.recorder))
    asyncio.run(call.run())
    report = call.report
    assert {event.failure_kind for event in report.events.values()} == kinds if kinds else report is None


def test_a_5xx_outside_of_asyncio(telemetry):
    """Where there is no event loop to ask, a 5xx is decided without it."""

    async def app(scope, receive, send):
        await send(start(500))

    call = Call(FailureMiddleware(app, boundary="agent", recorder=telemetry.recorder))
    with pytest.raises(StopIteration):
        call.run().send(None)
    assert [event.failure_kind for event in call.report.events.values()] == ["agent_run_error"]
