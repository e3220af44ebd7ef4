"""How much of failures a span takes: by our own bound, and by the limits of OpenTelemetry's SDK.

The SDK keeps both its limits and what a span holds where no interface leads, but for a copy of all events.
"""

from typing import Final, NamedTuple

from opentelemetry.trace import Span

from gym_failures import limits
from gym_failures.guard import warn_once

_IDENTIFYING: Final = 3
"""Attributes without which an event is none: id, kind and boundary, which are written last and dropped last."""


class Room(NamedTuple):
    """What spans with the same limits take."""

    events: int
    """Events on one span, others' included; 0 where an event would be lost, or what tells of which failure it is."""
    text: int | None
    """Characters of a text; None where all of it."""


_OURS: Final = Room(limits.EVENTS_PER_SPAN, None)

_last: tuple[object, Room] = (None, _OURS)
"""The limits that were looked at last, which are the same object for all spans of one provider, and what they mean."""


def room_on(span: Span) -> Room | None:
    """Return what `span` takes of one more failure, or None where it takes none."""
    try:
        found = span._limits  # type: ignore[attr-defined]  # noqa: SLF001 - see above
        held = len(span._events)  # type: ignore[attr-defined]  # noqa: SLF001 - see above
    except AttributeError:
        return _OURS if len(getattr(span, "events", ())) < _OURS.events else None
    room = _within(found)
    return room if held < room.events else None


def keeps_events(span: Span) -> bool:
    """Tell whether a failure that is put on `span`, or on another of the same limits, would be stored."""
    found = getattr(span, "_limits", None)
    return found is None or _within(found).events > 0


def _within(found: object) -> Room:
    """Return what limits mean, and warn once of those that leave nothing which could be read back or linked."""
    global _last  # noqa: PLW0603 - it only saves looking again
    seen, room = _last
    if found is not seen:
        room = _look_at(found)
        _last = (found, room)
    return room


def _look_at(found: object) -> Room:
    events, attributes, text, summary = (
        getattr(found, name, None)
        for name in ("max_events", "max_event_attributes", "max_attribute_length", "max_span_attribute_length")
    )
    if events == 0 or text == 0 or (attributes is not None and attributes < _IDENTIFYING):
        warn_once(
            "span_limits:events",
            "OpenTelemetry's SDK keeps too few events, or too little of them, for a failure on a span: set "
            "OTEL_SPAN_EVENT_COUNT_LIMIT, OTEL_EVENT_ATTRIBUTE_COUNT_LIMIT or OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT higher",
        )
        return Room(0, text)
    if any(length is not None and length < limits.OWN_ID_LENGTH for length in (text, summary)):
        warn_once(
            "span_limits:ids",
            "OpenTelemetry's SDK cuts attributes shorter than the %d characters of an id, so no failure can be linked: "
            "set OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT or OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT higher",
            limits.OWN_ID_LENGTH,
        )
    return Room(limits.EVENTS_PER_SPAN if events is None else min(events, limits.EVENTS_PER_SPAN), text)
