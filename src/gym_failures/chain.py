"""From a raised exception to linked failure events.

Only ``raise ... from ...`` links two failures. An exception counts as a failure of Gym's vocabulary by its shape (it
has ``failure_kind`` and ``boundary``), so upstream's own exceptions are understood without importing them; every other
one is foreign, and becomes the ``foreign_error`` of the failure that was raised from it.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from gym_failures import limits, selfmetrics
from gym_failures.classify import Rule, classify
from gym_failures.guard import warn_once
from gym_failures.ids import new_id
from gym_failures.kinds import FailureBoundary, FailureStage
from gym_failures.links import Link, links_of
from gym_failures.making import crossing_event, foreign_event, shaped_event
from gym_failures.marks import REMOTE, Mark, cause_of, is_of_no_log, mark_of, members_of, set_mark
from gym_failures.records import FailureEvent
from gym_failures.shapes import shape_of
from gym_failures.text import clean, cut, text_of, wire_id

_Chain = tuple[FailureEvent, ...]
"""A failure, its cause, that one's cause and so on."""


class Carried(NamedTuple):
    """What is known of the reply that an exception was made of."""

    mark: Mark
    """The failure of the reply: what it reported, or what was observed of it here."""
    omitted: bool
    """Whether the reply said that events are missing."""


class Failures(NamedTuple):
    """The failures that one exception stands for."""

    own: FailureEvent | None
    """The failure of the exception itself; None when it has none and no boundary was given."""
    events: tuple[FailureEvent, ...]
    """Every event, each once, the own failure last."""
    fresh: tuple[Mark, ...]
    """Marks whose first event nobody has recorded yet, causes before effects."""
    known: tuple[Mark, ...]
    """Marks that somebody has recorded, each once."""
    shared: bool
    """Whether the exception is already marked by another request, so that the caller has to remember `own` itself."""
    omitted: bool
    """Whether failures are missing, because a bound left them out or a reply says so."""
    dropped: int
    """Failures among the causes and the members of groups that a bound left out."""


def failures_of(  # noqa: PLR0913 - the fields of the event that the observer knows
    error: BaseException,
    *,
    boundary: FailureBoundary | None = None,
    stage: FailureStage | str | None = None,
    operation: str | None = None,
    operation_id: str | None = None,
    attempt_id: str | None = None,
    rules: Sequence[Rule] = (),
    carried: Callable[[BaseException], Carried | None] | None = None,
    owner: str | None = None,
) -> Failures:
    """Build the events of `error` and of its explicit causes, and mark each exception with its own.

    `boundary` is where the caller observed it. A failure of another boundary, or of another process, becomes the cause
    of a new event at `boundary`. With None, nothing is invented: foreign exceptions alone give no event. `carried`
    finds what is known of the reply that a client library made an exception of. `owner` is the token of the asking log:
    events that it has recorded at the same boundary are returned as they are; None takes every mark as it is. A `stage`
    that does not exist is warned about and left out.
    """
    context: dict[str, Any] = {}
    part = stage if stage is None or isinstance(stage, FailureStage) else _stage_called(stage)
    if part is not None:
        context["stage"] = part
    if operation is not None:
        context["operation"] = cut(clean(operation), limits.NAME_LENGTH)
    if operation_id is not None:
        context["operation_id"] = wire_id(operation_id)
    if attempt_id is not None:
        context["attempt_id"] = wire_id(attempt_id)
    walk = _Walk(boundary, part, context, rules, carried, owner)
    chain = walk.observe(error)
    own = chain[0] if chain else None
    events = tuple(event for event in walk.events.values() if event is not own)
    return Failures(
        own=own,
        events=events if own is None else (*events, own),
        fresh=tuple(walk.fresh),
        known=tuple(walk.known),
        shared=walk.shared,
        omitted=walk.omitted or walk.dropped > 0,
        dropped=walk.dropped,
    )


def _stage_called(name: str) -> FailureStage | None:
    """Return the stage of that name; a wrong one costs its own field, not the failure."""
    try:
        return FailureStage(name)
    except ValueError:
        warn_once(
            "stage",
            "there is no stage %s; the failure is recorded without one",
            cut(text_of(name), limits.KIND_LENGTH_LOGGED),
        )
        selfmetrics.dropped(selfmetrics.Loss.INVALID_FIELD)
        return None


@dataclass(slots=True)
class _Walk:
    """One pass over an exception, its explicit causes and the members of its groups, within the bounds."""

    boundary: FailureBoundary | None
    stage: FailureStage | None
    context: Mapping[str, Any]
    rules: Sequence[Rule]
    carried: Callable[[BaseException], Carried | None] | None
    owner: str | None
    events: dict[str, FailureEvent] = field(default_factory=dict)
    fresh: list[Mark] = field(default_factory=list)
    known: list[Mark] = field(default_factory=list)
    shared: bool = False
    omitted: bool = False
    """Whether a reply says that failures are missing."""
    dropped: int = 0
    _active: set[int] = field(default_factory=set)
    """Ids of the exceptions between the first one and the one that is looked at: meeting one again is a cycle."""
    _kinds: dict[int, set[str | None]] = field(default_factory=dict)
    """By the id of a group: the kinds of its leaves, None for a leaf that is no failure of the group's boundary."""
    _members: int = 0
    _group_links: int = limits.GROUP_LINKS
    """Exceptions that may still be followed from members of groups, besides the few that each has."""
    _group_depth: int = 0

    def observe(self, error: BaseException) -> _Chain:
        """Return the chain of `error` as seen at this walk's boundary."""
        chain, foreign = self._chain(error, self.boundary)
        if self.boundary is None:
            return chain
        if foreign:
            retold = self._retold(foreign, self.boundary)
            if retold is not None:
                set_mark(error, retold)
                return self._take(retold)
            return self._foreign(foreign, self.boundary, chain)
        mark = mark_of(error)
        if mark is None:
            return chain
        first = mark.events[0]
        if first.boundary is self.boundary and (self.owner is None or self._is_own(mark)):
            return chain
        elsewhere = mark.owner != REMOTE and not self._is_own(mark)
        if elsewhere and first.boundary is self.boundary:
            event = first.model_copy(update={**self.context, "event_id": new_id(), "cause_id": first.event_id})
        else:
            event = crossing_event(
                error, first, boundary=self.boundary, is_told=mark.owner == REMOTE, context=self.context,
                rules=self.rules,
            )  # fmt: skip
        self.shared = elsewhere
        return self._mark(error, event, chain, leave=not elsewhere)

    def _chain(self, error: BaseException, boundary: FailureBoundary | None) -> tuple[_Chain, list[BaseException]]:
        """Return the events of the nearest failure at or below `error`, and the foreign exceptions above it.

        `boundary` is that of the nearest failure above, where foreign members of groups become failures.
        """
        most = max(self._group_links, limits.CHAIN_LINKS) if self._group_depth else math.inf
        links = links_of(error, boundary, active=self._active, is_known=self._is_carried, most=most)
        if self._group_depth:
            self._group_links -= len(links.all)
        self.dropped += links.dropped
        chain, foreign = self._chain_of(links.last, (), [])
        if links.dropped:
            foreign = []  # what a failure in the gap was raised from
        chain, foreign = self._chain_of(links.first, chain, foreign)
        self._active.difference_update(id(link.error) for link in links.all)
        return chain, foreign

    def _chain_of(
        self, links: Sequence[Link], chain: _Chain, foreign: list[BaseException]
    ) -> tuple[_Chain, list[BaseException]]:
        """Put exceptions on top of the chain, and of the foreign exceptions above it, that the last was raised from."""
        for node, outer in reversed(links):
            mark = mark_of(node)
            if mark is not None:
                self._members_of(node, None, ())  # those that were recorded with it
                chain, foreign = self._take(mark), []
            elif (shape := shape_of(node)) is not None:
                chain, foreign = self._shaped(node, shape, chain, foreign), []
            else:
                chain = self._members_of(node, outer, chain)
                foreign = [node, *foreign]
        return chain, foreign

    def _is_carried(self, error: BaseException) -> bool:
        """Mark an exception with the failure that is known of the reply it was made of, if one is."""
        carried = None if self.carried is None else self.carried(error)
        if carried is None:
            return False
        self.omitted = self.omitted or carried.omitted
        set_mark(error, carried.mark)
        return True

    def _members_of(self, group: BaseException, boundary: FailureBoundary | None, chain: _Chain) -> _Chain:
        """Build the events of a group's leaves; the first one is the group's cause unless it has one already.

        An exception that is no group has none. A group within a group is no failure of its own, only its leaves are.
        """
        members = members_of(group)
        kinds = self._kinds.setdefault(id(group), set())
        if members and self._group_depth >= limits.GROUP_DEPTH:
            self.dropped += len(members)
            return chain
        self._group_depth += 1
        for index, member in enumerate(members):
            if self._members >= limits.GROUP_MEMBERS:
                self.dropped += len(members) - index
                break
            self._members += 1
            below, foreign = self._chain(member, boundary)
            if members_of(member):
                kinds |= self._kinds.get(id(member), {None})
            else:
                if foreign and boundary is not None:
                    below = self._foreign(foreign, boundary, below)
                kinds.add(below[0].failure_kind if below and below[0].boundary is boundary else None)
            chain = chain or below
        self._group_depth -= 1
        return chain

    def _retold(self, foreign: Sequence[BaseException], boundary: FailureBoundary) -> Mark | None:
        """Return the mark of the failure that some libraries' errors only tell again, each raised from the next.

        An SDK raises an error of its own from that of the client beneath it. When the client's was recorded at this
        boundary, and means the same kind, the SDK's is no second failure.
        """
        below = cause_of(foreign[-1])
        mark = None if below is None else mark_of(below)
        if mark is None or mark.events[0].boundary is not boundary or not self._is_own(mark):
            return None
        kind = mark.events[0].failure_kind
        found = (classify(node, boundary=boundary, stage=self.stage, rules=self.rules) for node in foreign)
        return mark if all(one.foreign_error is not None and one.kind == kind for one in found) else None

    def _foreign(self, foreign: Sequence[BaseException], boundary: FailureBoundary, chain: _Chain) -> _Chain:
        """Make and mark the event of the outermost of some foreign exceptions, each raised from the next."""
        kind = next(filter(None, map(self._kind_of_members, foreign)), None)
        event = foreign_event(
            foreign, boundary=boundary, members_kind=kind, cause=chain[0] if chain else None,
            context=self.context, rules=self.rules,
        )  # fmt: skip
        return self._mark(foreign[0], event, chain)

    def _kind_of_members(self, error: BaseException) -> str | None:
        """Return the one kind that all leaves of a group have at its boundary, if they agree."""
        kinds = self._kinds.get(id(error), set())
        return next(iter(kinds)) if len(kinds) == 1 else None

    def _shaped(
        self,
        error: BaseException,
        shape: tuple[str, FailureBoundary],
        chain: _Chain,
        foreign: Sequence[BaseException],
    ) -> _Chain:
        """Make and mark the event of an exception that has a failure's fields."""
        event = shaped_event(
            error, shape, foreign=foreign, cause=chain[0] if chain else None, context=self.context, rules=self.rules
        )
        for index, below in enumerate(chain):
            if below.event_id == event.event_id:  # raised again from itself: one id names one record
                return self._mark(error, below, chain[index + 1 :])
        return self._mark(error, event, chain)

    def _take(self, mark: Mark) -> _Chain:
        for event in reversed(mark.events):
            self.events.setdefault(event.event_id, event)
        marks = self.fresh if mark.owner is None else self.known
        if mark not in marks:
            marks.append(mark)
        return mark.events

    def _is_own(self, mark: Mark) -> bool:
        """Tell whether what `mark` stands for is the asking log's own to record, or recorded by it already.

        What was recorded where there was no log is every log's: an executor's thread has none unless it was bound, and
        when its exception gets to the request that waits for it, it is the same failure.
        """
        return mark.owner in {None, self.owner} or (is_of_no_log(mark.owner) and not is_of_no_log(self.owner))

    def _mark(self, error: BaseException, event: FailureEvent, chain: _Chain, *, leave: bool = True) -> _Chain:
        if len(chain) >= limits.CHAIN_LINKS:  # else a loop that raises each error from the last leaves ever larger ones
            chain = (*chain[: limits.CHAIN_LINKS - 2], chain[-1])
        mark = Mark((event, *chain))
        if leave:
            set_mark(error, mark)
        return self._take(mark)
