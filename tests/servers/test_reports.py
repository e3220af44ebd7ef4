"""What the caller learns, and that the trace and the counters say the same."""

import pytest
from opentelemetry.trace import SpanKind, StatusCode

from gym_failures.header import decode_report
from gym_failures.semconv import HEADER_NAME, METRIC_REQUESTS_FAILED
from gym_failures.streams import CommentReader
from tests.servers.assembling import MODES, NATIVE, assemble, dismantle
from tests.servers.cases import CASES, Seen, plays
from tests.servers.serving import ask, request

TRACED = [mode for mode in MODES if mode != "bare"]


def play(case, server, app):
    """Send the case's request to `app`, and return the reply and the report in it."""
    server.switch.serve(app)
    try:
        reply = ask(server.serving.port, request(case.method, case.path, case.headers, case.body))
        server.switch.left()
    finally:
        dismantle(app)
    reader = CommentReader()
    if case.comment:
        reader.feed(reply.content)
    values = reply.values(HEADER_NAME)
    return reply, decode_report(values[0]) if values else reader.report


def check(case, report):
    """Compare a report with what the case expects."""
    if (case.own is None and not case.others) or case.silent:
        assert report is None
        return
    own = report.events.get(report.failure_id)
    found = {} if own is None else own.model_dump(mode="json")
    expected = dict(case.own or {})
    caused = expected.pop("caused", None)
    assert {name: found.get(name) for name in expected} == expected
    assert (own is None) == (case.own is None)
    assert sorted(one.failure_kind for one in report.events.values() if one is not own) == sorted(case.others)
    if own is not None:
        assert (None if own.cause_id is None else report.events[own.cause_id].failure_kind) == caused
    assert not report.omitted


@pytest.mark.parametrize(("name", "mode"), plays(MODES, NATIVE))
def test_reply(name, mode, server, telemetry):
    """The reply of every case carries the request's own failure and the others that were seen, and nothing else."""
    case = CASES[name]
    _, report = play(case, server, assemble(case.build(Seen()), mode, telemetry, telemetry.tracer_provider))
    check(case, report)


@pytest.mark.parametrize(("name", "mode"), plays(TRACED, NATIVE))
def test_trace_and_counter(name, mode, server, telemetry):
    """The SERVER span has the own failure's summary, its events lie on it or below it, and one request is counted.

    So it is wherever in the app's stack OpenTelemetry's instrumentation stands (opentelemetry-python-contrib#3637).
    """
    case = CASES[name]
    _, report = play(case, server, assemble(case.build(Seen()), mode, telemetry, telemetry.tracer_provider))
    (request_span,) = (span for span in telemetry.spans() if span.kind is SpanKind.SERVER)
    assert telemetry.count(METRIC_REQUESTS_FAILED) == (case.own is not None)
    assert ("failure.id" in request_span.attributes) == (case.own is not None)
    if case.own is not None:
        assert request_span.attributes["failure.kind"] == case.own["failure_kind"]
        assert request_span.status.status_code is StatusCode.ERROR
    for span in telemetry.spans():
        assert span.context.trace_id == request_span.context.trace_id
    if report is not None:
        (rebuilt,) = telemetry.reports(by="request")
        assert rebuilt.report.failure_id == report.failure_id
        assert rebuilt.report.events == {**rebuilt.report.events, **report.events}
        assert rebuilt.late == (() if not case.comment else tuple(report.events))
