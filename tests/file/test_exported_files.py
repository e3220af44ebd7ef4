"""Files that OpenTelemetry's own exporter wrote, read back: they say what the spans in memory said."""

import io
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry import trace
from opentelemetry.exporter.otlp.json.file import FileSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Event, ReadableSpan, SpanLimits, TracerProvider
from opentelemetry.trace import SpanContext, TraceFlags

from gym_failures import semconv
from gym_failures.attributes import to_attributes
from gym_failures.reading import from_readable_span, read_reports, rebuild
from gym_failures.reading.otlp_json import parse
from gym_failures.records import FailureReport
from gym_failures.text import clean
from tests.spans import failure
from tests.strategies import attribute_values, call_trees, failure_reports


def tracer(**provider):
    """Return a tracer that exports nothing by itself."""
    resource = Resource({"service.name": "agent"})
    return TracerProvider(resource=resource, shutdown_on_exit=False, **provider).get_tracer("test")


def exported(*spans, batch=512):
    """Return what the exporter writes of `spans`, `batch` of them in a line."""
    stream = io.StringIO()
    exporter = FileSpanExporter(stream=stream)
    for start in range(0, len(spans), batch):
        exporter.export(spans[start : start + batch])
    return stream.getvalue()


def failing_span(*events, **provider):
    """Return an ended span with an event for each of `events`, the last of which is its own failure."""
    span = tracer(**provider).start_span("POST /run", kind=trace.SpanKind.SERVER)
    for event in events:
        span.add_event(semconv.EVENT_NAME, to_attributes(event))
    span.set_attribute(semconv.FAILURE_ID, events[-1].event_id)
    span.end()
    return span


def readable(record):
    """Return a span record as a span of the SDK."""

    def context(span_id):
        return SpanContext(int(record.trace_id, 16), int(span_id, 16), is_remote=False, trace_flags=TraceFlags(1))

    return ReadableSpan(
        record.name,
        context(record.span_id),
        None if record.parent_id is None else context(record.parent_id),
        Resource({"service.name": record.service or ""}),
        record.attributes,
        [Event(event.name, event.attributes, event.time_ns) for event in record.events],
        kind=trace.SpanKind[record.kind.name],
        start_time=record.start_ns,
        end_time=record.end_ns,
    )


def as_stored(value):
    """Return an attribute's value as a file can hold it: lists for tuples, and valid Unicode."""
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, list | tuple):
        return [as_stored(item) for item in value]
    if isinstance(value, dict):
        return {clean(key): as_stored(item) for key, item in value.items() if item is not None}
    return value


def without_empty_details(event):
    """Return a dumped event without details in which nothing was observed."""
    return {name: value for name, value in event.items() if (name, value) != ("details", {})}


@given(st.dictionaries(st.text(min_size=1, max_size=8), attribute_values(), max_size=4))
def test_every_value_that_the_exporter_writes(values):
    """A span's and an event's attributes read from the file as they were in memory, None as absent (bigquery#1140)."""
    span = tracer().start_span("s", attributes=values)
    span.add_event("e", values)
    span.end()
    expected = from_readable_span(span)
    expected = replace(
        expected,
        attributes=as_stored(dict(expected.attributes)),
        events=[replace(event, attributes=as_stored(dict(event.attributes))) for event in expected.events],
        resource=dict(expected.resource),
    )
    (read,), skipped = parse(exported(span))
    assert skipped == []
    assert repr(read) == repr(expected)


@given(failure_reports(min_size=1))
def test_a_report_through_a_file(report):
    """The events of any report come back from a file as they were, with every link; details of nothing are none."""
    *_, own = report.events
    (found,) = read_reports(exported(failing_span(*report.events.values())))
    assert found.report.model_dump() == {
        "events": {event_id: without_empty_details(event.model_dump()) for event_id, event in report.events.items()},
        "failure_id": own,
        "omitted": False,
    }
    assert (found.missing_causes, found.remote_only, found.unreadable) == ((), (), 0)


@given(call_trees(), st.integers(1, 5))
def test_wire_and_trace_agree_through_a_file(call, batch):
    """From a file, each server's report is the one that it sent, but for what is marked late or unseen."""
    spans = [readable(record) for record in call.spans()]
    found = {report.key: report for report in read_reports(exported(*spans, batch=batch), by="request")}
    assert [each.report for each in found.values()] == [each.report for each in rebuild(spans, by="request")]
    for request in call.requests():
        rebuilt = found.get(request.span_id)
        sent = request.sent()
        kept = {} if rebuilt is None else rebuilt.report.events
        apart = set() if rebuilt is None else {*rebuilt.late, *rebuilt.unseen}
        assert {event_id: event for event_id, event in kept.items() if event_id not in apart} == sent.events
        assert sent.failure_id == (None if rebuilt is None else rebuilt.report.failure_id)


def test_more_events_than_a_span_holds():
    """Of 200 failures on one span the SDK keeps the newest 128, and the report says so.

    opentelemetry-specification#1425.
    """
    many = [failure(f"e{number}") for number in range(198)]
    (found,) = read_reports(exported(failing_span(*many, failure("root"), failure("own", "root"))))
    assert (found.dropped_events, found.report.omitted, len(found.report.events)) == (72, True, 128)
    assert found.report.events["own"].cause_id == "root"


def test_a_limit_on_the_length_of_values():
    """With values cut at 40 characters, reasons are shorter, and ids and links are whole."""
    root = failure("0" * 32, reason="r" * 100)
    span = failing_span(root, failure("1" * 32, "0" * 32), span_limits=SpanLimits(max_attribute_length=40))
    (found,) = read_reports(exported(span))
    assert found.report.events["0" * 32].failure_reason == "r" * 40
    assert (found.missing_causes, found.unlinked) == ((), ())


def test_ids_that_a_limit_cut_are_no_links():
    """With values cut at 10 characters, an id that is named whole on no event is missing, and links to nothing."""
    long = failure("root" * 8)
    span = failing_span(long, failure("own", "r"), span_limits=SpanLimits(max_attribute_length=10))
    (found,) = read_reports(exported(span))
    assert found.missing_causes == ("r",)


def test_a_lone_surrogate_costs_nothing_else():
    """A span of someone else's with text that is no Unicode stands in the same line as a failure, which is read.

    mlflow#24123.
    """
    other = tracer().start_span("s", attributes={"input": "\ud800", "fine": "yes"})
    other.end()
    found = read_reports(exported(other, failing_span(failure("f")), other))
    assert (found.spans, found.skips) == (3, 0)
    assert list(found[0].report.events) == ["f"]


def test_all_optional_fields_absent():
    """A failure with nothing but what it must have reads back so, without a warning (opentelemetry-python#3213)."""
    (found,) = read_reports(exported(failing_span(failure("f"))))
    assert found.report == FailureReport(events={"f": failure("f")}, failure_id="f")
    assert found.cut == ()


@pytest.mark.parametrize("by", ["trace", "request", "rollout"])
def test_a_file_with_more_traces_than_fail(by):
    """Traces without failures are counted and otherwise nothing, in the same lines as those with them."""
    fine = [tracer().start_span(f"s{number}") for number in range(20)]
    for span in fine:
        span.end()
    failing = failing_span(failure("f"))
    found = read_reports(exported(*fine[:10], failing, *fine[10:], batch=7), by=by)
    assert [each.report for each in found] == [each.report for each in rebuild([failing], by=by)]
    assert (len(found), found.spans) == (1, 21)
