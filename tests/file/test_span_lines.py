"""Spans are written as OpenTelemetry's own exporter writes them."""

import io
import json
import math

import pytest
from opentelemetry.exporter.otlp.json.file import FileSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import SpanLimits, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import (
    Link,
    NonRecordingSpan,
    SpanContext,
    SpanKind,
    StatusCode,
    TraceFlags,
    TraceState,
    set_span_in_context,
)

from gym_failures.enabling.span_lines import line_of

STATE = TraceState([("vendor", "x"), ("other", "y")])
REMOTE = SpanContext(0xA1, 0xB2, is_remote=True, trace_flags=TraceFlags(TraceFlags.SAMPLED), trace_state=STATE)
ATTRIBUTES = {
    "true": True,
    "false": False,
    "zero": 0,
    "integer": -(2**63),
    "large": 2**63 - 1,
    "double": 0.1,
    "nan": math.nan,
    "infinity": math.inf,
    "minus infinity": -math.inf,
    "text": 'caf\u00e9 "\U0001f600" \n \x00',
    "a lone surrogate": "\ud800",
    "empty": "",
    "bytes": b"\x00\xff",
    "texts": ["a", "b"],
    "numbers": [1, 2],
    "switches": [True, False],
    "nothing": [],
}


@pytest.fixture
def finished():
    """Give spans with everything that a span can have."""
    exporter = InMemorySpanExporter()
    resource = Resource({"service.name": "s", **ATTRIBUTES}, schema_url="https://schema/1")
    provider = TracerProvider(resource=resource, span_limits=SpanLimits(max_events=1, max_links=1, max_attributes=20))
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    bare = provider.get_tracer("bare")
    full = provider.get_tracer("full", "1.0", schema_url="https://schema/2", attributes={"scope": 1})
    parent = set_span_in_context(NonRecordingSpan(REMOTE))
    links = [Link(SpanContext(1, 2, is_remote=False)), Link(REMOTE, {"why": "tried again"})]
    with full.start_as_current_span("server", parent, SpanKind.SERVER, ATTRIBUTES, links) as span:
        span.add_event("dropped")
        span.add_event("kept", ATTRIBUTES)
        span.set_status(StatusCode.ERROR, "what failed")
        for kind in SpanKind:
            with bare.start_as_current_span(kind.name, kind=kind) as child:
                child.set_attributes({f"a{number}": number for number in range(30)})
                child.set_status(StatusCode.OK)
    return exporter.get_finished_spans()


def test_one_span_is_as_the_exporter_writes_it(finished):
    """Every span is the same JSON, each by itself and all together."""
    for batch in (*([span] for span in finished), finished):
        stream = io.StringIO()
        FileSpanExporter(stream=stream).export(batch)
        assert json.loads(line_of(batch)) == json.loads(stream.getvalue())
        assert "\n" not in line_of(batch)


class Unspeakable:
    """A value whose text cannot be had."""

    def __str__(self):
        """Raise."""
        raise ValueError


ODD = {
    "too large": (2**70, {"intValue": str(2**63 - 1)}),
    "too small": (-(2**70), {"intValue": str(-(2**63))}),
    "none": (None, {}),
    "an object": (Unspeakable(), {"stringValue": "<Unspeakable>"}),
    "a mapping": (
        {"a": [1, None]},
        {"kvlistValue": {"values": [{"key": "a", "value": {"arrayValue": {"values": [{"intValue": "1"}, {}]}}}]}},
    ),
}


@pytest.mark.parametrize("name", ODD)
def test_a_value_that_the_sdk_should_not_have_let_in(finished, name):
    """An odd value costs no span (opentelemetry-python#3213, opentelemetry-python-contrib#3940)."""
    value, expected = ODD[name]
    span = finished[0]
    span._attributes = {"odd": value}
    (part,) = json.loads(line_of([span]))["resourceSpans"]
    assert part["scopeSpans"][0]["spans"][0]["attributes"] == [{"key": "odd", "value": expected}]
