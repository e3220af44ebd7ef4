"""What the SDK's limits and exporters do to a failure, and that nothing else suffers for it."""

import pytest
from opentelemetry.sdk.trace import SpanLimits
from opentelemetry.trace import Span

from gym_failures.errors import FailureError
from gym_failures.kinds import FailureBoundary
from gym_failures.log import FailureLog
from gym_failures.recording import record_failure
from gym_failures.records import FailureEvent
from gym_failures.testing import Telemetry


def test_value_length_limit_cuts_reasons_and_never_links() -> None:
    """With a value length limit of 40, a reason is cut and marked so, and ids and links read back whole."""
    with Telemetry(span_limits=SpanLimits(max_span_attribute_length=40, max_attribute_length=40)) as telemetry:
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
        assert event.failure_reason == wire.events[event_id].failure_reason[:40]


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
