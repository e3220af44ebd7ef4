"""Which of the exceptions that one was raised from are looked at.

A loop that tries again and raises each error from the last makes a chain as long as it runs. What began it stands at
the end, so the chain is followed to its end, at a few microseconds an exception, and bounded in the middle. Only among
the members of groups, which may all be raised from one such chain, there is an end to it.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

from gym_failures import limits
from gym_failures.kinds import FailureBoundary
from gym_failures.marks import REMOTE, Mark, cause_of, mark_of, members_of
from gym_failures.shapes import shape_of


class Link(NamedTuple):
    """One exception of a chain."""

    error: BaseException
    boundary: FailureBoundary | None
    """Where the nearest failure above it was observed, and so the foreign members of a group that it is; None below one
    that is marked, for what is below was recorded with it, and nothing new comes of it."""


class Links(NamedTuple):
    """A chain of exceptions, outermost first, and what is passed over in its middle."""

    all: list[Link]
    first: list[Link]
    """Those to look at above the gap; all of them, if there is none."""
    last: list[Link]
    """Those to look at beneath the gap, down to the one that everything began with."""
    dropped: int
    """Failures in the gap; those among them that are no failures by themselves are not missed."""


def links_of(
    error: BaseException,
    boundary: FailureBoundary | None,
    *,
    active: set[int],
    is_known: Callable[[BaseException], bool],
    most: float = math.inf,
) -> Links:
    """Follow `error` through its explicit causes, to the end or to one whose id is in `active`, which gets all of them.

    Of a chain of which nothing was recorded at most `most` are followed; all beyond count as one failure in the gap.
    What was recorded knows its causes, so from the first marked one on, and from the first that `is_known` marks, only
    `limits.CHAIN_LINKS` are followed, for members of groups that were recorded with it, and none from where a gap was
    then. Of more than so many above it, the first half and the last is looked at.
    """
    found: list[Link] = []
    known: int | None = None
    above: Mark | None = None
    node: BaseException | None = error
    while node is not None and id(node) not in active and len(found) < most:
        mark, shape = mark_of(node), shape_of(node)
        if mark is None and shape is not None and _had_causes(above):
            break
        active.add(id(node))
        found.append(Link(node, boundary))
        if known is None and (mark is not None or is_known(node)):
            known = len(found) - 1
            most = known + limits.CHAIN_LINKS
        if mark is not None:
            boundary, above = None, mark
        elif shape is not None:
            boundary = shape[1]
        node = cause_of(node)
    new = len(found) if known is None else known
    beyond = int(known is None and node is not None and id(node) not in active)
    if new <= limits.CHAIN_LINKS:
        return Links(found, found, [], beyond)
    half = limits.CHAIN_LINKS // 2
    gap = found[half : new - half]
    return Links(found, found[:half], found[new - half :], beyond + sum(_failures_in(link.error) for link in gap))


def _had_causes(mark: Mark | None) -> bool:
    """Tell whether an exception was recorded here with what it was raised from, as far as that was looked at."""
    return mark is not None and mark.owner != REMOTE and len(mark.events) > 1


def _failures_in(error: BaseException) -> int:
    """Return how many failures an exception stands for, not counting the one that a run of foreign ones makes."""
    return len(members_of(error)) if shape_of(error) is None else 1
