"""One line of OTLP JSON to the skeletons of its spans: ids, times, and the undecoded bytes of the rest.

What an SDK or a Collector writes decodes at the speed of msgspec. A line that does not is taken apart by the standard
library's tolerant reader, so that a damaged span costs only itself, and its good spans are decoded as ever.
"""

import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Annotated, Final, NamedTuple

from gym_failures.reading.otlp_values import hex_id, json_bytes, plain_json

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

_NOTHING: Final = msgspec.Raw(b"null")

_RECORD_START: Final = re.compile(rb'(?=\{\s*"resource_?[sS]pans")')
"""Where a record can start within a line. Nothing within a record looks so: quotes in its texts are escaped."""


class SpanSkeleton(msgspec.Struct, rename="camel", gc=False):
    """What is decoded of every span. What is optional here may be missing or null in a file."""

    trace_id: Annotated[str, msgspec.Meta(min_length=2 * TRACE_ID_SIZE, max_length=2 * TRACE_ID_SIZE)]
    span_id: Annotated[str, msgspec.Meta(min_length=2 * SPAN_ID_SIZE, max_length=2 * SPAN_ID_SIZE)]
    parent_span_id: str | None = None
    name: str | None = None
    kind: int | float | str | None = None
    start_time_unix_nano: int | float | str | None = None
    end_time_unix_nano: int | float | str | None = None
    dropped_events_count: int | float | str | None = None
    dropped_attributes_count: int | float | str | None = None
    attributes: msgspec.Raw = _NOTHING
    events: msgspec.Raw = _NOTHING
    links: msgspec.Raw = _NOTHING
    status: msgspec.Raw = _NOTHING


class ScopeSkeleton(msgspec.Struct):
    """The spans of one instrumentation scope."""

    spans: list[SpanSkeleton]


class ResourceSkeleton(msgspec.Struct, rename="camel"):
    """The spans of one resource, which stands for a process."""

    scope_spans: list[ScopeSkeleton]
    resource: msgspec.Raw = _NOTHING


class _Request(msgspec.Struct, rename="camel"):
    resource_spans: list[ResourceSkeleton]


class Decoded(NamedTuple):
    """What a line holds, and what is wrong with it, one sentence a fault."""

    resources: list[ResourceSkeleton]
    faults: list[str]


_REQUEST: Final = msgspec.json.Decoder(_Request)
_SPAN: Final = msgspec.json.Decoder(SpanSkeleton)
_FAULTS: Final = (msgspec.MsgspecError, ValueError, RecursionError)


def decode_line(line: bytes) -> Decoded:
    """Decode one line; whatever it holds, this does not raise."""
    try:
        return Decoded(_REQUEST.decode(line).resource_spans, [])
    except _FAULTS:
        return _decode_carefully(line)


def decode_contents(raw: msgspec.Raw) -> object:
    """Decode what a skeleton left undecoded; what cannot be decoded comes back as text, which is no content."""
    if raw is _NOTHING:
        return None
    with suppress(*_FAULTS):
        return msgspec.json.decode(raw)
    try:
        return msgspec.json.decode(json_bytes(plain_json(bytes(raw))))
    except _FAULTS:
        return ""


def _decode_carefully(line: bytes) -> Decoded:
    try:
        # A file that was cut while its writer went on has NULs up to where the writer was.
        document = plain_json(line.strip(b"\0 \t\r\n"))
    except RecursionError:
        return Decoded([], ["nested too deeply"])
    except ValueError as error:
        # A writer that was killed leaves half a record; the next one goes on in the same line.
        records = [record for record in _RECORD_START.split(line) if record]
        if len(records) <= 1:
            return Decoded([], [f"not JSON: {error}"])
        every = Decoded([], [])
        for record in records:
            decoded = decode_line(record)
            every.resources.extend(decoded.resources)
            every.faults.extend(decoded.faults)
        return every
    return _take_apart(document)


def _take_apart(document: object) -> Decoded:
    resources: list[ResourceSkeleton] = []
    faults: list[str] = []
    for request in document if isinstance(document, list) else [document]:
        if not isinstance(request, dict) or (request and "resourceSpans" not in request):
            faults.append("holds no resourceSpans")
            continue
        for at, resource in _members(request, "resourceSpans", "$.", faults):
            spans = [
                span
                for scope_at, scope in _members(resource, "scopeSpans", at, faults)
                for span_at, fields in _members(scope, "spans", scope_at, faults)
                if (span := _careful_span(fields, span_at, faults)) is not None
            ]
            resources.append(
                ResourceSkeleton([ScopeSkeleton(spans)], msgspec.Raw(json_bytes(resource.get("resource"))))
            )
    return Decoded(resources, faults)


def _members(
    parent: dict[str, object], key: str, at: str, faults: list[str]
) -> Iterator[tuple[str, dict[str, object]]]:
    """Yield the objects in a list of `parent` with the path to each, and note what is none."""
    members = parent.get(key)
    if not isinstance(members, list):
        if members is not None:
            faults.append(f"{at}{key} is no list")
        return
    for index, member in enumerate(members):
        path = f"{at}{key}[{index}]"
        if isinstance(member, dict):
            yield f"{path}.", member
        else:
            faults.append(f"{path} is no object")


def _careful_span(fields: dict[str, object], at: str, faults: list[str]) -> SpanSkeleton | None:
    ids: dict[str, object] = {}
    for key, size in (("traceId", TRACE_ID_SIZE), ("spanId", SPAN_ID_SIZE)):
        ids[key] = hex_id(fields.get(key), size)
        if ids[key] is None:
            faults.append(f"{at}{key} is no id")
            return None
    try:
        return _SPAN.decode(json_bytes(fields | ids))
    except _FAULTS as error:
        faults.append(f"{at[:-1]}: {error}")
        return None
