"""Spans to failure reports: by trace, by request or by rollout."""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Literal, NamedTuple, get_args

from gym_failures.reading.forest import Forest, plant
from gym_failures.reading.model import Span, SpanKind, SpanRecord
from gym_failures.reading.outcome import Units, units_of
from gym_failures.reading.rebuilt import Group, RebuiltReport, report_of
from gym_failures.reading.rollouts import rollouts_of
from gym_failures.reading.runs import told_apart
from gym_failures.reading.sdk import from_readable_span
from gym_failures.reading.witness import Witness, witnesses

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan

By = Literal["trace", "request", "rollout"]


class _Label(NamedTuple):
    """What the spans of one report have in common."""

    key: str | None
    apart: str | None = None
    """Tells apart what has no key, and what has the same."""


def rebuild(spans: "Iterable[SpanRecord | ReadableSpan]", *, by: By = "trace") -> list[RebuiltReport]:
    """Return a report of each trace, request or rollout in which anything failed, the earliest first.

    Spans are records (`SpanRecord`) or the SDK's own, in any order, and may come twice. A request is a server's span
    and what is beneath it, so the requests that it made in turn have reports of their own. What failed beneath no
    server's span is reported with the first span above it. A span belongs to the rollout that is named on it or nearest
    above, or to the only one named beneath it. A rollout of the same id in another run is another one: it has a span
    `gym.rollout` in another trace, which holds all that was done meanwhile, or its processes name another run.

    Raises ValueError when `by` is none of the three, and TypeError for what is no span. Takes time in proportion to the
    spans and to what is returned.
    """
    return rebuild_stored((span if isinstance(span, SpanRecord) else from_readable_span(span) for span in spans), by=by)


def checked(by: By) -> By:
    """Return `by`; raises ValueError where it is none of the three."""
    if by not in get_args(By):
        raise ValueError(f"by is {by!r}, and not one of {', '.join(get_args(By))}")
    return by


def rebuild_stored(spans: Iterable[Span], *, by: By) -> list[RebuiltReport]:
    """Do what `rebuild` does, with spans some of which are not read as a whole."""
    checked(by)
    forest = plant(spans)
    heard = list(witnesses(forest.spans))
    labels = _rollout_labels(forest) if by == "rollout" else _trace_labels(forest)
    units = units_of(forest, labels, heard)
    groups = _requests(forest, heard, units) if by == "request" else _labelled(forest, heard, labels, units)
    return [report_of(group, units) for group in groups]


def _trace_labels(forest: Forest) -> list[_Label]:
    labels = {trace_id: _Label(trace_id) for trace_id in {span.trace_id for span in forest.spans}}
    return [labels[span.trace_id] for span in forest.spans]


def _rollout_labels(forest: Forest) -> list[_Label]:
    """Label by rollout, across the traces of one run; what belongs to no known rollout stays apart by trace."""
    rollouts = rollouts_of(forest)
    labels = {key: _Label(key[0], apart) for key, apart in told_apart(forest, rollouts).items()}
    return [labels[rollout, span.trace_id] for rollout, span in zip(rollouts, forest.spans, strict=True)]


def _labelled(forest: Forest, heard: Iterable[Witness], labels: Sequence[_Label], units: Units) -> Iterator[Group]:
    first: dict[_Label, Span] = {}
    dropped: defaultdict[_Label, int] = defaultdict(int)
    for span, label in zip(forest.spans, labels, strict=True):
        first.setdefault(label, span)
        dropped[label] += span.dropped_events
    together: defaultdict[_Label, list[Witness]] = defaultdict(list)
    for witness in heard:
        together[labels[witness.position]].append(witness)
    outermost: defaultdict[_Label, list[Span]] = defaultdict(list)
    for head in units.outermost:
        outermost[labels[head]].append(forest.spans[head])
    for label, group in together.items():
        yield Group(label.key, first[label], group, outermost[label], dropped[label])


def _requests(forest: Forest, heard: Sequence[Witness], units: Units) -> Iterator[Group]:
    positions = [witness.position for witness in heard]
    with_failures = {units.head_of[position] for position in positions}
    dropped = list(accumulate((span.dropped_events for span in forest.spans), initial=0))
    for position, (span, parent, end) in enumerate(zip(*forest, strict=True)):
        is_request = span.kind is SpanKind.SERVER
        if not is_request and (parent >= 0 or position not in with_failures):
            continue
        beneath = heard[bisect_left(positions, position) : bisect_left(positions, end)]
        if not beneath:
            continue
        if is_request:
            outermost = [span]
        else:
            heads = units.outermost[bisect_left(units.outermost, position) : bisect_left(units.outermost, end)]
            outermost = [forest.spans[head] for head in heads]
        lost = dropped[end] - dropped[position]
        yield Group(span.span_id, span, beneath, outermost, lost, position if is_request else None)
