"""The skeletons of spans, which is what is decoded of every one, and the rest of a span where it is asked for."""

from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from typing import Annotated, Final

from gym_failures import semconv
from gym_failures.reading.model import EventRecord, QuietSpan, Span, SpanKind, SpanLink, SpanRecord, SpanStatus
from gym_failures.reading.otlp_values import attributes, count, hex_id, integer, json_bytes, plain_json, span_status
from gym_failures.reading.search import find

try:
    import msgspec
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "OTLP JSON is read with msgspec, which is not installed: pip install 'gym-failures[reading]'", name=error.name
    ) from error

TRACE_ID_SIZE: Final = 16
"""Bytes of a trace id."""

SPAN_ID_SIZE: Final = 8
"""Bytes of a span id."""

FAULTS: Final = (msgspec.MsgspecError, ValueError, RecursionError)
"""What decoding raises."""

Raw: Final = msgspec.Raw
"""JSON that is not decoded yet."""

_NOTHING: Final = Raw(b"null")

# Looked for in undecoded JSON: these names are ASCII, which no writer escapes, and one found for nothing costs little.
_ATTRIBUTE: Final = b'"failure.'
_EVENT: Final = f'"{semconv.EVENT_NAME}"'.encode()


class SpanSkeleton(
    msgspec.Struct,
    gc=False,
    rename={
        "trace_id": "traceId",
        "span_id": "spanId",
        "parent_id": "parentSpanId",
        "start_ns": "startTimeUnixNano",
        "end_ns": "endTimeUnixNano",
        "dropped_events": "droppedEventsCount",
        "dropped_attributes": "droppedAttributesCount",
    },
):
    """What is decoded of every span; the fields are those of `SpanRecord`, and an id may have capitals."""

    trace_id: Annotated[str, msgspec.Meta(min_length=2 * TRACE_ID_SIZE, max_length=2 * TRACE_ID_SIZE)]
    span_id: Annotated[str, msgspec.Meta(min_length=2 * SPAN_ID_SIZE, max_length=2 * SPAN_ID_SIZE)]
    parent_id: str = ""
    name: str = ""
    kind: SpanKind = SpanKind.UNSPECIFIED
    start_ns: int = 0
    end_ns: int = 0
    dropped_events: int = 0
    dropped_attributes: int = 0
    attributes: msgspec.Raw = _NOTHING
    events: msgspec.Raw = _NOTHING
    links: msgspec.Raw = _NOTHING
    status: msgspec.Raw = _NOTHING


class ScopeSkeleton(msgspec.Struct, gc=False):
    """The spans of one instrumentation scope."""

    spans: list[SpanSkeleton]


class ResourceSkeleton(msgspec.Struct, gc=False, rename="camel"):
    """The spans of one resource, which stands for a process."""

    scope_spans: list[ScopeSkeleton]
    resource: msgspec.Raw = _NOTHING


class RequestSkeleton(msgspec.Struct, gc=False, rename="camel"):
    """One export, which is what a line holds."""

    resource_spans: list[ResourceSkeleton]


# Not strict, because 64-bit numbers are text in JSON.
REQUEST: Final = msgspec.json.Decoder(RequestSkeleton, strict=False)
SPAN: Final = msgspec.json.Decoder(SpanSkeleton, strict=False)


class Process:
    """The process that a resource stands for, whose attributes are decoded for the first span that needs them."""

    __slots__ = ("_attributes", "_resource")

    def __init__(self, resource: msgspec.Raw) -> None:
        """Take the resource undecoded."""
        self._resource = resource
        self._attributes: Mapping[str, object] | None = None

    @property
    def attributes(self) -> Mapping[str, object]:
        """The attributes of the resource; none where it cannot be read."""
        if self._attributes is None:
            contents = _decoded(self._resource)
            self._attributes = attributes(contents.get("attributes"))[0] if isinstance(contents, dict) else {}
        return self._attributes


def tells(span: SpanSkeleton) -> bool:
    """Return whether `span` may tell of a failure."""
    return find(bytes(span.attributes), _ATTRIBUTE) >= 0 or find(bytes(span.events), _EVENT) >= 0


def read_span(span: SpanSkeleton, process: Process) -> Span:
    """Return a span of `process`, whole if anything in it may matter."""
    if span.events is not _NOTHING or tells(span):
        return _record(span, process)
    return QuietSpan(
        span.trace_id.lower(),
        span.span_id.lower(),
        span.parent_id.lower(),
        span.kind,
        span.start_ns,
        span.end_ns,
        max(span.dropped_events, 0),
        partial(_record, span, process),
    )


def _record(span: SpanSkeleton, process: Process) -> SpanRecord:
    own, unreadable = attributes(_decoded(span.attributes))
    events, lost = _events(_decoded(span.events))
    status = _decoded(span.status)
    service = process.attributes.get("service.name")
    return SpanRecord(
        trace_id=span.trace_id.lower(),
        span_id=span.span_id.lower(),
        parent_id=hex_id(span.parent_id, SPAN_ID_SIZE),
        name=span.name,
        kind=span.kind,
        service=service if isinstance(service, str) else None,
        start_ns=span.start_ns,
        end_ns=span.end_ns,
        status=span_status(status.get("code")) if isinstance(status, dict) else SpanStatus.UNSET,
        attributes=own,
        events=events,
        links=_links(_decoded(span.links)),
        dropped_events=max(span.dropped_events, 0) + lost,
        dropped_attributes=max(span.dropped_attributes, 0) + unreadable,
        resource=process.attributes,
    )


def _decoded(raw: msgspec.Raw) -> object:
    """Decode what a skeleton left undecoded; what cannot be decoded comes back as text, which is no content."""
    if raw is _NOTHING:
        return None
    with suppress(*FAULTS):
        return msgspec.json.decode(raw)
    try:
        return msgspec.json.decode(json_bytes(plain_json(bytes(raw))))
    except FAULTS:
        return ""


def _events(contents: object) -> tuple[list[EventRecord], int]:
    """Return the events of a span, and how many of them cannot be read."""
    if not isinstance(contents, list):
        return [], 0 if contents is None else 1
    events = [event for event in map(_event, contents) if event is not None]
    return events, len(contents) - len(events)


def _event(fields: object) -> EventRecord | None:
    if not isinstance(fields, dict) or not isinstance(name := fields.get("name", ""), str):
        return None
    own, unreadable = attributes(fields.get("attributes"))
    time_ns = integer(fields.get("timeUnixNano")) or 0
    return EventRecord(name, time_ns, own, count(fields.get("droppedAttributesCount")) + unreadable)


def _links(contents: object) -> list[SpanLink]:
    if not isinstance(contents, list):
        return []
    return [link for link in map(_link, contents) if link is not None]


def _link(fields: object) -> SpanLink | None:
    if not isinstance(fields, dict):
        return None
    trace_id = hex_id(fields.get("traceId"), TRACE_ID_SIZE)
    span_id = hex_id(fields.get("spanId"), SPAN_ID_SIZE)
    return None if trace_id is None or span_id is None else SpanLink(trace_id, span_id)
