"""Which failure a trace or a rollout ended with, as far as its spans tell.

A server's span says how its request ended, and that outweighs everything beneath: what failed there was recovered from.
A span of anything else, such as a client that knows nothing of this package, outweighs nothing unless it names a
failure of its own.
"""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import NamedTuple

from gym_failures.reading.forest import Forest
from gym_failures.reading.model import SpanKind
from gym_failures.reading.witness import Witness
from gym_failures.records import FailureEvent


class Units(NamedTuple):
    """The spans of a forest, by the piece of work that they belong to: a request as one server saw it, or a root."""

    head_of: list[int]
    """Position of the first span of each span's unit."""
    judge_of: Mapping[int, int]
    """The head of the unit that has the last word on each unit, by head; -1 where none has."""


def units_of(forest: Forest, labels: Sequence[Hashable], heard: Iterable[Witness]) -> Units:
    """Part `forest` into units, each within one label, and find who has the last word on each."""
    head_of: list[int] = []
    for position, (span, parent) in enumerate(zip(forest.spans, forest.parents, strict=True)):
        starts = parent < 0 or span.kind is SpanKind.SERVER or labels[parent] != labels[position]
        head_of.append(position if starts else head_of[parent])
    with_failures = {head_of[witness.position] for witness in heard}
    naming = {witness.position for witness in heard if witness.own_id is not None}
    judge_of: dict[int, int] = {}
    for position, head in enumerate(head_of):
        if position != head:
            continue
        parent = forest.parents[head]
        above = -1 if parent < 0 or labels[parent] != labels[head] else judge_of[head_of[parent]]
        speaks = head in naming or (forest.spans[head].kind is SpanKind.SERVER and head in with_failures)
        judge_of[head] = above if above >= 0 or not speaks else head
    return Units(head_of, judge_of)


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


def _has_a_say(witness: Witness, units: Units) -> bool:
    judge = units.judge_of[units.head_of[witness.position]]
    return judge in {-1, witness.position}
