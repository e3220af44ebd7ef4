"""The SDK's spans as span records."""

import pytest
from opentelemetry import trace
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanLimits, TracerProvider
from opentelemetry.trace import Link, SpanContext, TraceFlags

from gym_failures.reading import EventRecord, SpanKind, SpanLink, SpanRecord, SpanStatus, from_readable_span
from tests.spans import TRACE, span_id

REMOTE = SpanContext(int(TRACE, 16), 7, is_remote=True, trace_flags=TraceFlags(TraceFlags.SAMPLED))


def tracer(**provider):
    """Return a tracer of a provider that exports nothing."""
    return TracerProvider(shutdown_on_exit=False, **provider).get_tracer("test")


def test_a_span():
    """All that a span has is read, ids as hex and enums by OTLP's numbers."""
    span = tracer(resource=Resource({"service.name": "agent"})).start_span(
        "POST /run",
        trace.set_span_in_context(trace.NonRecordingSpan(REMOTE)),
        kind=trace.SpanKind.SERVER,
        attributes={"n": 1},
        links=[Link(REMOTE)],
        start_time=10,
    )
    span.add_event("e", {"k": "v"}, timestamp=11)
    span.set_status(trace.StatusCode.ERROR)
    span.end(end_time=12)
    assert from_readable_span(span) == SpanRecord(
        trace_id=TRACE,
        span_id=trace.format_span_id(span.get_span_context().span_id),
        parent_id=span_id(7),
        name="POST /run",
        kind=SpanKind.SERVER,
        service="agent",
        start_ns=10,
        end_ns=12,
        status=SpanStatus.ERROR,
        attributes={"n": 1},
        events=[EventRecord("e", 11, {"k": "v"})],
        links=[SpanLink(TRACE, span_id(7))],
        resource={"service.name": "agent"},
    )


def test_what_the_sdk_dropped_is_counted():
    """Events and attributes over the SDK's limits are counted (opentelemetry-specification#1425)."""
    limits = SpanLimits(max_events=2, max_span_attributes=1, max_event_attributes=1)
    span = tracer(span_limits=limits).start_span("s", attributes={"a": 1, "b": 2})
    for number in range(5):
        span.add_event(f"e{number}", {"a": 1, "b": 2})
    span.end()
    read = from_readable_span(span)
    assert (read.dropped_events, read.dropped_attributes, len(read.events)) == (3, 1, 2)
    assert [event.dropped_attributes for event in read.events] == [1, 1]


def test_an_open_root_span():
    """A span without a parent that has not ended, of a process without a name, is read as far as it goes."""
    read = from_readable_span(tracer(resource=Resource.get_empty()).start_span("s"))
    assert (read.parent_id, read.end_ns, read.service, read.kind) == (None, 0, None, SpanKind.INTERNAL)


@pytest.mark.parametrize("kind", trace.SpanKind)
def test_every_kind(kind):
    """Every kind of span keeps its name."""
    span = tracer().start_span("s", kind=kind)
    assert from_readable_span(span).kind.name == kind.name


def test_a_span_without_a_context_is_an_error():
    """A span made by hand without ids says so."""
    with pytest.raises(ValueError, match="'s' has no context"):
        from_readable_span(ReadableSpan("s", resource=Resource.get_empty()))
