"""OTLP protobuf to span records."""

import base64
import json

import pytest
from google.protobuf.json_format import ParseDict
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.trace.v1.trace_pb2 import TracesData

from gym_failures import limits
from gym_failures.reading import Skip, Tally, read_reports
from gym_failures.reading.otlp_json import parse
from gym_failures.reading.otlp_proto import failing_traces, parse_messages
from tests.spans import TRACE, failure, server, span_id, told
from tests.strategies import stored_spans


def otlp(spans):
    """Return span records as a document of OTLP."""
    return {
        "resourceSpans": [
            {
                "resource": {"attributes": [{"key": "service.name", "value": {"stringValue": "agent"}}]},
                "scopeSpans": [{"spans": [*map(_span, spans)]}],
            }
        ]
    }


def _span(span):
    return {
        "traceId": span.trace_id,
        "spanId": span.span_id,
        "parentSpanId": span.parent_id or "",
        "name": span.name,
        "kind": int(span.kind),
        "startTimeUnixNano": str(span.start_ns),
        "endTimeUnixNano": str(span.end_ns),
        "status": {"code": int(span.status)},
        "attributes": [*map(_pair, span.attributes.items())],
        "events": [
            {
                "name": event.name,
                "timeUnixNano": str(event.time_ns),
                "attributes": [*map(_pair, event.attributes.items())],
                "droppedAttributesCount": event.dropped_attributes,
            }
            for event in span.events
        ],
        "links": [{"traceId": link.trace_id, "spanId": link.span_id} for link in span.links],
        "droppedEventsCount": span.dropped_events,
        "droppedAttributesCount": span.dropped_attributes,
    }


def _pair(item):
    key, value = item
    kind = {str: "stringValue", bool: "boolValue", int: "intValue"}[type(value)]
    return {"key": key, "value": {kind: value}}


def message(document):
    """Return a document of OTLP JSON as protobuf; what JSON has in hex, protobuf's own JSON has in base64."""
    return ParseDict(_with_bytes(document), TracesData()).SerializeToString()


def _with_bytes(tree):
    if isinstance(tree, list):
        return [*map(_with_bytes, tree)]
    if isinstance(tree, dict):
        return {
            key: base64.b64encode(bytes.fromhex(value)).decode()
            if key in {"traceId", "spanId", "parentSpanId"}
            else _with_bytes(value)
            for key, value in tree.items()
        }
    return tree


def read(*messages):
    """Return the spans of the failing traces, and what was skipped."""
    tally = Tally()
    return [*parse_messages(messages, tally, traces=failing_traces(messages))], tally.skipped


@given(st.lists(stored_spans(), max_size=3))
def test_protobuf_tells_what_json_tells(batches):
    """The same spans, stored as protobuf and as JSON, give the same records."""
    documents = [otlp(spans) for spans in batches]
    messages = [*map(message, documents)]
    found, skipped = read(*messages)
    wanted = failing_traces(messages)
    assert found == [span for document in documents for span in parse(document).spans if span.trace_id in wanted]
    assert skipped == []
    assert {span.trace_id for spans in batches for span in spans if span.events} <= wanted


VALUES = {
    "text": ({"stringValue": "模型\0"}, "模型\0"),
    "a bool": ({"boolValue": False}, False),
    "the smallest number": ({"intValue": str(-(2**63))}, -(2**63)),
    "a float": ({"doubleValue": 0.5}, 0.5),
    "infinity": ({"doubleValue": "Infinity"}, float("inf")),
    "bytes": ({"bytesValue": "AP8="}, b"\0\xff"),
    "a list": ({"arrayValue": {"values": [{"intValue": "1"}, {"stringValue": "a"}]}}, [1, "a"]),
    "a map": ({"kvlistValue": {"values": [{"key": "a", "value": {"boolValue": True}}]}}, {"a": True}),
}


@pytest.mark.parametrize(("value", "expected"), VALUES.values(), ids=VALUES)
def test_values(value, expected):
    """Every type of OTLP's values is read."""
    ((span,), _) = read(message(otlp_with(value)))
    assert span.attributes["k"] == expected
    assert type(span.attributes["k"]) is type(expected)


def otlp_with(*values):
    """Return a document of one failing span that has these values as attributes."""
    document = otlp([server(1, None, told(failure("f")), own="f")])
    (span,) = document["resourceSpans"][0]["scopeSpans"][0]["spans"]
    span["attributes"] += [{"key": "k", "value": value} for value in values]
    return document


def test_a_value_that_is_not_set_is_absent():
    """A pair whose value is not set is no attribute, and not counted (opentelemetry-python#3213)."""
    ((span,), _) = read(message(otlp_with({})))
    assert "k" not in span.attributes
    assert span.dropped_attributes == 0


def test_a_value_that_is_nested_too_deeply_is_counted():
    """A value deeper than the limit costs itself, and is counted as dropped."""
    value = {"intValue": "1"}
    for _ in range(limits.ATTRIBUTE_DEPTH + 1):
        value = {"arrayValue": {"values": [value]}}
    ((span,), _) = read(message(otlp_with(value)))
    assert "k" not in span.attributes
    assert span.dropped_attributes == 1


def test_damage():
    """What is no message, and a span without ids, are told of with the number of the record; the rest is read."""
    document = otlp([server(2, None, told(failure("f")), own="f")])
    spans = document["resourceSpans"][0]["scopeSpans"][0]["spans"]
    spans[:0] = [{**spans[0], "traceId": "0" * 32}, {**spans[0], "spanId": ""}, {**spans[0], "traceId": "ab"}]
    found, skipped = read(b"\xff", b"", message(document))
    assert [span.span_id for span in found] == [span_id(2)]
    assert skipped == [
        Skip(1, "the record is no OTLP protobuf"),
        *[Skip(3, "a span has no trace id or no span id")] * 3,
    ]


@given(st.binary(max_size=200))
def test_no_bytes_make_reading_raise(data):
    """Whatever stands in a record, reading goes on to the next."""
    good = message(otlp([server(2, None, told(failure("f")), own="f")]))
    records = (data + b"failure", good)
    framed = b"".join(len(record).to_bytes(4) + record for record in (good, *records))
    assert TRACE in {report.trace_id for report in read_reports(framed)}


def test_a_whole_service_is_named():
    """A span's service is its resource's, and so are the resource's attributes."""
    ((span,), _) = read(message(json.loads(json.dumps(otlp([server(1, None, told(failure("f")))])))))
    assert (span.service, span.resource) == ("agent", {"service.name": "agent"})


def test_a_length_that_looks_like_a_brace_is_no_json():
    """A file whose first message holds 123 bytes, which is a brace, is one of protobuf as any other."""
    failing = message(otlp([server(1, None, told(failure("f")), own="f")]))
    sizes = set()
    for length in range(1, 60):
        first = message(otlp([server(2, None, name="x" * length, trace="1" * 32)]))
        sizes.add(first[1])
        found = read_reports(b"".join(len(record).to_bytes(4) + record for record in (first, failing)))
        assert (len(found), found.spans, found.skips) == (1, 2, 0)
    assert ord("{") in sizes
