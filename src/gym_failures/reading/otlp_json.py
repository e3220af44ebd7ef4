"""OTLP JSON, as the SDK's and the Collector's file exporters write it, to `SpanRecord`s.

The contents of a span are decoded only when the span is wanted. So a file is read twice, once to find the traces that
have failures and once to read those, and both together cost about what reading its bytes costs.
"""

from bisect import bisect_right
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from io import BytesIO
from itertools import accumulate
from typing import Final

from gym_failures import semconv
from gym_failures.reading.model import EventRecord, Parsed, SpanLink, SpanRecord, SpanStatus, Tally
from gym_failures.reading.otlp_skeleton import (
    SPAN_ID_SIZE,
    TRACE_ID_SIZE,
    ResourceSkeleton,
    SpanSkeleton,
    decode_contents,
    decode_line,
)
from gym_failures.reading.otlp_values import (
    as_bytes,
    attributes,
    count,
    hex_id,
    integer,
    json_bytes,
    span_kind,
    span_status,
)

# Looked for in undecoded bytes: these names are ASCII, which no writer escapes, and one found for nothing costs little.
_EVENT: Final = f'"{semconv.EVENT_NAME}"'.encode()
_ATTRIBUTE: Final = b'"failure.'
_IN_ALL_NAMES: Final = b"failure"


def failing_traces(lines: Iterable[str | bytes]) -> frozenset[str]:
    """Return the ids of the traces in which a span tells of a failure, reading the contents of none.

    Passes over what cannot be read; `parse_lines` tells of that.
    """
    return frozenset(
        trace_id
        for _, line in _numbered(lines)
        if _IN_ALL_NAMES in line
        for resource in decode_line(line).resources
        for scope in resource.scope_spans
        for trace_id in _failing(scope.spans)
    )


def parse_lines(
    lines: Iterable[str | bytes], tally: Tally, *, traces: Container[str] | None = None
) -> Iterator[SpanRecord]:
    """Read lines as they come, yield their spans, and keep a tally of what can and what cannot be read.

    `traces` holds the ids of the traces to yield; None yields all. A blank line is nothing, and a document that is
    spread over several lines is read as one. Nothing that the lines hold makes this raise.
    """
    for number, line in _numbered(lines):
        resources, faults = decode_line(line)
        for resource in resources:
            of_process: dict[str, object] | None = None
            for scope in resource.scope_spans:
                tally.spans += len(scope.spans)
                for span in scope.spans:
                    if traces is None or span.trace_id.lower() in traces:
                        of_process = _resource_attributes(resource) if of_process is None else of_process
                        yield _record(span, of_process)
        for fault in faults:
            tally.skip(number, fault)


def parse(document: str | bytes | Mapping[str, object]) -> Parsed:
    """Read one document, as text or already decoded, or the text of a whole file of lines.

    Raises TypeError for a mapping that holds what JSON cannot.
    """
    tally = Tally(named=None)
    # A BytesIO gives out lines by line feeds only. Other line ends, such as U+2028, can stand within a JSON string.
    lines = BytesIO(json_bytes(document) if isinstance(document, Mapping) else as_bytes(document))
    return Parsed(list(parse_lines(lines, tally)), tally.skipped)


def _numbered(lines: Iterable[str | bytes]) -> Iterator[tuple[int, bytes]]:
    """Yield the lines that are not blank with their numbers, or a document that is spread over them as one."""
    numbered = ((number, line) for number, line in enumerate(map(as_bytes, lines), 1) if line and not line.isspace())
    first = next(numbered, None)
    if first is None:
        return
    # An indented document begins like this, and no whole record ends so.
    if first[1].rstrip().endswith((b"{", b"[")):
        yield first[0], b"\n".join([first[1], *(line for _, line in numbered)])
        return
    yield first
    yield from numbered


def _failing(spans: Sequence[SpanSkeleton]) -> Iterator[str]:
    """Yield the trace of each span that tells of a failure."""
    for mark, raws in ((_ATTRIBUTE, [span.attributes for span in spans]), (_EVENT, [span.events for span in spans])):
        for index in _holding(mark, raws):
            yield spans[index].trace_id.lower()


def _holding(mark: bytes, raws: Sequence[bytes]) -> Iterator[int]:
    """Yield the indexes of those that hold `mark`; one search through all together is far quicker than one in each."""
    joined = b"".join(raws)
    at = joined.find(mark)
    if at < 0:
        return
    ends = list(accumulate(map(len, raws)))
    while at >= 0:
        index = bisect_right(ends, at)
        yield index
        at = joined.find(mark, ends[index])


def _resource_attributes(resource: ResourceSkeleton) -> dict[str, object]:
    contents = decode_contents(resource.resource)
    return attributes(contents.get("attributes"))[0] if isinstance(contents, dict) else {}


def _record(span: SpanSkeleton, resource: dict[str, object]) -> SpanRecord:
    own, unreadable = attributes(decode_contents(span.attributes))
    events, lost = _events(decode_contents(span.events))
    status = decode_contents(span.status)
    service = resource.get("service.name")
    return SpanRecord(
        trace_id=span.trace_id.lower(),
        span_id=span.span_id.lower(),
        parent_id=hex_id(span.parent_span_id, SPAN_ID_SIZE),
        name=span.name or "",
        kind=span_kind(span.kind),
        service=service if isinstance(service, str) else None,
        start_ns=integer(span.start_time_unix_nano) or 0,
        end_ns=integer(span.end_time_unix_nano) or 0,
        status=span_status(status.get("code")) if isinstance(status, dict) else SpanStatus.UNSET,
        attributes=own,
        events=events,
        links=_links(decode_contents(span.links)),
        dropped_events=count(span.dropped_events_count) + lost,
        dropped_attributes=count(span.dropped_attributes_count) + unreadable,
        resource=resource,
    )


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
