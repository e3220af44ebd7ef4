"""What one span says about failures."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from gym_failures import semconv
from gym_failures.attributes import AttributesError, read_attributes
from gym_failures.fields import EVENT_ID, FLAG
from gym_failures.reading.model import Span, SpanRecord
from gym_failures.records import FailureEvent
from gym_failures.text import was_cut

_RANKS: Final = {semconv.ORIGIN_REMOTE: 0, None: 1, semconv.ORIGIN_LOCAL: 2}


class Copy(NamedTuple):
    """One copy of an event, as one span tells it."""

    event: FailureEvent
    origin: str | None
    time_ns: int
    late: bool
    cut: bool
    """Whether some of its text or of its attributes is missing."""
    service: str | None
    worth: tuple[int, int, int]
    """What to choose between copies by, the greatest first: nearest to the origin, least lost, longest text."""


@dataclass(slots=True)
class Witness:
    """A span that says something about failures."""

    position: int
    """Where the span stands in its forest."""
    span: SpanRecord
    copies: list[Copy]
    unreadable: int
    """Failure events that cannot be read."""
    own_id: str | None
    """Id of the failure that was the span's own."""
    omitted: bool
    """Whether the span says that a report was not complete."""


def witnesses(spans: Sequence[Span]) -> Iterator[Witness]:
    """Yield those of `spans` that have something to say, in their order."""
    for position, span in enumerate(spans):
        if not isinstance(span, SpanRecord):
            continue
        witness = _hear(position, span)
        if witness.copies or witness.unreadable or witness.own_id is not None or witness.omitted:
            yield witness


def _hear(position: int, span: SpanRecord) -> Witness:
    own_id = span.attributes.get(semconv.FAILURE_ID)
    omitted = span.attributes.get(semconv.FAILURE_OMITTED)
    witness = Witness(
        position,
        span,
        [],
        0,
        None if own_id is None else EVENT_ID.codec.read(own_id),
        omitted is not None and FLAG.read(omitted) is True,
    )
    # A short span that links to its parent was made after the parent had ended, so whatever reply there was had gone.
    after = any(link.trace_id == span.trace_id and link.span_id == span.parent_id for link in span.links)
    for event in span.events:
        if event.name != semconv.EVENT_NAME:
            continue
        try:
            read = read_attributes(event.attributes)
        except AttributesError:
            witness.unreadable += 1
            continue
        lost = len(read.dropped) + event.dropped_attributes
        texts = _texts(read.event)
        witness.copies.append(
            Copy(
                read.event,
                read.origin,
                event.time_ns,
                read.late or (after and span.name == semconv.OVERFLOW_SPAN_NAME),
                lost > 0 or any(map(was_cut, texts)),
                span.service,
                (_RANKS[read.origin], -lost, sum(map(len, texts))),
            )
        )
    return witness


def _texts(event: FailureEvent) -> list[str]:
    """Return the texts that anything on the way may have cut."""
    texts = [event.failure_reason]
    if event.foreign_error is not None:
        texts.append(event.foreign_error.message)
    reason = getattr(event.details, "provider_status_reason", None)
    return texts if reason is None else [*texts, reason]
