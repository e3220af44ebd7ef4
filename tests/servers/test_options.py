"""Choices of the user: who gets reports, how much of them, what a request is called; and reports of any size."""

import asyncio
import json
import logging

import aiohttp
import httpx
import pytest
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF

from gym_failures import limits
from gym_failures.config import Config
from gym_failures.errors import FailureError
from gym_failures.header import decode_report
from gym_failures.instrumentation import FailureMiddleware
from gym_failures.kinds import FailureStage
from gym_failures.log import current_log
from gym_failures.recording import record_failure
from gym_failures.semconv import HEADER_NAME, LOGGER_FAILURES
from gym_failures.testing import Telemetry
from tests.servers.asgi import Call, body, start
from tests.servers.assembling import assemble
from tests.servers.cases.recording_apps import RELAYED
from tests.servers.serving import PATIENCE, ask, request

LONG = "長い理由🙂" * 333


def failing(reason="as always", headers=()):
    """Return a bare app that answers 500."""

    async def app(scope, receive, send):
        record_failure(FailureError("judge_failed", boundary="agent", reason=reason))
        await send(start(500, *headers))
        await send(body(b""))

    return app


def answer(app, config=None, **options):
    """Let the middleware serve one request to `app`, and return the request and the telemetry of it."""
    with Telemetry(config) as telemetry:
        call = Call(FailureMiddleware(app, boundary="agent", recorder=telemetry.recorder, **options))
        with telemetry.span("request"):
            asyncio.run(call.run())
    return call, telemetry


@pytest.mark.parametrize("reply_to", ["none", lambda scope: scope["path"] != "/"])
def test_no_report_for_whom_it_is_not_meant(reply_to):
    """Where `reply_to` says no, no report leaves, not one that the app has put there either; the trace has all."""
    relayed, other = (b"Gym-Failure-Report", RELAYED.encode()), (b"x-other", b"stays")
    call, telemetry = answer(failing(headers=[relayed, other]), Config(reply_to=reply_to))
    assert call.sent[0] == start(500, other)
    assert sorted(event["failure.origin"] for event in telemetry.events()) == ["local", "local", "remote"]


def test_no_comment_for_whom_it_is_not_meant():
    """Where `reply_to` says no, a stream that breaks gets no comment either."""

    async def app(scope, receive, send):
        await send(start(200, (b"content-type", b"text/event-stream")))
        current_log().fail(FailureError("judge_failed", boundary="agent"))
        await send(body(b"data: 1\n\n"))

    call, telemetry = answer(app, Config(reply_to="none"))
    assert call.sent[1:] == [body(b"data: 1\n\n")]
    assert telemetry.only_event()["failure.kind"] == "judge_failed"


@pytest.mark.parametrize(
    ("setting", "length"), [("full", limits.REASON_LENGTH), ("truncate:40", 40), ("off", 0), (None, 256)]
)
def test_reasons_in_the_header(setting, length):
    """The header has as much of a reason as is allowed, by default 256 characters, and the span has all of it."""
    config = Config(header_budget=8_000) if setting is None else Config(header_reasons=setting, header_budget=8_000)
    call, telemetry = answer(failing(reason="x" * limits.REASON_LENGTH), config)
    (reason,) = (one.failure_reason for one in call.report.events.values() if one.failure_kind == "judge_failed")
    assert len(reason or "") == length
    assert {len(event.get("failure.reason", "")) for event in telemetry.events()} == {0, limits.REASON_LENGTH}


def test_garbage_that_the_app_calls_a_report_is_replaced(telemetry):
    """A report header that the app made up gives way to the one report of the request."""
    call, _ = answer(failing(headers=[(b"gym-failure-report", b"1.!!"), (b"x-other", b"stays")]))
    assert call.report.failure_id in call.report.events
    assert [name for name, _ in call.sent[0]["headers"]] == [b"x-other", b"gym-failure-report"]


@pytest.mark.parametrize("value", [b"1.!!", b"", b"2.eJy"])
def test_what_cannot_be_read_is_not_passed_on(value):
    """A header that tells of no failure is gone where there is none to tell of: nobody knows what is in it."""

    async def app(scope, receive, send):
        await send(start(200, (b"gym-failure-report", value), (b"x-other", b"stays")))
        await send(body(b""))

    call, _ = answer(app)
    assert call.sent[0] == start(200, (b"x-other", b"stays"))


@pytest.mark.parametrize(
    ("options", "stage", "operation"),
    [
        ({"stage": "seed", "operation": "seeding"}, "seed", "seeding"),
        ({"stage": lambda scope: FailureStage.AGENT, "operation": lambda scope: scope["path"]}, "agent", "/"),
        ({"stage": lambda scope: "verification"}, "verification", "test GET"),
        ({"stage": lambda scope: None, "operation": lambda scope: None}, None, None),
    ],
)
def test_stage_and_operation(options, stage, operation):
    """A request is called what the user says, by a value or by a function of the scope."""
    call, _ = answer(failing(), **options)
    own = call.report.events[call.report.failure_id]
    assert (own.stage and own.stage.value, own.operation) == (stage, operation)


VERIFIER, TOOL = ("verification", "verifier_error"), (None, "resources_server:tool_error")
VERIFYING = {
    "the route": ("/verify", {}, VERIFIER),
    "the route of a rollout": ("/ng-rollout/0-1/verify", {}, VERIFIER),
    "a route that ends alike": ("/notverify", {}, TOOL),
    "a route beneath": ("/verify/again", {}, TOOL),
    "a stage that is given": ("/verify", {"stage": "seed"}, ("seed", TOOL[1])),
    "a function that knows no stage": ("/verify", {"stage": lambda scope: None}, TOOL),
    "another boundary": ("/verify", {"boundary": "agent"}, (None, "agent_run_error")),
}


@pytest.mark.parametrize(("path", "options", "expected"), VERIFYING.values(), ids=VERIFYING)
def test_a_resources_server_that_verifies(path, options, expected, telemetry):
    """On /verify a resources server is a verifier that failed, unless a stage or a function for it is given."""

    async def app(scope, receive, send):
        raise LookupError("no reward")

    options = {"boundary": "resources_server", **options}
    call = Call(FailureMiddleware(app, recorder=telemetry.recorder, **options), path=path)
    with telemetry.span("request"), pytest.raises(LookupError):
        asyncio.run(call.run())
    event = telemetry.only_event()
    assert (event.get("failure.stage"), event["failure.kind"]) == expected


@pytest.mark.parametrize("name", ["stage", "operation"])
def test_a_function_that_raises_costs_its_field_only(name, telemetry, caplog):
    """A user's function that raises says nothing, is reported once, and the failure is recorded all the same."""

    def wrong(scope):
        raise LookupError(scope["path"])

    app = FailureMiddleware(failing(), boundary="agent", recorder=telemetry.recorder, **{name: wrong})
    call = Call(app)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("gym_failures.guard._reraising", 0)
        asyncio.run(call.run())
    assert getattr(call.report.events[call.report.failure_id], name) is None
    assert "LookupError" in caplog.text


def test_sampled_out(caplog):
    """At a sampling rate of 0% report, counter and log line are complete (collector-contrib#29024)."""
    with Telemetry(sampler=ALWAYS_OFF) as telemetry, caplog.at_level(logging.WARNING, LOGGER_FAILURES):
        call = Call(assemble(failing(), "first", telemetry, telemetry.tracer_provider))
        asyncio.run(call.run())
    lines = [json.loads(record.getMessage()) for record in caplog.records if record.name == LOGGER_FAILURES]
    assert {one["failure.id"] for one in lines} == set(call.report.events)
    assert len({one["trace_id"] for one in lines}) == 1
    assert call.report.failure_id in call.report.events
    assert (telemetry.count(), telemetry.spans()) == (2, ())


async def by_aiohttp(url):
    """Ask with aiohttp."""
    async with aiohttp.ClientSession() as session, session.get(url) as response:
        return response.status, await response.read(), response.headers[HEADER_NAME]


async def by_httpx(url):
    """Ask with httpx."""
    async with httpx.AsyncClient(timeout=PATIENCE) as client:
        response = await client.get(url)
        return response.status_code, response.content, response.headers[HEADER_NAME]


@pytest.mark.parametrize(
    ("count", "client"), [(1, by_aiohttp), (1, by_httpx), (600, by_aiohttp), (600, by_httpx), (10_000, by_aiohttp)]
)
def test_a_report_of_any_size_reaches_a_real_client(count, client, server):
    """A real client gets its reply, the handler runs once, and the header keeps to its budget and to the own failure.

    However much there is to report (aiohttp#2304, posthog#55424).
    """
    calls = []

    async def app(scope, receive, send):
        calls.append(scope["path"])
        for number in range(count - 1):
            record_failure(FailureError("judge_failed", boundary="agent", reason=f"{number}{LONG}"[:2_000]))
        current_log().fail(FailureError("agent_timeout", boundary="agent", reason=LONG))
        await send(start(200, (b"content-length", b"4")))
        await send(body(b"fine"))

    with Telemetry(Config(log_lines="never")) as telemetry:
        server.switch.serve(assemble(app, "bare", telemetry, None))
        status, content, value = asyncio.run(client(server.serving.url))
    report = decode_report(value)
    assert (status, content, calls) == (200, b"fine", ["/"])
    assert len(value) <= limits.HEADER_BUDGET
    assert report.events[report.failure_id].failure_kind == "agent_timeout"
    assert report.omitted == (len(report.events) < count)


def test_secrets_stay(server, telemetry):
    """What looks like a secret is neither in the header nor on the span."""
    server.switch.serve(assemble(failing("Bearer abcdef0123456789"), "first", telemetry, telemetry.tracer_provider))
    report = decode_report(ask(server.serving.port, request()).values(HEADER_NAME)[0])
    server.switch.left()  # its span has ended
    assert "abcdef" not in repr(report)
    assert telemetry.events()
    assert "abcdef" not in repr(telemetry.events())
