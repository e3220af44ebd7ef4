"""Spans of the OpenTelemetry SDK, as its in-memory exporter keeps them, to `SpanRecord`s.

They are known by their shape, so the SDK is needed by whoever made them, not here.
"""

from typing import TYPE_CHECKING, Final

from opentelemetry import trace

from gym_failures.reading.model import EventRecord, SpanKind, SpanLink, SpanRecord, SpanStatus

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan

_KINDS: Final = {kind: SpanKind[kind.name] for kind in trace.SpanKind}
"""By name, because the API counts from 0 where OTLP counts from 1."""


def from_readable_span(span: "ReadableSpan") -> SpanRecord:
    """Return an ended or a still open span as a `SpanRecord`; an open one has an `end_ns` of 0.

    Raises TypeError for what is no span of the SDK, and ValueError for a span that was made by hand without a context.
    """
    if not hasattr(span, "get_span_context"):
        raise TypeError(f"{type(span).__qualname__} is neither a span nor a source of spans")
    context = span.get_span_context()
    if context is None:
        raise ValueError(f"span {span.name!r} has no context, so no trace to stand in")
    resource = span.resource.attributes
    service = resource.get("service.name")
    return SpanRecord(
        trace_id=trace.format_trace_id(context.trace_id),
        span_id=trace.format_span_id(context.span_id),
        parent_id=None if span.parent is None else trace.format_span_id(span.parent.span_id),
        name=span.name,
        kind=_KINDS[span.kind],
        service=service if isinstance(service, str) else None,
        start_ns=span.start_time or 0,
        end_ns=span.end_time or 0,
        status=SpanStatus(span.status.status_code.value),
        attributes=span.attributes or {},
        events=[
            EventRecord(event.name, event.timestamp, event.attributes or {}, event.dropped_attributes)
            for event in span.events
        ],
        links=[
            SpanLink(trace.format_trace_id(link.context.trace_id), trace.format_span_id(link.context.span_id))
            for link in span.links
        ],
        dropped_events=span.dropped_events,
        dropped_attributes=span.dropped_attributes,
        resource=resource,
    )
