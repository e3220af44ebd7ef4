"""The host program never notices: every case with and without the package, compared byte by byte."""

import asyncio
from dataclasses import dataclass
from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.routing import Mount

from gym_failures.config import Config
from gym_failures.log import current_log
from gym_failures.semconv import HEADER_NAME
from gym_failures.testing import Telemetry
from tests.servers.asgi import Call, body, start
from tests.servers.assembling import MODES, NATIVE, assemble, dismantle
from tests.servers.cases import CASES, Case, Seen, plays
from tests.servers.conftest import Server
from tests.servers.serving import Reply, ask, request

COMMENT = b": gym-failure-report "


@dataclass
class Outcome:
    """Everything about one request that someone outside of this package can see."""

    reply: Reply
    seen: list[str]
    left: tuple[Any, ...]


def play(case: Case, server: Server, app: Any, seen: Seen) -> Outcome:
    """Send the case's request to `app`."""
    server.switch.serve(app)
    try:
        reply = ask(server.serving.port, request(case.method, case.path, case.headers, case.body))
        left = server.switch.left()
    finally:
        dismantle(app)
    return Outcome(reply, seen.calls, described(left))


def described(error: BaseException | None) -> tuple[Any, ...]:
    """Return what can be told of an exception from outside: its types and texts, and those behind it."""
    if error is None:
        return ()
    members = [described(one) for one in getattr(error, "exceptions", ())]
    return (
        type(error),
        str(error),
        members or error.args,
        type(error.__cause__),
        type(error.__context__),
        error.__suppress_context__,
        getattr(error, "__notes__", None),
    )


@pytest.mark.parametrize(("name", "mode"), plays(MODES, NATIVE))
def test_nothing_changes_but_our_header(name, mode, server, telemetry):
    """Status, headers and their order, frames of the body, calls of handlers, and exceptions are as without us."""
    case = CASES[name]
    plain, ours = Seen(), Seen()
    expected = play(case, server, assemble(case.build(plain), mode, None, TracerProvider()), plain)
    found = play(case, server, assemble(case.build(ours), mode, telemetry, telemetry.tracer_provider), ours)
    reports = found.reply.values(HEADER_NAME)
    assert len(reports) == (1 if case.others or (case.own and not (case.comment or case.silent)) else 0)
    if case.comment:
        found.reply = without_comment(found.reply)
    found.reply, expected.reply = found.reply.without(HEADER_NAME), expected.reply.without(HEADER_NAME)
    assert found == expected


class OddGroup(ExceptionGroup):
    """A group that says it is its own only member."""

    @property
    def exceptions(self):
        """Return this very group."""
        return (self,)


class Passing:
    """A middleware that does nothing."""

    def __init__(self, app):
        self.app = app

    async def __call__(self, scope, receive, send):
        """Pass everything on."""
        await self.app(scope, receive, send)


async def sends_a_body_that_is_none(scope, receive, send):
    """Send a number for a body."""
    await send(start())
    await send(body(5))


async def sends_a_status_that_is_none(scope, receive, send):
    """Send no status."""
    await send(start(None))
    await send(body(b""))


async def raises_an_odd_group(scope, receive, send):
    """Raise a group that has no end."""
    raise OddGroup("odd", [ValueError("within")])


@pytest.mark.parametrize(
    "app", [sends_a_body_that_is_none, sends_a_status_that_is_none, raises_an_odd_group], ids=lambda app: app.__name__
)
def test_what_an_app_does_against_the_rules_is_not_ours_to_judge(app, telemetry, monkeypatch):
    """What no app may send or raise gets to the server as it is, which says what to make of it."""

    def outcome(call):
        left = None
        try:
            asyncio.run(call.run())
        except Exception as error:
            left = type(error), str(error)
        for message in call.sent:
            if "headers" in message:
                message["headers"] = [pair for pair in message["headers"] if pair[0] != HEADER_NAME.encode()]
        return call.sent, left

    def build():
        return Starlette(routes=[Mount("/", app=app)], middleware=[Middleware(Passing)])

    expected = outcome(Call(build()))
    with monkeypatch.context() as patch:  # undone before the kit puts its own switch back
        patch.setattr("gym_failures.guard._reraising", 0)
        ours = assemble(build(), "bare", telemetry, None)
        assert outcome(Call(ours)) == expected
        dismantle(ours)


def without_comment(reply: Reply) -> Reply:
    """Return the reply without the one chunk that is a comment, which must be there and the last."""
    start = reply.body.index(COMMENT)
    frame = reply.body.rindex(b"\r\n", 0, start)
    begin = reply.body.rfind(b"\r\n", 0, frame) + 2
    comment, _, rest = reply.body[start:].partition(b"\n\r\n")
    assert COMMENT not in comment[1:]
    assert rest in {b"", b"0\r\n\r\n"}
    return reply._replace(body=reply.body[:begin] + rest)


def test_switched_off_it_is_not_there(server):
    """With `enabled` false no request has a log, and no reply a report."""
    logs = []

    async def app(scope, receive, send):
        logs.append(current_log())
        raise ValueError("unseen")

    with Telemetry(Config(enabled=False)) as telemetry:
        server.switch.serve(assemble(app, "first", telemetry, telemetry.tracer_provider))
        reply = ask(server.serving.port, request())
        assert type(server.switch.left()) is ValueError
    assert (reply.status, reply.values(HEADER_NAME), logs, telemetry.events()) == (500, [], [None], [])
