"""Jaeger's own JSON to spans: the answers of its query API, and what its pages download.

A document holds traces, and each trace its spans and the processes that these refer to. Times are microseconds. A
damaged span costs itself; of a document that was cut, the traces before the cut are read.
"""

import base64
import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Final

from gym_failures import semconv
from gym_failures.misuse import MissingExtraError
from gym_failures.reading.model import EventRecord, SpanLink, SpanRecord, SpanStatus, Tally
from gym_failures.reading.otlp_values import SPAN_ID_SIZE, TRACE_ID_SIZE, hex_id, integer, nanoseconds, span_kind

try:
    import msgspec
except ModuleNotFoundError as error:
    raise MissingExtraError("Stored text", "msgspec", "reading") from error

_DOCUMENT: Final = re.compile(rb'\s*(?:\{\s*"(?:data|total|limit|offset|errors)"\s*:|\[?\s*\{\s*"traceID"\s*:)')
_TRACE: Final = re.compile(r'\{\s*"traceID"\s*:\s*"[^"]*"\s*,\s*"spans"')
"""Where a trace can start. Nothing within a trace looks so: quotes in its texts are escaped."""
_TELLING: Final = b'"failure.'
"""In each trace that tells of a failure; only these are decoded."""
_MICROSECOND: Final = 1_000
"""In nanoseconds."""


def is_jaeger(start: bytes) -> bool:
    """Tell whether a text that starts like this is such a document."""
    return _DOCUMENT.match(start) is not None


def failing_traces(document: bytes) -> frozenset[str]:
    """Return the ids of the traces in which a span tells of a failure; passes over what cannot be read."""
    return frozenset(span.trace_id for span in _spans(document, Tally()) if _tells(span))


def parse_document(document: bytes, tally: Tally, *, traces: Collection[str] | None) -> Iterator[SpanRecord]:
    """Yield the spans of `traces` (None: of all), and keep a tally of what can and what cannot be read.

    Spans of traces that tell of no failure are neither decoded nor counted, unless all are asked for. Nothing that the
    document holds makes this raise.
    """
    spans = _spans(document, tally, all_traces=traces is None)
    return (span for span in spans if traces is None or span.trace_id in traces)


def _spans(document: bytes, tally: Tally, *, all_traces: bool = False) -> Iterator[SpanRecord]:
    for trace in _traces(document, tally, all_traces=all_traces):
        processes = trace.get("processes")
        known = processes if isinstance(processes, dict) else {}
        spans = trace.get("spans")
        for fields in spans if isinstance(spans, list) else ():
            span = _span(fields, known)
            if span is None:
                tally.skip(0, "a span has no trace id or no span id")
            else:
                tally.spans += 1
                yield span


def _traces(document: bytes, tally: Tally, *, all_traces: bool) -> Iterator[Mapping[str, object]]:
    try:
        found = msgspec.json.decode(document, type=dict[str, msgspec.Raw] | list[msgspec.Raw])
        if isinstance(found, dict) and "traceID" not in found:
            if msgspec.json.decode(found.get("errors", b"null")):
                tally.skip(0, "Jaeger answered with an error")
            raws = msgspec.json.decode(found.get("data", b"null"), type=list[msgspec.Raw] | None) or []
        else:
            raws = [msgspec.Raw(document)] if isinstance(found, dict) else found
        decoded = [msgspec.json.decode(raw) for raw in raws if all_traces or _TELLING in bytes(raw)]
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        tally.skip(0, "the document is damaged or cut off; only the whole traces in it are read")
        decoded = [*_salvaged(document.decode("utf-8", "replace"))]
    yield from (trace for trace in decoded if isinstance(trace, dict))


def _salvaged(document: str) -> Iterator[object]:
    decoder = json.JSONDecoder()
    for start in _TRACE.finditer(document):
        try:
            yield decoder.raw_decode(document, start.start())[0]
        except (ValueError, RecursionError):
            continue


def _tells(span: SpanRecord) -> bool:
    return any(key.startswith("failure.") for key in span.attributes) or any(
        event.name == semconv.EVENT_NAME for event in span.events
    )


def _span(fields: object, processes: Mapping[str, object]) -> SpanRecord | None:
    if not isinstance(fields, dict):
        return None
    trace_id, span_id = _id(fields.get("traceID"), TRACE_ID_SIZE), _id(fields.get("spanID"), SPAN_ID_SIZE)
    if trace_id is None or span_id is None:
        return None
    own, unreadable = _attributes(fields.get("tags"))
    process = processes.get(str(fields.get("processID")), fields.get("process"))
    service, resource = _process(process)
    parent_id, links = _references(fields, trace_id)
    start_ns = _time(fields.get("startTime"))
    name = fields.get("operationName")
    logs = fields.get("logs")
    return SpanRecord(
        trace_id=trace_id,
        span_id=span_id,
        parent_id=parent_id,
        name=name if isinstance(name, str) else "",
        kind=span_kind(own.get("span.kind")),
        service=service,
        start_ns=start_ns,
        end_ns=nanoseconds(start_ns + _time(fields.get("duration"))),
        status=_status(own),
        attributes=own,
        events=[*map(_event, logs if isinstance(logs, list) else ())],
        links=links,
        dropped_attributes=unreadable,
        resource=resource,
    )


def _id(value: object, size: int) -> str | None:
    """Return an id as hex; Jaeger's older versions leave out the zeros in front."""
    return hex_id(value.zfill(2 * size), size) if isinstance(value, str) else None


def _time(microseconds: object) -> int:
    return nanoseconds((integer(microseconds) or 0) * _MICROSECOND)


def _references(fields: Mapping[str, object], trace_id: str) -> tuple[str | None, list[SpanLink]]:
    """Return the parent, which is the first reference to a span of the same trace as its child, and the links."""
    parent_id = _id(fields.get("parentSpanID"), SPAN_ID_SIZE)
    links = []
    references = fields.get("references")
    for reference in references if isinstance(references, list) else ():
        if not isinstance(reference, dict):
            continue
        to = _id(reference.get("traceID"), TRACE_ID_SIZE), _id(reference.get("spanID"), SPAN_ID_SIZE)
        if to[0] is None or to[1] is None:
            continue
        if parent_id is None and reference.get("refType") == "CHILD_OF" and to[0] == trace_id:
            parent_id = to[1]
        else:
            links.append(SpanLink(to[0], to[1]))
    return parent_id, links


def _process(process: object) -> tuple[str | None, Mapping[str, object]]:
    if not isinstance(process, dict):
        return None, {}
    service = process.get("serviceName")
    resource, _ = _attributes(process.get("tags"))
    if not isinstance(service, str):
        return None, resource
    return service, {"service.name": service, **resource}


def _status(attributes: Mapping[str, object]) -> SpanStatus:
    """Return the status that Jaeger's tags tell, which is how OpenTelemetry says to write it for Jaeger."""
    match attributes.get("otel.status_code"):
        case "OK":
            return SpanStatus.OK
        case "ERROR":
            return SpanStatus.ERROR
    return SpanStatus.ERROR if attributes.get("error") is True else SpanStatus.UNSET


def _event(log: object) -> EventRecord:
    if not isinstance(log, dict):
        return EventRecord("", dropped_attributes=1)
    own, unreadable = _attributes(log.get("fields"))
    name = own.pop("event", "")
    return EventRecord(name if isinstance(name, str) else "", _time(log.get("timestamp")), own, unreadable)


def _attributes(tags: object) -> tuple[dict[str, object], int]:
    """Return tags as a dict, and how many of them could not be read."""
    found: dict[str, object] = {}
    unreadable = 0
    for tag in tags if isinstance(tags, list) else ():
        try:
            found[_text(tag["key"])] = _READERS[tag.get("type", "string")](tag["value"])
        except (AttributeError, KeyError, TypeError, ValueError, OverflowError):
            unreadable += 1
    return found, unreadable


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def _bool(value: object) -> bool:
    if value in {"true", "false"}:
        return value == "true"
    if not isinstance(value, bool):
        raise TypeError
    return value


def _int(value: object) -> int:
    number = integer(value)
    if number is None:
        raise ValueError
    return number


def _float(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise TypeError
    return float(value)


_READERS: Final[Mapping[str, Callable[[object], object]]] = {
    "string": _text,
    "bool": _bool,
    "int64": _int,
    "float64": _float,
    "binary": lambda value: base64.b64decode(_text(value), validate=True),
}
