"""What a span's skeleton leaves undecoded: attributes, events, links and status.

What exporters write is decoded into types. What does not fit them is decoded as it is and read with more tolerance.
"""

from contextlib import suppress
from typing import Final

from gym_failures.reading.model import EventRecord, SpanLink, SpanStatus
from gym_failures.reading.otlp_values import (
    SPAN_ID_SIZE,
    TRACE_ID_SIZE,
    attributes,
    count,
    hex_id,
    integer,
    json_bytes,
    nanoseconds,
    plain_json,
    span_status,
)

try:
    import msgspec
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "OTLP JSON is read with msgspec, which is not installed: pip install 'gym-failures[reading]'", name=error.name
    ) from error

FAULTS: Final = (msgspec.MsgspecError, ValueError, RecursionError)
"""What decoding raises."""

Raw: Final = msgspec.Raw
"""JSON that is not decoded yet."""

NOTHING: Final = Raw(b"null")
"""What is not there."""


class _Value(msgspec.Struct, gc=False, rename="camel"):
    string_value: str | None = None
    int_value: int | str | None = None
    bool_value: bool | None = None
    double_value: float | None = None


class _Pair(msgspec.Struct, gc=False):
    key: str
    value: _Value


class _Event(msgspec.Struct, gc=False, rename="camel"):
    name: str = ""
    time_unix_nano: int | str | None = None
    attributes: msgspec.Raw = NOTHING
    dropped_attributes_count: int | str | None = None


class _Status(msgspec.Struct, gc=False):
    code: SpanStatus = SpanStatus.UNSET


_PAIRS: Final = msgspec.json.Decoder(list[_Pair])
_EVENTS: Final = msgspec.json.Decoder(list[_Event])
_STATUS: Final = msgspec.json.Decoder(_Status)


def decoded(raw: msgspec.Raw) -> object:
    """Return what `raw` holds; what cannot be decoded comes back as text, which is no content."""
    if raw is NOTHING:
        return None
    with suppress(*FAULTS):
        return msgspec.json.decode(raw)
    try:
        return msgspec.json.decode(json_bytes(plain_json(bytes(raw))))
    except FAULTS:
        return ""


def read_attributes(raw: msgspec.Raw) -> tuple[dict[str, object], int]:
    """Return attributes as a dict, and how many of them could not be read."""
    if raw is NOTHING:
        return {}, 0
    try:
        pairs = _PAIRS.decode(raw)
    except FAULTS:
        return attributes(decoded(raw))
    found: dict[str, object] = {}
    for pair in pairs:
        value = pair.value
        if value.string_value is not None:
            found[pair.key] = value.string_value
        elif (number := integer(value.int_value)) is not None:
            found[pair.key] = number
        elif value.bool_value is not None:
            found[pair.key] = value.bool_value
        elif value.double_value is not None:
            found[pair.key] = value.double_value
        else:  # a list, a map, bytes, nothing, or what cannot be read
            return attributes(decoded(raw))
    return found, 0


def read_events(raw: msgspec.Raw) -> tuple[list[EventRecord], int]:
    """Return the events of a span, and how many of them could not be read."""
    if raw is NOTHING:
        return [], 0
    try:
        typed = _EVENTS.decode(raw)
    except FAULTS:
        contents = decoded(raw)
        if not isinstance(contents, list):
            return [], 0 if contents is None else 1
        events = [event for event in map(_event, contents) if event is not None]
        return events, len(contents) - len(events)
    events = []
    for event in typed:
        own, unreadable = read_attributes(event.attributes)
        dropped = count(event.dropped_attributes_count) + unreadable
        events.append(EventRecord(event.name, nanoseconds(event.time_unix_nano), own, dropped))
    return events, 0


def _event(fields: object) -> EventRecord | None:
    if not isinstance(fields, dict) or not isinstance(name := fields.get("name", ""), str):
        return None
    own, unreadable = attributes(fields.get("attributes"))
    time_ns = nanoseconds(fields.get("timeUnixNano"))
    return EventRecord(name, time_ns, own, count(fields.get("droppedAttributesCount")) + unreadable)


def read_links(raw: msgspec.Raw) -> list[SpanLink]:
    """Return the links of a span that point somewhere."""
    if raw is NOTHING:
        return []
    contents = decoded(raw)
    if not isinstance(contents, list):
        return []
    return [link for link in map(_link, contents) if link is not None]


def _link(fields: object) -> SpanLink | None:
    if not isinstance(fields, dict):
        return None
    trace_id = hex_id(fields.get("traceId"), TRACE_ID_SIZE)
    span_id = hex_id(fields.get("spanId"), SPAN_ID_SIZE)
    return None if trace_id is None or span_id is None else SpanLink(trace_id, span_id)


def read_status(raw: msgspec.Raw) -> SpanStatus:
    """Return the status of a span."""
    with suppress(*FAULTS):
        return _STATUS.decode(raw).code
    contents = decoded(raw)
    return span_status(contents.get("code")) if isinstance(contents, dict) else SpanStatus.UNSET
