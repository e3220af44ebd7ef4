"""The trees that spans form, laid out so that what is under a span is a slice of a list.

Nothing here recurses: a trace can be one chain of 100,000 spans.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import NamedTuple

from gym_failures.reading.model import EventRecord, SpanRecord


class Forest(NamedTuple):
    """Spans in the order in which one walks down the trees, traces one after the other, each list by that position."""

    spans: list[SpanRecord]
    parents: list[int]
    """Position of the parent; -1 where there is none, or none that was stored."""
    ends: list[int]
    """Position after the last span beneath: those beneath a span at `p` are at ``p + 1`` to ``ends[p] - 1``."""


def plant(spans: Iterable[SpanRecord]) -> Forest:
    """Lay out `spans`, given in any order; the result depends on what they are, not on that order.

    A span that was delivered twice is one. Parents that go round in a circle are broken up at the earliest span.
    """
    ordered = sorted(_distinct(spans), key=lambda span: (span.start_ns, span.trace_id, span.span_id))
    index_of = {(span.trace_id, span.span_id): index for index, span in enumerate(ordered)}
    children: list[list[int]] = [[] for _ in ordered]
    roots: dict[str, list[int]] = {}
    of_trace: dict[str, list[int]] = {}
    for index, span in enumerate(ordered):
        parent = None if span.parent_id is None else index_of.get((span.trace_id, span.parent_id))
        of_trace.setdefault(span.trace_id, []).append(index)
        if parent is None:
            roots.setdefault(span.trace_id, []).append(index)
        else:
            children[parent].append(index)
    forest = Forest([], [], [])
    placed = [False] * len(ordered)
    for trace_id, indexes in of_trace.items():
        # After the true roots come all others, for those that no root leads to: they are in circles.
        for root in (*roots.get(trace_id, ()), *indexes):
            if not placed[root]:
                _place(root, ordered, children, placed, forest)
    return forest


def _place(root: int, ordered: list[SpanRecord], children: list[list[int]], placed: list[bool], forest: Forest) -> None:
    above: list[int] = []
    to_do = [root]
    while to_do:
        index = to_do.pop()
        if index < 0:  # all beneath the last one above is placed
            forest.ends[above.pop()] = len(forest.spans)
            continue
        if placed[index]:
            continue
        placed[index] = True
        position = len(forest.spans)
        forest.spans.append(ordered[index])
        forest.parents.append(above[-1] if above else -1)
        forest.ends.append(position)
        above.append(position)
        to_do.append(-1)
        to_do.extend(reversed(children[index]))


def _distinct(spans: Iterable[SpanRecord]) -> Iterator[SpanRecord]:
    found: dict[tuple[str, str], SpanRecord] = {}
    for span in spans:
        key = (span.trace_id, span.span_id)
        before = found.get(key)
        found[key] = span if before is None else _merged(before, span)
    return iter(found.values())


def _merged(one: SpanRecord, other: SpanRecord) -> SpanRecord:
    """Return two copies of a span as one: the one that ended later knows better, and neither's events are lost."""
    later, earlier = (one, other) if one.end_ns >= other.end_ns else (other, one)
    return replace(
        later,
        attributes={**earlier.attributes, **later.attributes},
        events=_all_events(later, earlier),
        dropped_events=max(one.dropped_events, other.dropped_events),
        dropped_attributes=max(one.dropped_attributes, other.dropped_attributes),
    )


def _all_events(later: SpanRecord, earlier: SpanRecord) -> list[EventRecord]:
    known = {(event.name, event.time_ns) for event in later.events}
    return [*later.events, *(event for event in earlier.events if (event.name, event.time_ns) not in known)]
