"""What differs between the failures of two runs."""

import enum
from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from gym_failures import limits
from gym_failures.cli.seen import Seen, failures_in
from gym_failures.cli.tally import Field, Key, key_of, tally
from gym_failures.reading import RebuiltReport


class Way(enum.StrEnum):
    """How a number changed; in the order in which changes matter."""

    NEW = "new"
    ROSE = "rose"
    FELL = "fell"
    GONE = "gone"


WORSE = frozenset({Way.NEW, Way.ROSE})


class Change(NamedTuple):
    """How often something failed in two runs, if not equally often."""

    key: Key
    way: Way
    before: int
    after: int
    root_causes_before: int
    root_causes_after: int
    examples: Sequence[Seen]
    """Some of those after; of what is gone, some of those before. Each of another rollout."""


def changes(before: Sequence[RebuiltReport], after: Sequence[RebuiltReport], by: Sequence[Field]) -> list[Change]:
    """Return what changed, the worst first: what is new, what rose most, what fell most, what is gone."""
    was, now = tally(before, by=by), tally(after, by=by)
    examples_before, examples_after = _examples(before, by), _examples(after, by)
    found = []
    for key in {*was.cells, *now.cells}:
        one, other = was.cells[key], now.cells[key]
        if one != other:
            way = Way.NEW if not one else Way.GONE if not other else Way.ROSE if other > one else Way.FELL
            examples = examples_before if way is Way.GONE else examples_after
            found.append(Change(key, way, one, other, was.roots[key], now.roots[key], examples[key]))
    order = list(Way)
    return sorted(
        found,
        key=lambda change: (
            order.index(change.way),
            -abs(change.after - change.before),
            [part or "" for part in change.key],
        ),
    )


def _examples(reports: Sequence[RebuiltReport], by: Sequence[Field]) -> dict[Key, list[Seen]]:
    examples: defaultdict[Key, list[Seen]] = defaultdict(list)
    rollouts: set[tuple[Key, str]] = set()
    for seen in failures_in(reports).seen:
        key = key_of(seen, by)
        rollout = (key, seen.key or seen.trace_id)
        if len(examples[key]) < limits.DIFF_EXAMPLES and rollout not in rollouts:
            rollouts.add(rollout)
            examples[key].append(seen)
    return examples
