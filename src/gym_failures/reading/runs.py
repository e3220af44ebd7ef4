"""Which traces that name one rollout are of the same run.

NeMo Gym gives rollouts the same ids in every run, folders keep the traces of all runs, and servers outlive a run. So
an id alone ties nothing together. What does is the time of the rollout, which the collection client's span tells.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from operator import attrgetter
from typing import Final

from gym_failures import limits, semconv
from gym_failures.fields import as_text
from gym_failures.reading.forest import Forest
from gym_failures.reading.model import whole
from gym_failures.reading.rollouts import is_a_rollout, named_rollout

ROW_SERVICE: Final = "rollouts"
"""The service that saved rows are said to come from."""
ROW_SPAN_NAME: Final = "saved row of a rollout"
"""Name of the span that stands for a saved row."""

_SECOND: Final = 10**9
"""In nanoseconds."""
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


_Parts = Mapping[str, Mapping[str, _Part]]


def told_apart(forest: Forest, rollouts: Sequence[str | None]) -> dict[tuple[str | None, str], str | None]:
    """Return for each rollout's id, and each trace that has spans of it, what tells it from other rollouts of that id.

    `rollouts` has the id for each span of `forest`, by position. A trace with the rollout's own span is told by its id.
    Any other trace goes with the rollout in whose time it began, or else was; where there is none, with those whose
    processes name the same run, or no run. A saved row in no such trace goes with what was at its time, and where it
    says none with all there is, if that is one rollout and the row the only one; any other row is a rollout of its own.
    """
    keys = {(rollout, span.trace_id) for rollout, span in zip(rollouts, forest.spans, strict=True)}
    apart = {(rollout, trace_id): trace_id if rollout is None else None for rollout, trace_id in keys}
    several = frozenset(
        rollout for rollout, number in Counter(key[0] for key in keys).items() if number > 1 and rollout
    )
    traces, rows = _parts(forest, rollouts, several)
    for rollout in several:
        told = _told(traces[rollout])
        told |= _told_of_rows(rows[rollout], traces[rollout], told)
        apart |= {(rollout, trace_id): by for trace_id, by in told.items()}
    return apart


def _parts(forest: Forest, rollouts: Sequence[str | None], wanted: frozenset[str]) -> tuple[_Parts, _Parts]:
    """Return what each trace has of the wanted rollouts, by rollout and trace; of requests, and of saved rows."""
    parts: dict[str, dict[str, _Part]] = {rollout: {} for rollout in wanted}
    rows: dict[str, dict[str, _Part]] = {rollout: {} for rollout in wanted}
    for rollout, span in zip(rollouts, forest.spans, strict=True):
        if rollout is None or rollout not in wanted:
            continue
        record = None if named_rollout(span) is None else whole(span)
        is_row = record is not None and (record.service, record.name) == (ROW_SERVICE, ROW_SPAN_NAME)
        found = (rows if is_row else parts)[rollout]
        part = found.setdefault(span.trace_id, _Part(span.trace_id, span.start_ns, span.end_ns))
        part.start_ns = min(part.start_ns, span.start_ns)
        part.end_ns = max(part.end_ns, span.end_ns, span.start_ns)  # of a line in a log there is no end
        if record is not None:
            part.is_whole |= is_a_rollout(record)
            part.run = part.run or as_text(record.resource.get(semconv.NEMO_RUN_ID))
    return parts, rows


class _Wholes:
    """The traces with a rollout's own span, by their times."""

    def __init__(self, parts: Iterable[_Part]) -> None:
        self._by_start = sorted((part for part in parts if part.is_whole), key=_BY_START)
        # Of all that began until then, the one that ended last; runs at the same time cannot be told apart by time.
        self._longest = [*accumulate(self._by_start, _longer)]

    def around(self, start_ns: int, end_ns: int) -> _Part | None:
        """Return the one at `start_ns`, or else until `end_ns`; None where there was none."""
        for moment in (start_ns, end_ns):
            begun = bisect_right(self._by_start, moment, key=_BY_START)
            if begun and self._longest[begun - 1].end_ns >= start_ns:
                return self._longest[begun - 1]
        return None


def _longer(one: _Part, other: _Part) -> _Part:
    return other if other.end_ns > one.end_ns else one


def _told(parts: Mapping[str, _Part]) -> dict[str, str | None]:
    wholes = _Wholes(parts.values())
    told: dict[str, str | None] = {}
    for trace_id, part in parts.items():
        if part.is_whole:
            told[trace_id] = trace_id
        elif around := wholes.around(part.start_ns, part.end_ns):
            told[trace_id] = around.trace_id
        else:
            told[trace_id] = None if part.run is None else f"run {part.run}"
    return told


def _told_of_rows(
    rows: Mapping[str, _Part], parts: Mapping[str, _Part], told: Mapping[str, str | None]
) -> dict[str, str | None]:
    """Return what tells the rows that are in no trace of `parts`; `told` is what tells these."""
    wholes = _Wholes(parts.values())
    fitting: dict[str, frozenset[str | None]] = {}
    for trace_id in rows.keys() - parts.keys():
        row = rows[trace_id]
        end_ns = row.end_ns + limits.ROW_TIME * _SECOND
        if not row.end_ns:
            fitting[trace_id] = frozenset(told.values())
        elif around := wholes.around(row.start_ns, end_ns):
            fitting[trace_id] = frozenset({around.trace_id})
        else:
            near = [part for part in parts.values() if part.start_ns <= end_ns and row.start_ns <= part.end_ns]
            fitting[trace_id] = frozenset(told[part.trace_id] for part in near)
    # Two rows are not of one rollout; where either could be meant, none is.
    wanted = Counter(fitting.values())
    return {
        trace_id: next(iter(fit)) if len(fit) == 1 and wanted[fit] == 1 else trace_id
        for trace_id, fit in fitting.items()
    }
