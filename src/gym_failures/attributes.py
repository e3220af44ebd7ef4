"""A failure event as the flat attributes of a span event, and back, by the one table in `fields`.

Values are flat scalars, never JSON text: a length limit cuts in the middle, and a cut reason is only shorter where a
cut JSON text is lost. The order matters too: a low limit on the number of attributes drops the oldest keys first, so
what identifies a failure is written last.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from gym_failures import semconv
from gym_failures.fields import (
    BOUNDARY,
    CAUSE_ID,
    CONTEXT,
    DETAILS,
    EVENT_ID,
    FLAG,
    FOREIGN_ERROR,
    KIND,
    Codec,
    Field,
    Reader,
    Scalar,
    Values,
    as_text,
    assemble,
    rows,
    write,
)
from gym_failures.misuse import GymFailuresError
from gym_failures.records import FailureEvent

_LINKS: Final = (CAUSE_ID, BOUNDARY, KIND, EVENT_ID)
_REQUIRED: Final = (EVENT_ID, KIND, BOUNDARY)

_ORIGINS: Final = {origin: origin for origin in (semconv.ORIGIN_LOCAL, semconv.ORIGIN_REMOTE)}
_ORIGIN: Final = Field(
    "origin", semconv.FAILURE_ORIGIN, Codec(str, lambda value: _ORIGINS.get(as_text(value) or ""), str)
)
_ROOT: Final = Field("root", semconv.FAILURE_ROOT, FLAG)
_LATE: Final = Field("late", semconv.FAILURE_LATE, FLAG)

# The parts of what attributes hold; the details of each boundary are one too.
_EVENT: Final = "event"
_FOREIGN: Final = "foreign_error"
_MARKS: Final = "marks"
_PLACES: Final[Mapping[str, tuple[object, str, Reader]]] = {
    field.key: (part, field.name, field.codec.read)
    for part, fields in (
        (_EVENT, (*CONTEXT, *_LINKS)),
        (_FOREIGN, FOREIGN_ERROR),
        (_MARKS, (_ORIGIN, _ROOT, _LATE)),
        *DETAILS.items(),
    )
    for field in fields
}

KEYS: Final = tuple(_PLACES)
"""Every attribute that an event can have."""

_WRITE_CONTEXT: Final = rows(CONTEXT, keyed=True)
_WRITE_FOREIGN_ERROR: Final = rows(FOREIGN_ERROR, keyed=True)
_WRITE_DETAILS: Final = {boundary: rows(fields, keyed=True) for boundary, fields in DETAILS.items()}
_WRITE_LINKS: Final = rows(_LINKS, keyed=True)


class AttributesError(GymFailuresError, ValueError):
    """Name the attribute for want of which a set of attributes is no failure event."""


class ReadEvent(NamedTuple):
    """An event read from attributes, and what they say beside the event."""

    event: FailureEvent
    origin: str | None
    """`semconv.ORIGIN_LOCAL` or `ORIGIN_REMOTE`; None when the attribute is missing or neither."""
    root: bool | None
    """Whether the observer knew no cause; None when that is not written, as on every remote event."""
    late: bool
    """Whether the failure was recorded after the reply's header was written."""
    dropped: tuple[str, ...]
    """The keys whose values could not be used."""


def to_attributes(
    event: FailureEvent, *, origin: str = semconv.ORIGIN_LOCAL, root: bool | None = None, late: bool = False
) -> dict[str, Scalar]:
    """Return `event` as the attributes of a span event, in the order that the reference gives.

    What is absent writes no attribute; so do a `root` of None and a `late` of False. Lone surrogates become U+FFFD
    (mlflow#24123), an id or a kind that is empty or too long becomes what `text.wire_id` makes of it, and a whole
    number that OTLP has no room for is written as text.
    """
    attributes: dict[str, Scalar] = {}
    write(event, _WRITE_CONTEXT, attributes)
    if event.foreign_error is not None:
        write(event.foreign_error, _WRITE_FOREIGN_ERROR, attributes)
    if event.details is not None:
        write(event.details, _WRITE_DETAILS[event.boundary], attributes)
    attributes[_ORIGIN.key] = origin
    if root is not None:
        attributes[_ROOT.key] = root
    if late:
        attributes[_LATE.key] = True
    write(event, _WRITE_LINKS, attributes)
    return attributes


def from_attributes(attributes: Mapping[str, object]) -> FailureEvent:
    """Return the event that `attributes` hold; tolerates and raises what `read_attributes` does."""
    return read_attributes(attributes).event


def read_attributes(attributes: Mapping[str, object]) -> ReadEvent:
    """Return the event that `attributes` hold, whatever SDK, Collector and trace store have made of the values.

    A number or a flag may be text, text may be bytes, None is absent, and text that is too long is cut. Any other value
    that does not fit its field is dropped, and so are details of another boundary. Unknown keys are passed over, for a
    newer version may write more. Raises AttributesError when id, kind or boundary is missing or cannot be used.
    """
    parts: dict[object, Values] = {}
    dropped: list[str] = []
    for key, raw in attributes.items():
        place = _PLACES.get(key)
        if place is None or raw is None:
            continue
        part, name, reader = place
        value = reader(raw)
        if value is None:
            dropped.append(key)
        else:
            parts.setdefault(part, {})[name] = value
    event, marks = parts.pop(_EVENT, {}), parts.pop(_MARKS, {})
    for field in _REQUIRED:
        if field.name not in event:
            raise AttributesError(f"{field.key} {'cannot be used' if field.key in dropped else 'is missing'}")
    foreign_error = parts.get(_FOREIGN)
    if foreign_error is not None and "exception_type" in foreign_error:
        del parts[_FOREIGN]
    details = parts.pop(event[BOUNDARY.name], None)
    if parts:  # what the event has no place for
        dropped += [key for key in attributes if key in _PLACES and _PLACES[key][0] in parts]
    return ReadEvent(
        event=assemble(event, foreign_error, details),
        origin=marks.get(_ORIGIN.name),
        root=marks.get(_ROOT.name),
        late=marks.get(_LATE.name, False),
        dropped=tuple(dropped),
    )
