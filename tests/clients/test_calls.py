"""What every client's adapter does: one event for a failed try, the report of a reply, and nothing to the program."""

import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import pytest
from opentelemetry import propagate
from opentelemetry.context import _SUPPRESS_HTTP_INSTRUMENTATION_KEY, attach, detach, set_value
from opentelemetry.propagators.composite import CompositePropagator
from opentelemetry.trace import StatusCode

from gym_failures import guard, semconv
from gym_failures.config import Config
from gym_failures.header import encode_report
from gym_failures.log import FailureLog
from gym_failures.marks import mark_of
from gym_failures.operations import operation
from gym_failures.propagation import FailureReportPropagator, set_report
from gym_failures.records import FailureBoundary, FailureEvent, FailureReport
from gym_failures.testing import Telemetry
from tests.clients.callers import CALLERS, ORDERS, Caller, Outcome
from tests.failing import Act, answers, drops, is_silent, nobody, peer, reply, resets

every_caller = pytest.mark.parametrize("caller", CALLERS, ids=lambda caller: caller.name)
every_order = pytest.mark.parametrize("order", ORDERS)

# --- Without a report -------------------------------------------------------------------------------------------------


def goes_silent(connection: socket.socket) -> None:
    """Begin an answer and say no more."""
    connection.recv(65_536)
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nabc")
    is_silent(connection)


@dataclass(frozen=True)
class Case:
    """A peer, and the one failure that calling it is at the boundary of a model server."""

    act: Act
    kind: str
    status: int | None = None
    tries: int = 1
    """How often aiohttp calls: it tries once more when a connection is lost."""
    in_body: bool = False
    """Whether it shows after the reply's headers, when the client's span has ended."""


CASES = {
    "drops": Case(drops, "transport_peer_drop", tries=2),
    "resets": Case(resets, "transport_peer_drop", tries=2),
    "is silent": Case(is_silent, "transport_timeout"),
    "breaks off": Case(
        answers(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc"), "transport_peer_drop", in_body=True
    ),
    "breaks off in a chunk": Case(
        answers(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nabc"), "transport_peer_drop", in_body=True
    ),
    "goes silent": Case(goes_silent, "transport_timeout", in_body=True),
    "401": Case(reply(401), "provider_unavailable", 401),
    "403": Case(reply(403), "provider_unavailable", 403),
    "408": Case(reply(408), "transport_timeout", 408),
    "429": Case(reply(429), "provider_quota_exhausted", 429),
    "500": Case(reply(500), "provider_unavailable", 500),
    "503": Case(reply(503, body="busy"), "provider_unavailable", 503),
    "504": Case(reply(504), "transport_timeout", 504),
}
every_case = pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())


SILENT = {is_silent: "head", goes_silent: "body"}
"""What does not come of the reply; the client gives up soon on that, and on nothing else."""


def called(caller: Caller, act: Act) -> Outcome:
    """Call a peer that does `act`."""
    with peer(act) as port:
        return caller.call(f"http://127.0.0.1:{port}/path?token=secret", SILENT.get(act))


@every_case
@every_order
@every_caller
def test_a_failed_try_is_one_event(caller: Caller, order: str, case: Case, telemetry: Telemetry) -> None:
    """A failed try is one local event on the span of the call, whichever instrumentation came first, counted once."""
    with caller.watched(telemetry.tracer_provider, order, boundary="model"), telemetry.span("top"):
        outcome = called(caller, case.act)
    assert outcome.error is not None
    events = telemetry.events()
    tries = case.tries if caller.name == "aiohttp" else 1
    assert len(events) == telemetry.count() == tries
    operations = {event[semconv.FAILURE_OPERATION_ID] for event in events}
    assert len(operations) == 1
    (operation_id,) = operations
    for number, event in enumerate(events, 1):
        assert event[semconv.FAILURE_KIND] == case.kind
        assert event[semconv.FAILURE_BOUNDARY] == "model"
        assert event[semconv.FAILURE_ORIGIN] == "local"
        assert event[semconv.FAILURE_ATTEMPT_ID] == f"{operation_id}.{number}"
        assert event.get(semconv.HTTP_RESPONSE_STATUS_CODE) == case.status
        assert "secret" not in str(event)
    expected = "top" if order == "alone" or case.in_body else "GET"
    assert {span.name for span in telemetry.spans() if span.events and _has_failure(span)} == {expected}


def _has_failure(span: Any) -> bool:
    return any(event.name == semconv.EVENT_NAME for event in span.events)


@every_caller
def test_nobody_there(caller: Caller, telemetry: Telemetry) -> None:
    """A port that nobody listens on is one failure to reach it."""
    with caller.watched(telemetry.tracer_provider), telemetry.span("top"), nobody() as port:
        caller.call(f"http://127.0.0.1:{port}/")
    assert telemetry.only_event()[semconv.FAILURE_KIND] == "transport_unreachable"


def test_rubbish(telemetry: Telemetry) -> None:
    """An answer that is no HTTP is a violation of the protocol where the client tells it from a lost connection."""
    kinds = {}
    for caller in CALLERS:
        with caller.watched(telemetry.tracer_provider), FailureLog() as log:
            called(caller, answers(b"rubbish\r\n\r\n"))
        (kinds[caller.name],) = {event.failure_kind for event in log.report().events.values()}
    assert kinds.pop("aiohttp") == "protocol_violation"
    assert set(kinds.values()) == {"transport_peer_drop"}


OUTCOMES = {**{name: case.act for name, case in CASES.items()}, "404": reply(404), "200": reply(200, body="well")}


@pytest.mark.parametrize("act", OUTCOMES.values(), ids=OUTCOMES.keys())
@every_order
@every_caller
def test_the_program_gets_the_same(caller: Caller, order: str, act: Act, telemetry: Telemetry) -> None:
    """Status, body, and the type, text, causes and attributes of exceptions are the same with and without us."""
    plain = _without_ports(called(caller, act))
    with caller.watched(telemetry.tracer_provider, order), FailureLog("agent"):
        assert _without_ports(called(caller, act)) == plain


def _without_ports(outcome: Outcome) -> tuple[object, ...]:
    """Return what of an outcome can be compared: all but ports, addresses in memory, and our mark."""
    told = []
    error = outcome.error
    while error is not None:
        fields = sorted(set(vars(error)) - {semconv.EXCEPTION_MARK})
        text = re.sub(r":\d+|0x[0-9a-f]+|'traceparent': '[^']*', ", "", repr(error))
        told.append((type(error), text, fields, error.__suppress_context__, type(error.__context__)))
        error = error.__cause__
    return outcome.status, outcome.body, told


@pytest.mark.parametrize("status", [200, 204, 304, 400, 404, 409, 422])
@every_caller
def test_an_answer_is_no_failure(caller: Caller, status: int, telemetry: Telemetry) -> None:
    """A reply that succeeds, or a 4xx that may be an answer, as in polling, is no failure by itself."""
    with caller.watched(telemetry.tracer_provider), telemetry.span("top"), FailureLog() as log:
        called(caller, reply(status))
    assert not log.has_failures
    assert telemetry.events() == []


@every_caller
def test_an_answer_whose_exception_leaves_the_boundary_is_a_failure(caller: Caller, telemetry: Telemetry) -> None:
    """A 404 that the program raises and does not catch is the failure of its boundary, with the status on it."""
    with caller.watched(telemetry.tracer_provider), pytest.raises(Exception, match="404"), FailureLog("model") as log:
        raise called(caller, reply(404)).error
    (event,) = log.report().events.values()
    assert (event.failure_kind, event.http_status) == ("protocol_violation", 404)


@every_case
@every_caller
def test_what_leaves_the_boundary_is_the_failed_try(caller: Caller, case: Case, telemetry: Telemetry) -> None:
    """The exception of a failed call that leaves the boundary is the failure that the call was, and no second one."""
    error = None
    with caller.watched(telemetry.tracer_provider), suppress(Exception), FailureLog("model") as log:
        error = called(caller, case.act).error
        raise error
    assert mark_of(error)
    report = log.report()
    assert report.failure_id == list(report.events)[-1]
    assert len(report.events) == (case.tries if caller.name == "aiohttp" else 1)
    assert telemetry.count() == len(report.events)


@every_caller
def test_a_provider_s_name_of_the_request_is_kept(caller: Caller, telemetry: Telemetry) -> None:
    """At the boundary of a model server the id that the provider gave the request is kept for its support."""
    act = reply(500, headers="x-request-id: req_42\r\n")
    with caller.watched(telemetry.tracer_provider, boundary="model"), telemetry.span("top"):
        called(caller, act)
    assert telemetry.only_event()[semconv.MODEL_PROVIDER_REQUEST_ID] == "req_42"


@every_caller
def test_a_server_that_is_no_provider(caller: Caller, telemetry: Telemetry) -> None:
    """Behind an agent stands a server of Gym, not a provider: its 500 is the agent's failure."""
    with caller.watched(telemetry.tracer_provider, boundary="agent"), telemetry.span("top"):
        called(caller, reply(500))
    event = telemetry.only_event()
    assert (event[semconv.FAILURE_KIND], event[semconv.FAILURE_REASON]) == ("agent_run_error", "HTTP 500")


# --- Attempts ---------------------------------------------------------------------------------------------------------


@every_caller
def test_attempts_of_one_operation(caller: Caller, telemetry: Telemetry) -> None:
    """A failed attempt and the next one, which succeeds, belong to one operation; the failure is a recovered one."""
    with caller.watched(telemetry.tracer_provider), FailureLog("model") as log, operation() as call:
        called(caller, reply(429))
        called(caller, reply(503))
        assert called(caller, reply(200)).status == 200
    report = log.report()
    assert report.failure_id is None
    assert [(event.operation_id, event.attempt_id) for event in report.events.values()] == [
        (call.operation_id, f"{call.operation_id}.1"),
        (call.operation_id, f"{call.operation_id}.2"),
    ]
    assert call.attempts == 3


# --- With a report ----------------------------------------------------------------------------------------------------

ROOT = FailureEvent(event_id="root", failure_kind="provider_quota_exhausted", boundary=FailureBoundary.MODEL)
OWN = FailureEvent(event_id="own", failure_kind="verifier_error", boundary=FailureBoundary.HARNESS, cause_id="root")
FAILED = FailureReport(events={"own": OWN, "root": ROOT}, failure_id="own")
RECOVERED = FailureReport(events={"root": ROOT})


def reporting(report: FailureReport, status: int = 500) -> Act:
    """Answer with a report."""
    return reply(status, headers=f"Gym-Failure-Report: {encode_report(report)}\r\n")


@every_order
@every_caller
def test_a_report_is_recorded_as_remote(caller: Caller, order: str, telemetry: Telemetry) -> None:
    """What a reply reports is on the span of the call, as remote; it is no local event, and not counted here again."""
    with caller.watched(telemetry.tracer_provider, order), telemetry.span("top"):
        called(caller, reporting(FAILED))
    events = telemetry.events()
    assert {event[semconv.FAILURE_ID] for event in events} == {"own", "root"}
    assert {event[semconv.FAILURE_ORIGIN] for event in events} == {"remote"}
    assert telemetry.count() == 0
    span = telemetry.named("top" if order == "alone" else "GET")
    assert _has_failure(span)
    assert semconv.FAILURE_ID not in span.attributes


@every_caller
def test_what_leaves_the_boundary_is_caused_by_the_report(caller: Caller, telemetry: Telemetry) -> None:
    """The exception made of a reply with a report is one new failure at this boundary, caused by the reported one."""
    with caller.watched(telemetry.tracer_provider), pytest.raises(Exception, match="500"), FailureLog("agent") as log:
        raise called(caller, reporting(FAILED)).error
    report = log.report()
    own = report.events[report.failure_id]
    assert (own.boundary, own.cause_id) == (FailureBoundary.AGENT, "own")
    assert report.events.keys() == {own.event_id, "own", "root"}
    assert telemetry.count() == 1


@every_order
@every_caller
def test_a_recovered_failure_is_no_error(caller: Caller, order: str, telemetry: Telemetry) -> None:
    """A report without an own failure on a 200 leaves the span of the call as it was, and the call succeeded."""
    with caller.watched(telemetry.tracer_provider, order), telemetry.span("top"), FailureLog() as log:
        assert called(caller, reporting(RECOVERED, 200)).status == 200
    assert log.report() == RECOVERED
    assert {span.status.status_code for span in telemetry.spans()} == {StatusCode.UNSET}


@every_caller
def test_a_failure_beside_a_report_of_recovered_ones(caller: Caller, telemetry: Telemetry) -> None:
    """A 500 whose report has no own failure failed all the same, and is one local event."""
    with caller.watched(telemetry.tracer_provider), FailureLog("agent") as log:
        called(caller, reporting(RECOVERED, 500))
    assert [event.failure_kind for event in log.report().events.values()] == [
        "provider_quota_exhausted",
        "agent_run_error",
    ]


@every_caller
def test_what_is_missing_is_said(caller: Caller, telemetry: Telemetry) -> None:
    """A reply that says its report is not whole leaves that on the span of the call."""
    cut = FailureReport(events={"root": ROOT}, omitted=True)
    with caller.watched(telemetry.tracer_provider, ORDERS[1]), FailureLog() as log:
        called(caller, reporting(cut, 200))
    assert log.omitted
    assert telemetry.named("GET").attributes[semconv.FAILURE_OMITTED] is True


@contextmanager
def configured(**fields: Any) -> Iterator[Telemetry]:
    """Give telemetry of a process with this configuration."""
    with Telemetry(Config(**fields)) as telemetry:
        yield telemetry


@every_caller
def test_a_report_of_a_peer_that_is_not_believed(caller: Caller) -> None:
    """A report from a host that was not chosen is left alone; that the call failed is known all the same."""
    with configured(accept_from=["gym.internal"]) as telemetry, caller.watched(telemetry.tracer_provider):
        with pytest.raises(Exception, match="500"), FailureLog("agent") as log:
            raise called(caller, reporting(FAILED)).error
        (event,) = log.report().events.values()
        assert (event.failure_reason, event.cause_id) == ("HTTP 500", None)


@pytest.mark.parametrize(("accept_from", "hosts"), [("10.0.0.0/8", ["127.0.0.1"]), ("none", [])])
def test_who_is_not_believed_is_said_once(
    accept_from: str, hosts: list[str], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The log names the first host whose reports are left alone, unless nobody is to be believed."""
    monkeypatch.setattr(guard, "_said", {})
    with configured(accept_from=accept_from) as telemetry, CALLERS[0].watched(telemetry.tracer_provider):
        for _ in range(2):
            called(CALLERS[0], reporting(FAILED))
    said = [record.args for record in caplog.records if "GYM_FAILURES_ACCEPT_FROM" in record.getMessage()]
    assert said == [(host,) for host in hosts]


@every_caller
def test_switched_off(caller: Caller) -> None:
    """Where the package is switched off nothing is recorded."""
    with configured(enabled=False) as telemetry:
        with caller.watched(telemetry.tracer_provider), telemetry.span("top"):
            for act in (reporting(FAILED), reply(500), drops):
                called(caller, act)
        assert telemetry.events() == []
        assert telemetry.count() == 0


@every_caller
def test_calls_of_opentelemetry_itself(caller: Caller, telemetry: Telemetry) -> None:
    """A call that OpenTelemetry suppresses, as its exporters' own are, is none of ours."""
    with caller.watched(telemetry.tracer_provider), FailureLog() as log:
        token = attach(set_value(_SUPPRESS_HTTP_INSTRUMENTATION_KEY, True))  # noqa: FBT003 - OpenTelemetry's signature
        for act in (reporting(FAILED), reply(500), drops):
            called(caller, act)
        detach(token)
    assert not log.has_failures


# --- What goes out ----------------------------------------------------------------------------------------------------


@pytest.fixture
def propagating() -> Iterator[None]:
    """Let OpenTelemetry's instrumentations inject reports, as OTEL_PROPAGATORS would."""
    before = propagate.get_global_textmap()
    propagate.set_global_textmap(CompositePropagator([before, FailureReportPropagator()]))
    yield
    propagate.set_global_textmap(before)


@pytest.mark.usefixtures("propagating")
@every_order
@every_caller
def test_nothing_goes_out_by_itself(caller: Caller, order: str, telemetry: Telemetry) -> None:
    """A request carries a report only when the program set one to go out with it, whatever was observed before."""
    heads: list[bytes] = []

    def listens(connection: socket.socket) -> None:
        heads.append(connection.recv(65_536))
        connection.sendall(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")

    received = attach(FailureReportPropagator().extract({semconv.HEADER_NAME: encode_report(FAILED)}))
    with caller.watched(telemetry.tracer_provider, order), FailureLog("agent") as log:
        called(caller, reporting(FAILED))
        called(caller, listens)
        assert log.has_failures
        with set_report(RECOVERED):
            called(caller, listens)
    detach(received)
    by_itself, on_demand = (semconv.HEADER_NAME.encode() in head.lower() for head in heads)
    assert (by_itself, on_demand) == (False, order != "alone")
