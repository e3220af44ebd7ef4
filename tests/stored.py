"""Span records as files hold them."""

import json


def as_line(span):
    """Return a span record as one line of OTLP JSON."""
    resource = {} if span.service is None else {"attributes": _attributes({"service.name": span.service})}
    return json.dumps(
        {
            "resourceSpans": [
                {
                    "resource": resource,
                    "scopeSpans": [
                        {
                            "spans": [
                                {
                                    "traceId": span.trace_id,
                                    "spanId": span.span_id,
                                    "parentSpanId": span.parent_id or "",
                                    "name": span.name,
                                    "kind": int(span.kind),
                                    "startTimeUnixNano": str(span.start_ns),
                                    "endTimeUnixNano": str(span.end_ns),
                                    "attributes": _attributes(span.attributes),
                                    "events": [
                                        {
                                            "name": event.name,
                                            "timeUnixNano": str(event.time_ns),
                                            "attributes": _attributes(event.attributes),
                                        }
                                        for event in span.events
                                    ],
                                    "droppedEventsCount": span.dropped_events,
                                    "status": {"code": int(span.status)} if span.status else {},
                                }
                            ]
                        }
                    ],
                }
            ]
        }
    )


def _attributes(attributes):
    return [{"key": key, "value": _value(value)} for key, value in attributes.items()]


def _value(value):
    if isinstance(value, bool):
        return {"boolValue": value}
    return {"intValue": str(value)} if isinstance(value, int) else {"stringValue": value}
