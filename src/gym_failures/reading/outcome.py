"""Which failure a trace or a rollout ended with, as far as its spans tell.

A server's span says how its request ended, and that outweighs everything beneath: what failed there was recovered from.
A span of anything else, such as a client that knows nothing of this package, outweighs nothing unless it names a
failure of its own. Where no failure is named, such as by servers without this package, a status can still say that all
failed.
"""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from gym_failures.reading.forest import Forest
from gym_failures.reading.model import Span, SpanKind, SpanRecord, SpanStatus, whole
from gym_failures.reading.witness import Witness
from gym_failures.records import FailureEvent

_CALLS: Final = (SpanKind.CLIENT, SpanKind.PRODUCER)
"""Spans of work that is done elsewhere: that one call failed says nothing of what was made of it."""


class Units(NamedTuple):
    """The spans of a forest, by the piece of work that they belong to: a request as one server saw it, or a root."""

    head_of: list[int]
    """Position of the first span of each span's unit."""
    judge_of: Mapping[int, int]
    """The head of the unit that has the last word on each unit, by head; -1 where none has."""
    outermost: Sequence[int]
    """The heads whose status says whether all beneath them failed: servers beneath no other within their label, and
    roots, unless these are calls."""


def units_of(forest: Forest, labels: Sequence[Hashable], heard: Iterable[Witness]) -> Units:
    """Part `forest` into units, each within one label, and find who has the last word on each."""
    head_of: list[int] = []
    for position, (span, parent) in enumerate(zip(forest.spans, forest.parents, strict=True)):
        starts = parent < 0 or span.kind is SpanKind.SERVER or labels[parent] != labels[position]
        head_of.append(position if starts else head_of[parent])
    with_failures = {head_of[witness.position] for witness in heard}
    naming = {witness.position for witness in heard if witness.own_id is not None}
    judge_of: dict[int, int] = {}
    outermost: list[int] = []
    for position, head in enumerate(head_of):
        if position != head:
            continue
        parent, span = forest.parents[head], forest.spans[head]
        unit_above = -1 if parent < 0 or labels[parent] != labels[head] else head_of[parent]
        above = judge_of.get(unit_above, -1)
        is_server = span.kind is SpanKind.SERVER
        speaks = head in naming or (is_server and head in with_failures)
        judge_of[head] = above if above >= 0 or not speaks else head
        if is_server:
            # A unit that is no server's is the first of its label, so nothing is above it in turn.
            is_outermost = unit_above < 0 or forest.spans[unit_above].kind is not SpanKind.SERVER
        else:
            is_outermost = not span.parent_id and span.kind not in _CALLS
        if is_outermost:
            outermost.append(head)
    return Units(head_of, judge_of, outermost)


def outcome(heard: Sequence[Witness], units: Units, events: Mapping[str, FailureEvent]) -> Witness | None:
    """Return the one of `heard` that names the failure which all ended with, or None.

    Of several, one whose failure caused another's gives way to it; of those that remain, the one that ended last
    counts.
    """
    naming = [witness for witness in heard if witness.own_id is not None and _has_a_say(witness, units)]
    causes: set[str] = set()
    for witness in naming:
        event = events.get(witness.own_id or "")
        while event is not None and event.cause_id is not None and event.cause_id not in causes:
            causes.add(event.cause_id)
            event = events.get(event.cause_id)
    last = [witness for witness in naming if witness.own_id not in causes] or naming
    return max(last, key=lambda witness: (witness.span.end_ns, -witness.position), default=None)


def broken(outermost: Iterable[Span]) -> SpanRecord | None:
    """Return the last of `outermost` whose status is an error, whatever it was; None where all went well."""
    errors = (record for record in map(whole, outermost) if record.status is SpanStatus.ERROR)
    return max(errors, key=lambda record: record.end_ns, default=None)


def _has_a_say(witness: Witness, units: Units) -> bool:
    judge = units.judge_of[units.head_of[witness.position]]
    return judge in {-1, witness.position}
