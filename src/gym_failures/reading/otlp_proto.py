"""OTLP protobuf, as the Collector's file exporter writes it, to spans.

Its functions do for messages what those of `otlp_json` do for lines. A message is decoded by protobuf's own library;
only the spans of traces that failed become records.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from gym_failures import limits, semconv
from gym_failures.misuse import MissingExtraError
from gym_failures.reading.model import EventRecord, SpanLink, SpanRecord, Tally
from gym_failures.reading.otlp_values import SPAN_ID_SIZE, TRACE_ID_SIZE, nanoseconds, span_kind, span_status

try:
    from google.protobuf.message import DecodeError
    from opentelemetry.proto.trace.v1.trace_pb2 import TracesData
except ModuleNotFoundError as error:
    raise MissingExtraError("OTLP protobuf", "opentelemetry.proto", "proto") from error

if TYPE_CHECKING:
    from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
    from opentelemetry.proto.trace.v1.trace_pb2 import Span

_Resource = Mapping[str, object]

_TELLING: Final = b"failure"
"""In the name of every attribute and event that tells of a failure; protobuf stores text as it is."""
_PREFIX: Final = "failure."


def failing_traces(messages: Iterable[bytes]) -> frozenset[str]:
    """Return the ids of the traces in which a span tells of a failure; passes over what cannot be read."""
    return frozenset(
        span.trace_id.hex()
        for message in messages
        if _TELLING in message and (data := _decoded(message)) is not None
        for resource in data.resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
        if _has_ids(span) and _tells(span)
    )


def parse_messages(messages: Iterable[bytes], tally: Tally, *, traces: Collection[str] | None) -> Iterator[SpanRecord]:
    """Read messages as they come, yield the spans of `traces`, and keep a tally of what can and what cannot be read.

    `traces` of None are all. An empty message is nothing. Nothing that the messages hold makes this raise.
    """
    for number, message in enumerate(messages, 1):
        data = _decoded(message)
        if data is None:
            tally.skip(number, "the record is no OTLP protobuf")
            continue
        for resource in data.resource_spans:
            process: _Resource | None = None
            for scope in resource.scope_spans:
                for span in scope.spans:
                    if not _has_ids(span):
                        tally.skip(number, "a span has no trace id or no span id")
                        continue
                    tally.spans += 1
                    if traces is None or span.trace_id.hex() in traces:
                        if process is None:
                            process, _ = _attributes(resource.resource.attributes)
                        yield _record(span, process)


def trace_id(message: bytes) -> str | None:
    """Return the id of the trace that the first span of a message is of; nothing of a message without spans.

    None where it is no OTLP protobuf.
    """
    data = _decoded(message)
    if data is None:
        return None
    spans = (span for resource in data.resource_spans for scope in resource.scope_spans for span in scope.spans)
    return next((span.trace_id.hex() for span in spans), "")


def _decoded(message: bytes) -> TracesData | None:
    data = TracesData()
    try:
        data.ParseFromString(message)
    except DecodeError:
        return None
    return data


def _has_ids(span: "Span") -> bool:
    return (
        len(span.trace_id) == TRACE_ID_SIZE
        and len(span.span_id) == SPAN_ID_SIZE
        and any(span.trace_id)
        and any(span.span_id)
    )


def _tells(span: "Span") -> bool:
    return any(event.name == semconv.EVENT_NAME for event in span.events) or any(
        pair.key.startswith(_PREFIX) for pair in span.attributes
    )


def _record(span: "Span", process: _Resource) -> SpanRecord:
    own, unreadable = _attributes(span.attributes)
    events = []
    for event in span.events:
        of_event, lost = _attributes(event.attributes)
        events.append(
            EventRecord(event.name, nanoseconds(event.time_unix_nano), of_event, event.dropped_attributes_count + lost)
        )
    service = process.get("service.name")
    return SpanRecord(
        trace_id=span.trace_id.hex(),
        span_id=span.span_id.hex(),
        parent_id=span.parent_span_id.hex() if any(span.parent_span_id) else None,
        name=span.name,
        kind=span_kind(span.kind),
        service=service if isinstance(service, str) else None,
        start_ns=nanoseconds(span.start_time_unix_nano),
        end_ns=nanoseconds(span.end_time_unix_nano),
        status=span_status(span.status.code),
        attributes=own,
        events=events,
        links=[SpanLink(link.trace_id.hex(), link.span_id.hex()) for link in span.links],
        dropped_events=span.dropped_events_count,
        dropped_attributes=span.dropped_attributes_count + unreadable,
        resource=process,
    )


def _attributes(pairs: "Iterable[KeyValue]", depth: int = limits.ATTRIBUTE_DEPTH) -> tuple[dict[str, object], int]:
    """Return attributes as a dict, and how many of them could not be read; one that is not set is absent."""
    found: dict[str, object] = {}
    unreadable = 0
    for pair in pairs:
        try:
            value = _value(pair.value, depth)
        except _Unreadable:
            unreadable += 1
            continue
        if value is not None:
            found[pair.key] = value
    return found, unreadable


class _Unreadable(Exception):  # noqa: N818 - says why a value was left out, and leaves this module never
    pass


def _value(value: "AnyValue", depth: int) -> object:
    kind = value.WhichOneof("value")
    if kind is None:
        return None
    read = _READERS.get(kind)
    if read is None or depth <= 0:
        raise _Unreadable
    return read(getattr(value, kind), depth - 1)


def _kvlist(pairs: Any, depth: int) -> dict[str, object]:  # noqa: ANN401 - a message of a library without such types
    found, unreadable = _attributes(pairs.values, depth)
    if unreadable:
        raise _Unreadable
    return found


def _itself(value: object, _depth: int) -> object:
    return value


_READERS: Final[Mapping[str, Callable[[Any, int], object]]] = {
    "string_value": _itself,
    "bool_value": _itself,
    "int_value": _itself,
    "double_value": _itself,
    "bytes_value": _itself,
    "array_value": lambda array, depth: [_value(item, depth) for item in array.values],
    "kvlist_value": _kvlist,
}
