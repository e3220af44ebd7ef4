"""What differs between the failures of two runs."""

import enum
from collections.abc import Sequence
from typing import NamedTuple

from gym_failures.cli.tally import Example, Key, Tally


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
    examples: Sequence[Example]
    """Some of those after; of what is gone, some of those before. Each of another rollout."""


def changes(was: Tally, now: Tally) -> list[Change]:
    """Return what changed, the worst first: what is new, what rose most, what fell most, what is gone."""
    found = []
    for key in {*was.cells, *now.cells}:
        one, other = was.cells[key], now.cells[key]
        if one != other:
            way = Way.NEW if not one else Way.GONE if not other else Way.ROSE if other > one else Way.FELL
            examples = (was if way is Way.GONE else now).examples[key]
            found.append(Change(key, way, one, other, was.roots[key], now.roots[key], examples))
    order = list(Way)
    return sorted(
        found,
        key=lambda change: (
            order.index(change.way),
            -abs(change.after - change.before),
            [part or "" for part in change.key],
        ),
    )
