"""Finished spans as OTLP JSON, a line for each call: the form that OpenTelemetry's own file exporter writes.

That exporter exists for the newest SDK only, while a server's SDK is the one that its environment happens to have.
"""

import base64
import functools
import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Link, SpanContext, SpanKind

# Numbers of opentelemetry-proto's `Span.SpanKind` and `SpanFlags` (trace/v1/trace.proto).
_KINDS: Final = {
    SpanKind.INTERNAL: 1,
    SpanKind.SERVER: 2,
    SpanKind.CLIENT: 3,
    SpanKind.PRODUCER: 4,
    SpanKind.CONSUMER: 5,
}
_REMOTE_IS_KNOWN: Final = 0x100
_IS_REMOTE: Final = 0x200

Message = dict[str, Any]


def line_of(spans: Sequence[ReadableSpan]) -> str:
    """Return `spans` as one line, without its end."""
    parts = [_resource_spans(resource, members) for resource, members in _grouped(spans, "resource")]
    return json.dumps({"resourceSpans": parts}, separators=(",", ":"))


def _grouped(spans: Iterable[ReadableSpan], by: str) -> Iterable[tuple[Any, list[ReadableSpan]]]:
    """Return spans together that share an object. By identity, for a resource's hash costs more than all of a span."""
    groups: dict[int, tuple[Any, list[ReadableSpan]]] = {}
    for span in spans:
        shared = getattr(span, by)
        groups.setdefault(id(shared), (shared, []))[1].append(span)
    return groups.values()


def _resource_spans(resource: Resource, spans: Iterable[ReadableSpan]) -> Message:
    return _without_defaults(
        resource={"attributes": _attributes(resource.attributes)},
        scopeSpans=[_scope_spans(scope, members) for scope, members in _grouped(spans, "instrumentation_scope")],
        schemaUrl=resource.schema_url,
    )


def _scope_spans(scope: InstrumentationScope | None, spans: Iterable[ReadableSpan]) -> Message:
    members = [_span(span) for span in spans]
    if scope is None:
        return {"scope": {}, "spans": members}
    named = _without_defaults(name=scope.name, version=scope.version, attributes=_attributes(scope.attributes))
    return {"scope": named, **_without_defaults(spans=members, schemaUrl=scope.schema_url)}


def _span(span: ReadableSpan) -> Message:
    context = span.get_span_context()
    return _without_defaults(
        traceId=f"{context.trace_id:032x}" if context else None,
        spanId=f"{context.span_id:016x}" if context else None,
        traceState=context.trace_state.to_header() if context else None,
        parentSpanId=f"{span.parent.span_id:016x}" if span.parent else None,
        flags=_flags(span.parent),
        name=span.name,
        kind=_KINDS[span.kind],
        startTimeUnixNano=str(span.start_time),
        endTimeUnixNano=str(span.end_time),
        attributes=_attributes(span.attributes),
        droppedAttributesCount=span.dropped_attributes,
        events=[_event(event) for event in span.events],
        droppedEventsCount=span.dropped_events,
        links=[_link(link) for link in span.links],
        droppedLinksCount=span.dropped_links,
    ) | {"status": _without_defaults(code=span.status.status_code.value, message=span.status.description)}


def _event(event: Event) -> Message:
    return _without_defaults(
        timeUnixNano=str(event.timestamp),
        name=event.name,
        attributes=_attributes(event.attributes),
        droppedAttributesCount=event.dropped_attributes,
    )


def _link(link: Link) -> Message:
    return _without_defaults(
        traceId=f"{link.context.trace_id:032x}",
        spanId=f"{link.context.span_id:016x}",
        attributes=_attributes(link.attributes),
        droppedAttributesCount=link.dropped_attributes,
        flags=_flags(link.context),
    )


def _flags(parent: SpanContext | None) -> int:
    return _REMOTE_IS_KNOWN | (_IS_REMOTE if parent is not None and parent.is_remote else 0)


def _attributes(attributes: Mapping[str, Any] | None) -> list[Message]:
    return [{"key": key, "value": _value(value)} for key, value in (attributes or {}).items()]


def _value(value: Any) -> Message:  # noqa: ANN401 - whatever the SDK has let in
    if value is None:
        return {}
    kind: type = type(value)
    field, form = _form_of(kind)
    return {field: form(value)}


@functools.cache
def _form_of(kind: type) -> tuple[str, Callable[[Any], object]]:
    return next((field, form) for of, field, form in _FORMS if issubclass(kind, of))


def _integer(value: int) -> str:
    return str(max(-(2**63), min(value, 2**63 - 1)))  # an int64; the SDK lets through what its exporters cannot send


def _double(value: float) -> float | str:
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


# From the special to the general: a bool is an int, and text is a sequence.
_FORMS: Final[tuple[tuple[type, str, Callable[[Any], object]], ...]] = (
    (bool, "boolValue", bool),
    (str, "stringValue", str),
    (int, "intValue", _integer),
    (float, "doubleValue", _double),
    (bytes, "bytesValue", lambda value: base64.b64encode(value).decode()),
    (Mapping, "kvlistValue", lambda value: _without_defaults(values=_attributes(value))),
    (Sequence, "arrayValue", lambda value: _without_defaults(values=[_value(one) for one in value])),
    (object, "stringValue", lambda value: f"<{type(value).__qualname__}>"),  # its own text may raise
)


def _without_defaults(**fields: Any) -> Message:  # noqa: ANN401 - the fields of a message
    """Return the fields that say anything, as protobuf's JSON form has it."""
    return {name: value for name, value in fields.items() if value or value is False}
