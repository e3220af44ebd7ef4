"""The bound of the short spans that one request opens, and what is written beyond it."""

import json
import logging

import pytest

from gym_failures import limits, semconv
from gym_failures.errors import error_from
from gym_failures.kinds import FailureBoundary
from gym_failures.log import FailureLog
from gym_failures.recording import record_failure
from gym_failures.records import FailureEvent, FailureReport
from gym_failures.testing import Telemetry

REASON = "short_spans"


def reply(number: int, count: int) -> FailureReport:
    """Make a report whose failures are each caused by the one before; the last one is its own."""
    ids = [f"remote-{number}-{place}" for place in range(count)]
    events = {
        event_id: FailureEvent(
            event_id=event_id,
            failure_kind="provider_unavailable",
            boundary=FailureBoundary.MODEL,
            cause_id=cause_id,
        )
        for event_id, cause_id in zip(ids, [None, *ids], strict=False)
    }
    return FailureReport(events=events, failure_id=ids[-1])


def short_spans(telemetry: Telemetry) -> int:
    """Return how many short spans were opened."""
    return sum(span.name == semconv.OVERFLOW_SPAN_NAME for span in telemetry.spans())


def test_replies_full_of_failures_open_short_spans_up_to_a_bound(telemetry: Telemetry) -> None:
    """Replies of 512 failures each, which one request gets, open 1,024 short spans; the rest is marked and counted.

    The SDK's queue holds 2,048 spans, and then drops those of every request (opentelemetry-specification#1425).
    """
    replies, count = 4, limits.LOG_EVENTS
    with telemetry.span("server") as span:
        log = FailureLog("agent", span=span)
        for number in range(replies):
            log.observe_reply(reply(number, count))
    assert short_spans(telemetry) == limits.LOG_SHORT_SPANS
    assert len(telemetry.events()) == limits.EVENTS_PER_SPAN + limits.LOG_SHORT_SPANS
    assert (telemetry.named("server").attributes or {})[semconv.FAILURE_OMITTED] is True


def test_own_failure_and_its_causes_are_on_spans_beyond_the_bound(
    telemetry: Telemetry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a request failed of is on spans, causes included, though no short span was left when it was observed."""
    monkeypatch.setattr(limits, "LOG_SHORT_SPANS", 10)
    with telemetry.span("server") as span:
        log = FailureLog("agent", span=span)
        log.observe_reply(reply(1, limits.EVENTS_PER_SPAN + 20))
        last = reply(2, 3)
        log.observe_reply(last)
        own = log.settle(error_from(last))
    assert own is not None
    assert own.cause_id == last.failure_id
    written = [event["failure.id"] for event in telemetry.events()]
    assert {own.event_id, *last.events} <= set(written)
    assert len(written) == len(set(written)) == limits.EVENTS_PER_SPAN + 10 + 4
    assert telemetry.count() == 1
    assert (telemetry.named("server").attributes or {})[semconv.FAILURE_OMITTED] is True


def test_a_local_failure_beyond_the_bound_is_counted_and_a_line(
    telemetry: Telemetry, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A failure of this process for which no short span is left is counted as ever, and is a line of JSON."""
    monkeypatch.setattr(limits, "LOG_SHORT_SPANS", 1)
    with telemetry.span("server"), FailureLog("agent") as log, caplog.at_level(logging.WARNING):
        for number in range(limits.EVENTS_PER_SPAN + 3):
            record_failure(ValueError(str(number)))
    lines = [json.loads(one.getMessage()) for one in caplog.records if one.name == semconv.LOGGER_FAILURES]
    assert [line["failure.reason"] for line in lines] == [str(limits.EVENTS_PER_SPAN + more) for more in (1, 2)]
    assert telemetry.count() == len(log.report().events) == limits.EVENTS_PER_SPAN + 3
    assert short_spans(telemetry) == 1


def test_what_no_short_span_takes_is_counted_as_dropped(telemetry: Telemetry, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each failure for which no short span is left counts once under its reason."""
    counted: list[str] = []
    monkeypatch.setattr("gym_failures.selfmetrics.dropped", lambda reason, count=1: counted.extend([reason] * count))
    monkeypatch.setattr(limits, "LOG_SHORT_SPANS", 2)
    with telemetry.span("server") as span:
        FailureLog("agent", span=span).observe_reply(reply(1, limits.EVENTS_PER_SPAN + 5))
    assert counted == [REASON] * 3


def test_an_inner_log_hands_out_what_is_on_no_span(telemetry: Telemetry, monkeypatch: pytest.MonkeyPatch) -> None:
    """The causes that an inner log could put on no span are put there when the outer one's failure comes of them."""
    monkeypatch.setattr(limits, "LOG_SHORT_SPANS", 0)
    last = reply(2, 2)
    with telemetry.span("server"), FailureLog("agent") as outer:
        with FailureLog("harness") as inner:
            inner.observe_reply(reply(1, limits.EVENTS_PER_SPAN))
            inner.observe_reply(last)
        assert outer.fail(error_from(last) or RuntimeError())
    assert last.events.keys() <= {event["failure.id"] for event in telemetry.events()}
