"""Replies that fail after they have begun."""

import asyncio
import gc
import socket
import sys
import threading

import pytest
from fastapi import FastAPI
from fastapi.responses import StreamingResponse
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.base import BaseHTTPMiddleware
from starlette.routing import Mount, Route

from gym_failures.errors import FailureError
from gym_failures.instrumentation import FailureMiddleware
from gym_failures.log import current_log
from gym_failures.recording import record_failure
from gym_failures.streams import CommentReader
from tests.servers.asgi import Call, body, start
from tests.servers.assembling import assemble, dismantle
from tests.servers.serving import HOST, PATIENCE, parse, request

EVENT_STREAM = (b"content-type", b"text/event-stream")


def test_each_part_arrives_before_the_next_is_made(server, telemetry):
    """Parts of a stream pass at once and as they are, and the failure comes as its last line (contrib#3401, #4723)."""
    arrived = [threading.Event() for _ in range(3)]
    app = FastAPI()

    def parts():
        for number, event in enumerate(arrived):
            yield f"data: {number}\n\n"
            assert event.wait(PATIENCE), f"part {number} was held back"
        raise FailureError("provider_unavailable", boundary="agent", reason="half way")

    @app.get("/")
    def root():
        return StreamingResponse(parts(), media_type="text/event-stream")

    server.switch.serve(assemble(app, "first", telemetry, telemetry.tracer_provider))
    received = b""
    with socket.create_connection((HOST, server.serving.port), timeout=PATIENCE) as connection:
        connection.sendall(request())
        for number, event in enumerate(arrived):
            while f"data: {number}\n\n".encode() not in received:
                received += connection.recv(65_536)
            event.set()
        received += b"".join(iter(lambda: connection.recv(65_536), b""))
    server.switch.left()
    dismantle(app)
    *events, comment = parse(received).chunks
    reader = CommentReader()
    reader.feed(comment)
    assert events == [b"data: 0\n\n", b"data: 1\n\n", b"data: 2\n\n"]
    assert reader.report.events[reader.report.failure_id].failure_reason == "half way"
    assert telemetry.only_event()["failure.late"] is True


def calls_of(app, call):
    """Return how many calls of Python functions the request takes, those of this package and of `app` alike."""
    count = 0

    def profile(frame, event, argument):
        nonlocal count
        count += event == "call"

    gc.disable()  # Its callbacks, such as those of pytest, would be counted too.
    try:
        loop = asyncio.new_event_loop()
        sys.setprofile(profile)
        loop.run_until_complete(call.run())
    finally:
        sys.setprofile(None)
        loop.close()
        gc.enable()
    return count


def test_a_part_costs_the_same_however_many_there_are(telemetry):
    """A stream does constant work for each of 10,000 parts, and each message passes as it is (contrib#505)."""

    def run(length):
        parts = [body(b"data: x\n\n", more=True) for _ in range(length)]

        async def app(scope, receive, send):
            await send(start(200, EVENT_STREAM))
            for part in parts:
                await send(part)
                assert call.sent[-1] is part
            await send(body(b""))

        call = Call(FailureMiddleware(app, boundary="agent", recorder=telemetry.recorder))
        return calls_of(app, call)

    run(1)
    costs = [run(length) for length in (0, 1_000, 10_000)]
    each, rest = divmod(costs[1] - costs[0], 1_000)
    assert rest == 0
    assert costs[2] - costs[0] == each * 10_000
    assert each <= 2, "one call of ours, and one of the server's"


def run(app, telemetry):
    """Run one request to the bare app and return it."""
    call = Call(FailureMiddleware(app, boundary="agent", recorder=telemetry.recorder))
    asyncio.run(call.run())
    return call


def comment_in(message):
    """Return the own failure that the comment in a message tells."""
    reader = CommentReader()
    reader.feed(message["body"])
    return reader.report.events[reader.report.failure_id]


def test_the_last_part_comes_before_the_comment(telemetry):
    """Where the last message has content, the comment follows that, and an empty message ends the reply."""

    async def app(scope, receive, send):
        await send(start(200, EVENT_STREAM))
        current_log().fail(FailureError("judge_failed", boundary="agent"))
        await send(body(b"data: sorry\n\n"))

    call = run(app, telemetry)
    assert call.sent[1] == body(b"data: sorry\n\n", more=True)
    assert comment_in(call.sent[2]).failure_kind == "judge_failed"
    assert call.sent[3:] == [body(b"")]


@pytest.mark.parametrize(
    ("part", "comment"),
    [(b"data: 1\n\n", b": gym-failure-report 1."), (b"data: on", b"\n: gym-failure-report 1.")],
    ids=["between lines", "within a line"],
)
def test_the_comment_is_a_line_of_its_own(part, comment, telemetry):
    """The comment begins a line, and completes no event."""

    async def app(scope, receive, send):
        await send(start(200, EVENT_STREAM))
        await send(body(part, more=True))
        current_log().fail(FailureError("judge_failed", boundary="agent"))
        await send(body(b""))

    written = run(app, telemetry).sent[2]["body"]
    assert written.startswith(comment)
    assert written.count(b"\n") == comment.count(b"\n") + 1


def test_no_comment_where_no_body_is_wanted(telemetry):
    """The reply to a HEAD request has no body, and so no comment."""

    async def app(scope, receive, send):
        await send(start(200, EVENT_STREAM))
        current_log().fail(FailureError("judge_failed", boundary="agent"))
        await send(body(b""))

    call = Call(FailureMiddleware(app, boundary="agent", recorder=telemetry.recorder))
    call.scope["method"] = "HEAD"
    asyncio.run(call.run())
    assert call.sent[1:] == [body(b"")]


def test_a_failure_that_the_stream_survives_is_no_end(telemetry):
    """A failure recorded during a stream that goes on to its end is on the span alone: the stream did not break."""

    async def app(scope, receive, send):
        await send(start(200, EVENT_STREAM))
        record_failure(FailureError("judge_failed", boundary="agent"))
        await send(body(b"data: 1\n\n"))

    assert run(app, telemetry).sent == [start(200, EVENT_STREAM), body(b"data: 1\n\n")]
    assert telemetry.count(failure_kind="judge_failed") == 1


def test_a_failure_told_in_the_header_is_not_told_again(telemetry):
    """A stream that ends well after its header told of a failure gets no comment."""

    async def app(scope, receive, send):
        current_log().fail(FailureError("judge_failed", boundary="agent"))
        await send(start(200, EVENT_STREAM))
        await send(body(b"data: 1\n\n"))

    call = run(app, telemetry)
    assert call.report.failure_id in call.report.events
    assert call.sent[1:] == [body(b"data: 1\n\n")]


def test_a_stream_that_breaks_after_its_header_told_of_a_failure(telemetry):
    """A stream that breaks tells of it at its end, even where the header told of another failure already."""

    async def told(request):
        async def parts():
            yield "data: 1\n\n"
            raise ValueError("half way")

        current_log().fail(FailureError("judge_failed", boundary="agent"))
        return StreamingResponse(parts(), media_type="text/event-stream")

    app = Starlette(routes=[Route("/", told)], middleware=[Middleware(BaseHTTPMiddleware, dispatch=pass_on)])
    call = Call(assemble(app, "bare", telemetry, None))
    with pytest.raises(ValueError, match="half way"):
        asyncio.run(call.run())
    dismantle(app)
    assert [one.failure_kind for one in call.report.events.values()] == ["judge_failed"]
    reader = CommentReader()
    reader.feed(b"".join(message["body"] for message in call.sent[1:]))
    assert reader.report.failure_id == call.report.failure_id
    assert {one.exception_type for one in reader.report.events.values()} >= {"ValueError"}


async def pass_on(request, call_next):
    """Pass everything on, by way of another task."""
    return await call_next(request)


class HoldingBack:
    """A middleware that sends nothing before it has everything, or an exception."""

    def __init__(self, app):
        self.app = app

    async def __call__(self, scope, receive, send):
        """Serve one scope."""
        messages = []

        async def hold(message):
            messages.append(message)

        try:
            await self.app(scope, receive, hold)
        except ValueError:
            messages.append(body(b""))
        for message in messages:
            await send(message)


def test_a_reply_that_broke_while_it_was_held_back(telemetry):
    """An app that fails after it has begun to answer has failed, even where a middleware makes a whole reply of it.

    The header tells of it, so the stream need not.
    """

    async def half(scope, receive, send):
        await send(start(200, EVENT_STREAM))
        raise ValueError("half way")

    app = Starlette(routes=[Mount("/", app=half)], middleware=[Middleware(HoldingBack)])
    call = Call(assemble(app, "bare", telemetry, None))
    asyncio.run(call.run())
    dismantle(app)
    assert call.report.events[call.report.failure_id].failure_reason == "half way"
    assert call.sent[1:] == [body(b"")]


def test_a_second_start_is_the_server_s_affair(telemetry):
    """What an app sends against the rules is passed on as it is."""

    async def app(scope, receive, send):
        await send(start(500))
        await send(start(500))

    assert run(app, telemetry).sent[1] == start(500)


def test_trailers_end_the_reply(telemetry):
    """With trailers announced, an exception between body and trailers breaks the reply."""

    async def app(scope, receive, send):
        await send(start(200, trailers=True))
        await send(body(b"all of it"))
        raise ValueError("no trailers")

    with pytest.raises(ValueError, match="no trailers"):
        run(app, telemetry)
    assert telemetry.count("gym.requests.failed") == 1


def test_nothing_of_a_body_follows_its_end(telemetry):
    """Between the end of the body and the trailers no comment can be sent, so there is none where trailers come."""

    async def app(scope, receive, send):
        await send(start(200, EVENT_STREAM, trailers=True))
        current_log().fail(FailureError("judge_failed", boundary="agent"))
        await send(body(b"data: 1\n\n"))
        await send({"type": "http.response.trailers", "headers": [], "more_trailers": False})

    sent = run(app, telemetry).sent
    assert [message["type"] for message in sent] == [
        "http.response.start",
        "http.response.body",
        "http.response.trailers",
    ]
    assert telemetry.count("gym.requests.failed") == 1


def test_early_replies_are_left_alone(telemetry):
    """A reply of status 1xx is passed as it is, and the report goes on the final one."""

    async def app(scope, receive, send):
        record_failure(FailureError("judge_failed", boundary="agent"))
        early = start(103, (b"link", b"</style.css>"))
        await send(early)
        assert call.sent == [early]
        await send(start(204))
        await send(body(b""))

    call = Call(FailureMiddleware(app, boundary="agent", recorder=telemetry.recorder))
    asyncio.run(call.run())
    del call.sent[0]
    assert call.report is not None
