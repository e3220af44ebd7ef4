"""What the SDK's limits and exporters do to a failure, and that nothing else suffers for it."""

import json

import pytest
from opentelemetry.sdk.trace import SpanLimits
from opentelemetry.trace import Span

from gym_failures import guard, semconv
from gym_failures.errors import FailureError
from gym_failures.kinds import FailureBoundary
from gym_failures.log import FailureLog
from gym_failures.recording import record_failure
from gym_failures.records import FailureEvent
from gym_failures.testing import Telemetry
from gym_failures.text import cut


@pytest.mark.parametrize("events", [None, 1], ids=["on one span", "on short spans"])
def test_value_length_limit_cuts_reasons_and_never_links(events: int | None) -> None:
    """With a value length limit of 40, a reason is cut and marked so, and ids and links read back whole."""
    lengths = SpanLimits(max_span_attribute_length=40, max_attribute_length=40, max_events=events)
    with Telemetry(span_limits=lengths) as telemetry:
        with telemetry.span("work"), FailureLog() as log:
            error = FailureError("agent_run_error", boundary="agent", reason="r" * 500)
            error.__cause__ = FailureError("provider_oom_killed", boundary="sandbox", reason="s" * 500)
            log.fail(error)
        (rebuilt,) = telemetry.reports()
    wire = log.report()
    assert set(rebuilt.report.events) == set(wire.events)
    assert rebuilt.report.failure_id == wire.failure_id
    assert rebuilt.missing_causes == ()
    for event_id, event in rebuilt.report.events.items():
        assert event.cause_id == wire.events[event_id].cause_id
        assert event.failure_reason == cut(wire.events[event_id].failure_reason, 40)
    assert set(rebuilt.cut) == {event_id for event_id, event in wire.events.items() if event.failure_reason}


def test_limit_that_cuts_ids_makes_no_false_link() -> None:
    """With a limit that cuts ids, a cut id is never taken for a link: causes are missing, and said to be."""
    with Telemetry(span_limits=SpanLimits(max_attribute_length=20)) as telemetry:
        with telemetry.span("work"), FailureLog() as log:
            error = FailureError("agent_run_error", boundary="agent")
            error.__cause__ = FailureError("provider_oom_killed", boundary="sandbox")
            log.fail(error)
        (rebuilt,) = telemetry.reports()
    for event in rebuilt.report.events.values():
        assert event.cause_id is None or event.cause_id in rebuilt.report.events


@pytest.mark.parametrize(
    "lengths",
    [SpanLimits(max_attribute_length=31), SpanLimits(max_span_attribute_length=31)],
    ids=["of events and spans", "of spans"],
)
def test_limit_that_cuts_ids_is_warned_about(
    lengths: SpanLimits, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the SDK cuts ids there is one warning that names the variables, however many failures come."""
    monkeypatch.setattr(guard, "_said", {})
    with Telemetry(span_limits=lengths) as telemetry:
        for _ in range(3):
            with telemetry.span("work"), FailureLog() as log:
                log.fail(FailureError("agent_run_error", boundary="agent"))
    (said,) = (record.getMessage() for record in caplog.records if record.name == guard.__name__)
    assert "OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT or OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT" in said


@pytest.mark.parametrize("ended", [False, True], ids=["on an open span", "on one that has ended"])
@pytest.mark.parametrize(
    "lost",
    [SpanLimits(max_events=0), SpanLimits(max_event_attributes=2), SpanLimits(max_attribute_length=0)],
    ids=["no events", "no attributes of events", "no text"],
)
def test_where_spans_keep_no_failure_each_is_a_line(
    lost: SpanLimits, *, ended: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """With limits that leave nothing of an event, failures go to the log, and no short spans come for nothing."""
    with Telemetry(span_limits=lost) as telemetry:
        with telemetry.span("work") as span:
            if ended:
                span.end()
            for _ in range(3):
                record_failure(ValueError("x"), boundary="model", span=span)
        assert [span.name for span in telemetry.spans()] == ["work"]
        assert telemetry.count() == 3
    lines = [record.getMessage() for record in caplog.records if record.name == semconv.LOGGER_FAILURES]
    assert [json.loads(line)["failure.reason"] for line in lines] == ["x"] * 3


def test_low_attribute_limit_keeps_kind_and_id() -> None:
    """When an event may have four attributes only, the oldest keys go: id, kind, boundary and cause stay."""
    with Telemetry(span_limits=SpanLimits(max_event_attributes=4)) as telemetry:
        with telemetry.span("work"):
            record_failure(
                FailureEvent(event_id="e", failure_kind="cancelled", boundary=FailureBoundary.AGENT, cause_id="c")
            )
        assert telemetry.only_event() == {
            "failure.cause_id": "c",
            "failure.boundary": "agent",
            "failure.kind": "cancelled",
            "failure.id": "e",
        }


def test_events_dropped_by_others_are_counted_and_the_own_failure_survives() -> None:
    """When others push events off the span the report says so, and the summary still names the own failure."""

    def crowd(span: Span) -> None:
        for number in range(200):
            span.add_event(f"other {number}")

    with Telemetry() as telemetry:
        with telemetry.span("work") as span:
            with pytest.raises(ValueError, match="x"), FailureLog() as log:
                raise ValueError("x")
            crowd(span)
        (rebuilt,) = telemetry.reports()
    assert rebuilt.dropped_events == 73
    assert rebuilt.report.omitted
    assert rebuilt.failed
    assert rebuilt.missing_causes == (log.report().failure_id,)


def test_absent_fields_write_no_attribute_and_no_warning(
    telemetry: Telemetry, caplog: pytest.LogCaptureFixture
) -> None:
    """An event with every optional field absent writes four attributes and the SDK warns about none of them.

    None as a value is what OpenTelemetry warns about (opentelemetry-python#3213).
    """
    with telemetry.span("work"):
        record_failure(FailureEvent(event_id="e", failure_kind="cancelled", boundary=FailureBoundary.AGENT))
    assert set(telemetry.only_event()) == {
        "failure.origin",
        "failure.root",
        "failure.boundary",
        "failure.kind",
        "failure.id",
    } | ({"failure.reason"} if "failure.reason" in telemetry.only_event() else set())
    assert caplog.records == []
