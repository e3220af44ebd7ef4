"""From a raised exception to linked failure events.

Only ``raise ... from ...`` links two failures. An exception counts as a failure of Gym's vocabulary by its shape (it
has ``failure_kind`` and ``boundary``), so upstream's own exceptions are understood without importing them; every other
one is foreign, and becomes the ``foreign_error`` of the failure that was raised from it.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from gym_failures import limits
from gym_failures.classify import Rule, classify, default_kind
from gym_failures.ids import new_id
from gym_failures.kinds import FailureStage
from gym_failures.marks import REMOTE, Mark, mark_of, set_mark
from gym_failures.records import FailureBoundary, FailureEvent, FailureReport, SdkErrorDetails
from gym_failures.repair import chain_ids
from gym_failures.shapes import SHAPE_FIELDS, attribute, lenient_event, shape_of
from gym_failures.text import cut, type_name


class Failures(NamedTuple):
    """The failures that one exception stands for."""

    own: FailureEvent | None
    """The failure of the exception itself; None when it has none and no boundary was given."""
    events: tuple[FailureEvent, ...]
    """Every event, each once, the own failure last."""
    fresh: tuple[Mark, ...]
    """Marks whose first event nobody has recorded yet, causes before effects."""
    shared: bool
    """Whether the exception is already marked by another request, so that the caller has to remember `own` itself."""
    omitted: bool
    """Whether a bound cut causes or members of a group away."""


def explicit_causes(error: BaseException) -> Iterator[BaseException]:
    """Yield `error`, the exception it was raised from, that one's cause and so on; ends at a cycle."""
    seen: set[int] = set()
    node: BaseException | None = error
    while node is not None and id(node) not in seen:
        seen.add(id(node))
        yield node
        node = node.__cause__


def failures_of(  # noqa: PLR0913 - the fields of the event that the observer knows
    error: BaseException,
    *,
    boundary: FailureBoundary | None = None,
    stage: FailureStage | None = None,
    operation: str | None = None,
    operation_id: str | None = None,
    attempt_id: str | None = None,
    rules: Sequence[Rule] = (),
    carried: Callable[[BaseException], FailureReport | None] | None = None,
    owner: str | None = None,
) -> Failures:
    """Build the events of `error` and of its explicit causes, and mark each exception with its own.

    `boundary` is where the caller observed it. A failure of another boundary, or of another process, becomes the cause
    of a new event at `boundary`. With None, nothing is invented: foreign exceptions alone give no event. `carried`
    finds the report in an exception that a client library made of a reply. `owner` is the token of the asking log:
    events that it has recorded at the same boundary are returned as they are; None takes every mark as it is.
    """
    context = {"stage": stage, "operation": operation, "operation_id": operation_id, "attempt_id": attempt_id}
    walk = _Walk(boundary, stage, {k: v for k, v in context.items() if v is not None}, rules, carried, owner)
    chain = walk.observe(error)
    own = chain[0] if chain else None
    events = tuple(event for event in walk.events.values() if event is not own)
    return Failures(own, events if own is None else (*events, own), tuple(walk.fresh), walk.shared, walk.omitted)


@dataclass(slots=True)
class _Walk:
    """One pass over an exception, its explicit causes and the members of its groups, within the bounds."""

    boundary: FailureBoundary | None
    stage: FailureStage | None
    context: Mapping[str, Any]
    rules: Sequence[Rule]
    carried: Callable[[BaseException], FailureReport | None] | None
    owner: str | None
    events: dict[str, FailureEvent] = field(default_factory=dict)
    fresh: list[Mark] = field(default_factory=list)
    shared: bool = False
    omitted: bool = False
    _members: int = 0
    _group_depth: int = 0

    def observe(self, error: BaseException) -> tuple[FailureEvent, ...]:
        """Return the chain of `error` as seen at this walk's boundary."""
        chain, foreign = self._chain(error, self.boundary)
        if self.boundary is None:
            return chain
        if foreign:
            return self._mark(error, self._foreign_event(foreign, self.boundary, chain), chain)
        mark = mark_of(error)
        if mark is None or not mark.events:
            return chain
        first = mark.events[0]
        if first.boundary is self.boundary and (self.owner is None or mark.owner in {None, self.owner}):
            return chain
        elsewhere = mark.owner not in {None, self.owner, REMOTE}
        if elsewhere and first.boundary is self.boundary:
            event = first.model_copy(update={**self.context, "event_id": new_id(), "cause_id": first.event_id})
        else:
            event = FailureEvent(
                event_id=new_id(),
                boundary=self.boundary,
                failure_kind=default_kind(self.boundary, self.stage),
                exception_type=type_name(error),
                cause_id=first.event_id,
                **self.context,
            )
        self.shared = elsewhere
        return self._mark(error, event, chain, leave=not elsewhere)

    def _chain(
        self, error: BaseException, boundary: FailureBoundary | None
    ) -> tuple[tuple[FailureEvent, ...], list[BaseException]]:
        """Return the events of the nearest failure at or below `error`, and the foreign exceptions above it."""
        nodes: list[tuple[BaseException, FailureBoundary | None]] = []
        for node in explicit_causes(error):
            if len(nodes) >= limits.CHAIN_LINKS:
                self.omitted = True
                break
            nodes.append((node, boundary))
            boundary = _boundary_of(node) or boundary
        chain: tuple[FailureEvent, ...] = ()
        foreign: list[BaseException] = []
        for node, outer in reversed(nodes):
            mark = mark_of(node) or self._carried_mark(node)
            if mark is not None and mark.events:
                chain = self._take(mark)
                foreign = []
            elif (shape := shape_of(node)) is not None:
                chain = self._mark(node, self._shaped_event(node, shape, chain, foreign), chain)
                foreign = []
            else:
                if isinstance(node, BaseExceptionGroup):
                    chain = self._members_of(node, outer, chain)
                foreign.insert(0, node)
        return chain, foreign

    def _carried_mark(self, error: BaseException) -> Mark | None:
        """Mark an exception with the failure that the reply it was made of reported."""
        report = None if self.carried is None else self.carried(error)
        if report is None or report.failure_id is None:
            return None
        mark = Mark(tuple(report.events[one] for one in chain_ids(report.events, report.failure_id)), REMOTE)
        set_mark(error, mark)
        return mark

    def _members_of(
        self,
        group: BaseExceptionGroup[BaseException],
        boundary: FailureBoundary | None,
        chain: tuple[FailureEvent, ...],
    ) -> tuple[FailureEvent, ...]:
        """Build the events of a group's members; the first one is the group's cause unless it has one already."""
        if self._group_depth >= limits.GROUP_DEPTH:
            self.omitted = True
            return chain
        self._group_depth += 1
        for member in group.exceptions:
            if self._members >= limits.GROUP_MEMBERS:
                self.omitted = True
                break
            self._members += 1
            below, foreign = self._chain(member, boundary)
            if foreign and boundary is not None:
                below = self._mark(member, self._foreign_event(foreign, boundary, below), below)
            chain = chain or below
        self._group_depth -= 1
        return chain

    def _foreign_event(
        self, foreign: Sequence[BaseException], boundary: FailureBoundary, chain: tuple[FailureEvent, ...]
    ) -> FailureEvent:
        """Make the event of a foreign exception: the first that the rules know, outermost first, names the kind."""
        found = [classify(node, boundary=boundary, stage=self.stage, rules=self.rules) for node in foreign]
        best = next((index for index, one in enumerate(found) if one.recognised), 0)
        chosen = found[best]
        kind = chosen.kind
        if not chosen.recognised:
            kind = self._group_kind(foreign[0]) or default_kind(boundary, self.stage)
        details = chosen.foreign_error
        if details is None and len(foreign) > 1:
            nearest = best or 1
            details = _details(foreign[nearest], found[nearest].reason, found[nearest].http_status)
        fields: dict[str, Any] = {
            "failure_reason": cut(found[0].reason or chosen.reason, limits.REASON_LENGTH),
            "exception_type": type_name(foreign[0]),
            "http_status": chosen.http_status,
            "foreign_error": details,
            "cause_id": chain[0].event_id if chain else None,
            **self.context,
        }
        return FailureEvent(event_id=new_id(), boundary=boundary, failure_kind=kind, **fields)

    def _group_kind(self, error: BaseException) -> str | None:
        """Return the one kind that all members of a group have, if they agree."""
        if not isinstance(error, BaseExceptionGroup):
            return None
        kinds = {mark.events[0].failure_kind if (mark := mark_of(member)) else None for member in error.exceptions}
        return kinds.pop() if len(kinds) == 1 else None

    def _shaped_event(
        self,
        error: BaseException,
        shape: tuple[str, FailureBoundary],
        chain: tuple[FailureEvent, ...],
        foreign: Sequence[BaseException],
    ) -> FailureEvent:
        """Make the event of an exception that has a failure's fields; a field that does not validate is left out."""
        kind, boundary = shape
        fields: dict[str, Any] = {
            name: value for name in SHAPE_FIELDS if (value := attribute(error, name)) not in (None, "")
        }
        if "foreign_error" not in fields and foreign:
            found = [classify(node, boundary=boundary, stage=self.stage, rules=self.rules) for node in foreign]
            best = next((index for index, one in enumerate(found) if one.recognised), 0)
            details = found[best].foreign_error
            fields["foreign_error"] = details or _details(foreign[best], found[best].reason, found[best].http_status)
        fields = {**self.context, **fields, "boundary": boundary, "failure_kind": kind}
        fields["cause_id"] = chain[0].event_id if chain else None
        own_id = attribute(error, "event_id")
        fields["event_id"] = own_id if isinstance(own_id, str) and own_id else new_id()
        return lenient_event(fields)

    def _take(self, mark: Mark) -> tuple[FailureEvent, ...]:
        for event in reversed(mark.events):
            self.events.setdefault(event.event_id, event)
        if mark.owner is None and mark not in self.fresh:
            self.fresh.append(mark)
        return mark.events

    def _mark(
        self, error: BaseException, event: FailureEvent, chain: tuple[FailureEvent, ...], *, leave: bool = True
    ) -> tuple[FailureEvent, ...]:
        mark = Mark((event, *chain))
        if leave:
            set_mark(error, mark)
        return self._take(mark)


def _boundary_of(error: BaseException) -> FailureBoundary | None:
    mark = mark_of(error)
    if mark is not None and mark.events:
        return mark.events[0].boundary
    shape = shape_of(error)
    return None if shape is None else shape[1]


def _details(error: BaseException, message: str, status: int | None) -> SdkErrorDetails:
    return SdkErrorDetails(
        exception_type=type_name(error), message=cut(message, limits.REASON_LENGTH), http_status=status
    )
