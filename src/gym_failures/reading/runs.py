"""Which traces that name one rollout are of the same run.

NeMo Gym gives rollouts the same ids in every run, folders keep the traces of all runs, and servers outlive a run. So
an id alone ties nothing together. What does is the time of the rollout, which the collection client's span tells.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from operator import attrgetter
from typing import Final

from gym_failures import semconv
from gym_failures.fields import as_text
from gym_failures.reading.forest import Forest
from gym_failures.reading.model import whole
from gym_failures.reading.rollouts import named_rollout

ROW_SPAN_NAME: Final = "rollout"
"""Name of the span that stands for a saved row."""

_WHOLE: Final = frozenset({semconv.ROLLOUT_SPAN_NAME, ROW_SPAN_NAME})
"""Names of spans that are a rollout from its beginning to its end; a run has one for each id."""

_BY_START: Final = attrgetter("start_ns")


@dataclass(slots=True)
class _Part:
    """What one trace has of a rollout."""

    trace_id: str
    start_ns: int
    end_ns: int
    is_whole: bool = False
    """Whether a span of it is the rollout."""
    run: str | None = None
    """The run that a process of it says it is of; servers say so of all runs that they serve."""


def told_apart(forest: Forest, rollouts: Sequence[str | None]) -> dict[tuple[str | None, str], str | None]:
    """Return for each rollout's id, and each trace that has spans of it, what tells it from other rollouts of that id.

    `rollouts` has the id for each span of `forest`, by position. A trace with the rollout's own span is told by its id.
    Any other trace goes with the rollout in whose time it was; where there is none, with those whose processes name the
    same run, or no run.
    """
    keys = {(rollout, span.trace_id) for rollout, span in zip(rollouts, forest.spans, strict=True)}
    apart = {(rollout, trace_id): trace_id if rollout is None else None for rollout, trace_id in keys}
    several = frozenset(
        rollout for rollout, number in Counter(key[0] for key in keys).items() if number > 1 and rollout
    )
    for rollout, parts in _parts(forest, rollouts, several).items():
        for trace_id, told in _told(parts).items():
            apart[rollout, trace_id] = told
    return apart


def _parts(forest: Forest, rollouts: Sequence[str | None], wanted: frozenset[str]) -> Mapping[str, Mapping[str, _Part]]:
    """Return what each trace has of the wanted rollouts, by rollout and trace."""
    parts: dict[str, dict[str, _Part]] = {rollout: {} for rollout in wanted}
    for rollout, span in zip(rollouts, forest.spans, strict=True):
        if rollout is None or rollout not in wanted:
            continue
        part = parts[rollout].setdefault(span.trace_id, _Part(span.trace_id, span.start_ns, span.end_ns))
        part.start_ns = min(part.start_ns, span.start_ns)
        part.end_ns = max(part.end_ns, span.end_ns, span.start_ns)  # of a line in a log there is no end
        if named_rollout(span) is not None:
            record = whole(span)
            part.is_whole |= record.name in _WHOLE
            part.run = part.run or as_text(record.resource.get(semconv.NEMO_RUN_ID))
    return parts


def _longer(one: _Part, other: _Part) -> _Part:
    return other if other.end_ns > one.end_ns else one


def _told(parts: Mapping[str, _Part]) -> dict[str, str | None]:
    wholes = sorted((part for part in parts.values() if part.is_whole), key=_BY_START)
    # Of all that began until then, the one that ended last; runs at the same time cannot be told apart by time.
    longest = [*accumulate(wholes, _longer)]
    told: dict[str, str | None] = {}
    for trace_id, part in parts.items():
        begun = bisect_right(wholes, part.end_ns, key=_BY_START)
        around = longest[begun - 1] if begun else None
        if part.is_whole:
            told[trace_id] = trace_id
        elif around is not None and around.end_ns >= part.start_ns:
            told[trace_id] = around.trace_id
        else:
            told[trace_id] = None if part.run is None else f"run {part.run}"
    return told
