"""One line of OTLP JSON to the skeletons of its spans.

What an SDK or a Collector writes decodes at the speed of msgspec. A line that does not is taken apart by the standard
library's tolerant reader, so that a damaged span costs only itself, and its good spans are decoded as ever.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from gym_failures.reading.otlp_contents import FAULTS, Raw
from gym_failures.reading.otlp_skeleton import REQUEST, SPAN, ResourceSkeleton, ScopeSkeleton, SpanSkeleton, spans_of
from gym_failures.reading.otlp_values import (
    OVERLONG,
    SPAN_ID_SIZE,
    TOO_LONG,
    TRACE_ID_SIZE,
    count,
    hex_id,
    is_hex,
    json_bytes,
    nanoseconds,
    plain_json,
    span_kind,
)

_RECORD_START: Final = re.compile(rb'(?=\{\s*"resource_?[sS]pans")')
"""Where a record can start within a line. Nothing within a record looks so: quotes in its texts are escaped."""

_OTHER: Final = re.compile(rb'\s*(?:\[\s*)?\{\s*"resource_?(?:[mM]etrics|[lL]ogs|[pP]rofiles)"')
"""How a record of another signal begins, which stand beside those of spans where one process writes all of them."""

_RESPELT: Final[Mapping[str, Callable[[object], object]]] = {
    "kind": span_kind,
    "startTimeUnixNano": nanoseconds,
    "endTimeUnixNano": nanoseconds,
    "droppedEventsCount": count,
    "droppedAttributesCount": count,
}
"""The numbers of a span that a skeleton holds."""


class Decoded(NamedTuple):
    """What a line holds, and what is wrong with it, one sentence a fault."""

    resources: list[ResourceSkeleton]
    faults: list[str]
    others: int = 0
    """Records of other signals, which nothing is read of."""


def decode_plain(lines: Iterable[bytes]) -> list[ResourceSkeleton] | None:
    """Decode several lines at once, whose ids have no capitals; None where any of the lines needs more care."""
    try:
        requests = REQUEST.decode_lines(b"\n".join(lines))
    except FAULTS:
        return None
    resources = [resource for request in requests for resource in request.resource_spans]
    return resources if _have_ids(resources) else None


def decode_line(line: bytes) -> Decoded:
    """Decode one line; whatever it holds, this does not raise."""
    try:
        resources = REQUEST.decode(line).resource_spans
    except FAULTS:
        return _decode_carefully(line)
    if not _have_ids(resources):
        return _decode_carefully(line)
    for span in spans_of(resources):
        span.trace_id, span.span_id, span.parent_id = (
            span.trace_id.lower(),
            span.span_id.lower(),
            span.parent_id.lower(),
        )
    return Decoded(resources, [])


def _have_ids(resources: Iterable[ResourceSkeleton]) -> bool:
    """Tell whether what the spans have for ids, of which only the length is known, are ids; asked once, it is quick."""
    ids = [
        text
        for resource in resources
        for scope in resource.scope_spans
        for span in scope.spans
        for text in (span.trace_id, span.span_id)
    ]
    return is_hex("".join(ids))


def _decode_carefully(line: bytes) -> Decoded:
    if line == OVERLONG:
        return Decoded([], [TOO_LONG])
    if _OTHER.match(line) and _RECORD_START.search(line) is None:
        return Decoded([], [], 1)
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
        every = [decode_line(record) for record in records]
        return Decoded(
            [resource for decoded in every for resource in decoded.resources],
            [fault for decoded in every for fault in decoded.faults],
            sum(decoded.others for decoded in every),
        )
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
            resources.append(ResourceSkeleton([ScopeSkeleton(spans)], Raw(json_bytes(resource.get("resource")))))
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
    span = {name: value for name, value in fields.items() if value is not None}
    for key, size in (("traceId", TRACE_ID_SIZE), ("spanId", SPAN_ID_SIZE)):
        span[key] = hex_id(fields.get(key), size)
        if span[key] is None:
            faults.append(f"{at}{key} is no id")
            return None
    if isinstance(parent_id := span.get("parentSpanId"), str):
        span["parentSpanId"] = hex_id(parent_id, SPAN_ID_SIZE) or ""
    for key, read in _RESPELT.items():
        if isinstance(value := span.get(key), int | float | str) and not isinstance(value, bool):
            span[key] = read(value)
    try:
        return SPAN.decode(json_bytes(span))
    except FAULTS as error:
        faults.append(f"{at[:-1]}: {error}")
        return None
