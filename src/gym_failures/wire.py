"""A failure report as the JSON object that a header carries, and back, by the one table in `fields`.

Reading has two ways to the same end. What is exactly as this version writes it is checked in one go by pydantic's core,
because reading has a budget in time. All else is read value by value, tolerantly: a bad event costs only itself, and so
does a bad or an unknown field.
"""

from collections.abc import Iterable, Mapping
from types import GenericAlias
from typing import Any, Final, NamedTuple, Required

from pydantic import ConfigDict, TypeAdapter, ValidationError, with_config
from typing_extensions import TypedDict

from gym_failures import limits, selfmetrics
from gym_failures.fields import (
    BOUNDARY,
    CAUSE_ID,
    CONTEXT,
    DETAILS,
    EVENT_ID,
    FLAG,
    FOREIGN_ERROR,
    KIND,
    Field,
    Reader,
    Values,
    assemble,
    rows,
    write,
)
from gym_failures.packing import Refusal, RefusedError, Tree
from gym_failures.records import FailureEvent, FailureReport
from gym_failures.text import wire_id

_EVENT: Final = (KIND, BOUNDARY, CAUSE_ID, *CONTEXT)
_WRITE_EVENT: Final = rows(_EVENT, keyed=False)
_WRITE_FOREIGN_ERROR: Final = rows(FOREIGN_ERROR, keyed=False)
_WRITE_DETAILS: Final = {boundary: rows(fields, keyed=False) for boundary, fields in DETAILS.items()}


def _readers(fields: Iterable[Field]) -> dict[str, Reader]:
    return {field.name: field.codec.read for field in fields}


_EVENT_ID, _KIND, _BOUNDARY = EVENT_ID.name, KIND.name, BOUNDARY.name
_read_id: Final = EVENT_ID.codec.read
_READ_EVENT: Final = _readers(_EVENT)
_READ_FOREIGN_ERROR: Final = _readers(FOREIGN_ERROR)
_READ_DETAILS: Final = {boundary: _readers(fields) for boundary, fields in DETAILS.items()}


def to_tree(report: FailureReport) -> Tree:
    """Return the JSON object of `report`; what is absent is left out, an event's id is its key."""
    events = {wire_id(event_id): event_tree(event) for event_id, event in report.events.items()}
    tree: Tree = {} if report.failure_id is None else {"failure_id": wire_id(report.failure_id)}
    if report.omitted or len(events) < len(report.events):  # ids that differ only in lone surrogates meet on the wire
        tree["omitted"] = True
    tree["events"] = events
    return tree


def event_tree(event: FailureEvent) -> Tree:
    """Return the JSON object of `event`, without its id and its absent fields."""
    tree: Tree = {}
    write(event, _WRITE_EVENT, tree)
    if event.foreign_error is not None:
        foreign_error: Tree = {}
        write(event.foreign_error, _WRITE_FOREIGN_ERROR, foreign_error)
        tree["foreign_error"] = foreign_error
    if event.details is not None:
        details: Tree = {}
        write(event.details, _WRITE_DETAILS[event.boundary], details)
        tree["details"] = details
    return tree


class Carried(NamedTuple):
    """What one header value says; its links may be broken."""

    failure_id: str | None
    events: dict[str, FailureEvent]
    omitted: bool


def _exact_report() -> TypeAdapter[Tree]:
    """Return what checks JSON text for being exactly a report as this version writes it, and reads it at once."""

    def exact(fields: Iterable[Field]) -> dict[str, Any]:
        return {field.name: field.codec.exact for field in fields}

    def an_object(types: dict[str, Any], *required: str) -> type:
        hints = types | {name: Required[types[name]] for name in required}
        made: type = TypedDict("made", hints, total=False)  # type: ignore[misc]  # its fields come from a table
        return with_config(ConfigDict(extra="forbid", strict=True))(made)

    # The values of the details are checked afterwards, because their schema goes with the boundary.
    foreign_error = an_object(exact(FOREIGN_ERROR), "exception_type", "message")
    parts = {"foreign_error": foreign_error, "details": dict[str, str | int | bool]}
    event_id, event = EVENT_ID.codec.exact, an_object(exact(_EVENT) | parts, _KIND, _BOUNDARY)
    events = GenericAlias(dict, (event_id, event))
    return TypeAdapter(an_object({"failure_id": event_id, "omitted": bool, "events": events}, "events"))


_EXACT_REPORT: Final = _exact_report()


def read_exact(body: bytes) -> Carried | None:
    """Return what JSON text says when it is exactly as this version writes it, else None.

    Text of at most DECODE_AT_ONCE bytes, which has not room for more events than are read.
    """
    try:
        tree = _EXACT_REPORT.validate_json(body)
    except ValidationError:
        return None
    unusable: list[str] = []
    events: dict[str, FailureEvent] = {}
    for event_id, event in tree["events"].items():
        event[_EVENT_ID] = event_id
        foreign_error, details = event.pop("foreign_error", None), event.pop("details", None)
        if details is not None:
            details = _read_fields(details, _READ_DETAILS.get(event[_BOUNDARY], {}), unusable)
        events[event_id] = assemble(event, foreign_error, details)
    _count(bad_fields=len(unusable))
    return Carried(tree.get("failure_id"), events, tree.get("omitted", False))


def read_tree(tree: object) -> Carried:
    """Return what a JSON value says, as far as it can be understood; raises RefusedError when it is no report."""
    if not isinstance(tree, dict) or not isinstance(raw_events := tree.get("events", {}), dict):
        raise RefusedError(Refusal.SHAPE)
    if len(raw_events) > limits.DECODE_EVENTS:
        raise RefusedError(Refusal.TOO_MANY_EVENTS)
    unusable: list[str] = []
    events: dict[str, FailureEvent] = {}
    for key, raw in raw_events.items():
        event = _read_event(key, raw, unusable)
        if event is not None:
            events.setdefault(event.event_id, event)
    lost = len(raw_events) - len(events)
    _count(bad_events=lost, bad_fields=len(unusable))
    raw_id = tree.get("failure_id")
    failure_id = _read_id(raw_id)
    link_lost = CAUSE_ID.name in unusable or (failure_id is None and raw_id is not None)
    omitted = FLAG.read(tree.get("omitted")) is True
    return Carried(failure_id, events, omitted or link_lost or lost > 0)


def _count(*, bad_events: int = 0, bad_fields: int = 0) -> None:
    if bad_events:
        selfmetrics.dropped(selfmetrics.Loss.HEADER_EVENT, bad_events)
    if bad_fields:
        selfmetrics.dropped(selfmetrics.Loss.HEADER_FIELD, bad_fields)


def _read_event(key: str, raw: object, unusable: list[str]) -> FailureEvent | None:
    event_id = _read_id(key)
    if event_id is None or not isinstance(raw, dict):
        return None
    event = _read_fields(raw, _READ_EVENT, unusable)
    if _KIND not in event or _BOUNDARY not in event:
        return None
    event[_EVENT_ID] = event_id
    foreign_error, details = raw.get("foreign_error"), raw.get("details")
    if foreign_error is not None:
        foreign_error = _read_part("foreign_error", foreign_error, _READ_FOREIGN_ERROR, unusable)
    if details is not None:
        details = _read_part("details", details, _READ_DETAILS.get(event[_BOUNDARY], {}), unusable)
    return assemble(event, foreign_error, details)


def _read_part(name: str, raw: object, readers: Mapping[str, Reader], unusable: list[str]) -> Values | None:
    if isinstance(raw, dict):
        return _read_fields(raw, readers, unusable)
    unusable.append(name)
    return None


def _read_fields(raw: Tree, readers: Mapping[str, Reader], unusable: list[str]) -> Values:
    values: Values = {}
    for name, value in raw.items():
        reader = readers.get(name)
        if reader is not None and value is not None:
            read = reader(value)
            if read is None:
                unusable.append(name)
            else:
                values[name] = read
    return values
