"""The trees that spans form, laid out so that what is under a span is a slice of a list.

Nothing here recurses: a trace can be one chain of 100,000 spans.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from operator import attrgetter
from typing import Final, NamedTuple

from gym_failures import semconv
from gym_failures.reading.model import EventRecord, Span, SpanRecord, whole

_BY_START: Final = attrgetter("start_ns", "span_id")


class Forest(NamedTuple):
    """Spans in the order in which one walks down the trees, traces one after the other, each list by that position."""

    spans: list[Span]
    parents: list[int]
    """Position of the parent; -1 where there is none, or none that was stored."""
    ends: list[int]
    """Position after the last span beneath: those beneath a span at `p` are at ``p + 1`` to ``ends[p] - 1``."""


def plant(spans: Iterable[Span]) -> Forest:
    """Lay out `spans`, given in any order; the result depends on what they are, not on that order.

    A span that was delivered twice is one. Parents that go round in a circle are broken up at the earliest span.
    """
    forest = Forest([], [], [])
    traces = [sorted(trace.values(), key=_BY_START) for trace in _traces(spans).values()]
    for trace in sorted(traces, key=lambda trace: (trace[0].start_ns, trace[0].trace_id)):
        _lay_out(trace, forest)
    forest.ends.extend(range(1, len(forest.spans) + 1))
    for position in reversed(range(len(forest.spans))):
        parent = forest.parents[position]
        if parent >= 0 and forest.ends[parent] < forest.ends[position]:
            forest.ends[parent] = forest.ends[position]
    return forest


def _traces(spans: Iterable[Span]) -> dict[str, dict[str, Span]]:
    """Return the spans of each trace by their ids."""
    traces: dict[str, dict[str, Span]] = {}
    copied: dict[tuple[str, str], list[SpanRecord]] = {}
    for span in spans:
        trace = traces.get(span.trace_id)
        if trace is None:
            traces[span.trace_id] = {span.span_id: span}
        elif span.span_id in trace:
            copies = copied.setdefault((span.trace_id, span.span_id), [])
            copies += (whole(span),) if copies else (whole(trace[span.span_id]), whole(span))
        else:
            trace[span.span_id] = span
    for (trace_id, span_id), copies in copied.items():
        traces[trace_id][span_id] = _merged(sorted(copies, key=_by_end))
    return traces


def _lay_out(trace: list[Span], forest: Forest) -> None:
    ids = {span.span_id for span in trace}
    children: dict[str | None, list[Span]] = {}
    tops: list[Span] = []
    for span in trace:
        if span.parent_id not in ids:
            tops.append(span)
        elif (siblings := children.get(span.parent_id)) is None:
            children[span.parent_id] = [span]
        else:
            siblings.append(span)
    _walk_down(tops, children, ids, forest)
    if ids:  # no top leads to these: they are in circles, or beneath one
        for span in trace:
            _walk_down([span], children, ids, forest)


def _walk_down(tops: list[Span], children: Mapping[str | None, list[Span]], left: set[str], forest: Forest) -> None:
    """Place those of `tops` and of all beneath them that are left, and take them from what is left."""
    spans, parents, _ = forest
    to_do = [(top, -1) for top in reversed(tops)]
    while to_do:
        span, parent = to_do.pop()
        if span.span_id not in left:
            continue
        left.remove(span.span_id)
        beneath = children.get(span.span_id)
        if beneath is not None:
            position = len(spans)
            to_do.extend([(child, position) for child in reversed(beneath)])
        spans.append(span)
        parents.append(parent)


def _by_end(span: SpanRecord) -> tuple[int, str]:
    """Put copies in the order of their ends; those of one end in any order that is not the one they came in."""
    return span.end_ns, repr(span)


def _merged(copies: Sequence[SpanRecord]) -> SpanRecord:
    """Return copies of a span as one: the one that ended last knows best, and no copy's events are lost."""
    attributes: dict[str, object] = {}
    for copy in copies:
        attributes.update(copy.attributes)
    events: list[EventRecord] = []
    known: set[tuple[str, int, str]] = set()
    for copy in reversed(copies):
        events += (event for event in copy.events if _identity(event) not in known)
        known.update(map(_identity, copy.events))
    return replace(
        copies[-1],
        attributes=attributes,
        events=events,
        dropped_events=max(copy.dropped_events for copy in copies),
        dropped_attributes=max(copy.dropped_attributes for copy in copies),
    )


def _identity(event: EventRecord) -> tuple[str, int, str]:
    """Return what two copies of an event have in common, and two failures of one moment have not."""
    return event.name, event.time_ns, repr(event.attributes.get(semconv.FAILURE_ID))
