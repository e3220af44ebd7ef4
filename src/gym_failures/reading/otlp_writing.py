"""Spans to OTLP JSON, which `otlp_json` reads back as the same spans."""

import base64
import math
from collections.abc import Iterable, Mapping
from typing import Final

from gym_failures import limits
from gym_failures.reading.model import EventRecord, SpanLink, SpanRecord

Json = dict[str, object]

_LARGEST: Final = 2**limits.OTLP_INTEGER_BITS


def as_otlp(spans: Iterable[SpanRecord]) -> Json:
    """Return `spans` as one export request, those of one process together."""
    processes: list[tuple[Mapping[str, object], list[Json]]] = []
    for span in spans:
        if not processes or processes[-1][0] != span.resource:
            processes.append((span.resource, []))
        processes[-1][1].append(_span(span))
    return {
        "resourceSpans": [
            {
                "resource": {"attributes": _attributes(resource)},
                "scopeSpans": [{"spans": of_process}],  # a record does not know its scope
            }
            for resource, of_process in processes
        ]
    }


def _span(span: SpanRecord) -> Json:
    return {
        "traceId": span.trace_id,
        "spanId": span.span_id,
        "parentSpanId": span.parent_id or "",
        "name": span.name,
        "kind": int(span.kind),
        "startTimeUnixNano": str(span.start_ns),
        "endTimeUnixNano": str(span.end_ns),
        "attributes": _attributes(span.attributes),
        "droppedAttributesCount": span.dropped_attributes,
        "events": [*map(_event, span.events)],
        "droppedEventsCount": span.dropped_events,
        "links": [*map(_link, span.links)],
        "status": {"code": int(span.status)},
    }


def _event(event: EventRecord) -> Json:
    return {
        "name": event.name,
        "timeUnixNano": str(event.time_ns),
        "attributes": _attributes(event.attributes),
        "droppedAttributesCount": event.dropped_attributes,
    }


def _link(link: SpanLink) -> Json:
    return {"traceId": link.trace_id, "spanId": link.span_id}


def _attributes(attributes: Mapping[str, object]) -> list[Json]:
    return [{"key": key, "value": _value(value)} for key, value in attributes.items()]


def _value(value: object) -> Json:
    """Return a value of a record as an AnyValue; a number that its types have no room for is text."""
    if isinstance(value, list):
        return {"arrayValue": {"values": [*map(_value, value)]}}
    if isinstance(value, dict):
        return {"kvlistValue": {"values": _attributes(value)}}
    return _scalar(value)


def _scalar(value: object) -> Json:
    match value:
        case bool():
            return {"boolValue": value}
        case int() if -_LARGEST <= value < _LARGEST:
            return {"intValue": str(value)}
        case float():
            # As protobuf's JSON spells what JSON has no number for.
            return {"doubleValue": value if math.isfinite(value) else _NOT_FINITE.get(value, "NaN")}
        case bytes():
            return {"bytesValue": base64.b64encode(value).decode()}
        case _:
            return {"stringValue": str(value)}


_NOT_FINITE: Final = {math.inf: "Infinity", -math.inf: "-Infinity"}
