"""From a raised exception to linked failure events.

Only ``raise ... from ...`` links two failures. An exception counts as a failure of Gym's vocabulary by its shape (it has
``failure_kind`` and ``boundary``), so upstream's own exceptions are understood without importing them; every other one
is foreign, and becomes the ``foreign_error`` of the failure that was raised from it.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from pydantic import ValidationError

from gym_failures import limits, selfmetrics
from gym_failures.classify import Rule, classify, default_kind
from gym_failures.ids import new_id
from gym_failures.kinds import FailureStage
from gym_failures.records import FailureBoundary, FailureEvent, SdkErrorDetails
from gym_failures.semconv import EXCEPTION_MARK
from gym_failures.text import clean, cut, text_of, type_name

REMOTE: Final = "remote"
"""Owner of a mark whose events came from another process."""

_SHAPE_FIELDS: Final = (
    "failure_reason",
    "stage",
    "operation",
    "operation_id",
    "attempt_id",
    "exception_type",
    "http_status",
    "foreign_error",
    "details",
)


class Mark:
    """What is left on an exception: its events (own first, then that one's causes) and who recorded them.

    `owner` is None until something records the first event, `REMOTE` for events from another process, and otherwise the
    token of the log that recorded it. Marks travel with the exception through pickle and copy.
    """

    __slots__ = ("events", "owner")

    def __init__(self, events: tuple[FailureEvent, ...], owner: str | None = None) -> None:
        """Hold `events`, which is never empty."""
        self.events = events
        self.owner = owner


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


def mark_of(error: BaseException) -> Mark | None:
    """Return the mark on `error`, or None; never runs code of the exception's class."""
    mark = BaseException.__getattribute__(error, "__dict__").get(EXCEPTION_MARK)
    return mark if isinstance(mark, Mark) else None


def set_mark(error: BaseException, mark: Mark) -> None:
    """Leave `mark` on `error`; never runs code of the exception's class."""
    BaseException.__getattribute__(error, "__dict__")[EXCEPTION_MARK] = mark


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
    owner: str | None = None,
) -> Failures:
    """Build the events of `error` and of its explicit causes, and mark each exception with its own.

    `boundary` is where the caller observed it. A failure of another boundary, or of another process, becomes the cause
    of a new event at `boundary`. With None, nothing is invented: foreign exceptions alone give no event. `owner` is the
    token of the asking log: events that it has recorded at the same boundary are returned as they are.
    """
    context = {"stage": stage, "operation": operation, "operation_id": operation_id, "attempt_id": attempt_id}
    walk = _Walk(boundary, stage, {k: v for k, v in context.items() if v is not None}, rules, owner)
    chain = walk.observe(error)
    own = chain[0] if chain else None
    events = tuple(event for event in walk.events.values() if event is not own)
    return Failures(own, events if own is None else (*events, own), tuple(walk.fresh), walk.shared, walk.omitted)


class _Walk:
    """One pass over an exception, its explicit causes and the members of its groups, within the bounds."""

    def __init__(
        self,
        boundary: FailureBoundary | None,
        stage: FailureStage | None,
        context: Mapping[str, Any],
        rules: Sequence[Rule],
        owner: str | None,
    ) -> None:
        self.boundary = boundary
        self.stage = stage
        self.context = context
        self.rules = rules
        self.owner = owner
        self.events: dict[str, FailureEvent] = {}
        self.fresh: list[Mark] = []
        self.shared = False
        self.omitted = False
        self._members = 0
        self._group_depth = 0

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
        if first.boundary is self.boundary and mark.owner in {None, self.owner}:
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
            mark = mark_of(node)
            if mark is not None and mark.events:
                chain = self._take(mark)
                foreign = []
            elif (shape := _shape_of(node)) is not None:
                chain = self._mark(node, self._shaped_event(node, shape, chain, foreign), chain)
                foreign = []
            else:
                if isinstance(node, BaseExceptionGroup):
                    chain = self._members_of(node, outer, chain)
                foreign.insert(0, node)
        return chain, foreign

    def _members_of(
        self, group: BaseExceptionGroup[BaseException], boundary: FailureBoundary | None, chain: tuple[FailureEvent, ...]
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
            name: value for name in _SHAPE_FIELDS if (value := _attribute(error, name)) not in (None, "")
        }
        if "foreign_error" not in fields and foreign:
            found = [classify(node, boundary=boundary, stage=self.stage, rules=self.rules) for node in foreign]
            best = next((index for index, one in enumerate(found) if one.recognised), 0)
            details = found[best].foreign_error
            fields["foreign_error"] = details or _details(foreign[best], found[best].reason, found[best].http_status)
        fields = {**self.context, **fields, "boundary": boundary, "failure_kind": kind}
        fields["cause_id"] = chain[0].event_id if chain else None
        own_id = _attribute(error, "event_id")
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


def lenient_event(fields: Mapping[str, Any]) -> FailureEvent:
    """Build an event from `fields`, leaving out (and counting) each optional one that does not validate.

    Texts that are too long are cut, not left out. Raises ValidationError only when id, kind or boundary are unusable.
    """
    kept = dict(fields)
    for name, bound in _TEXT_BOUNDS.items():
        value = kept.get(name)
        if value is not None and name in _FREE_TEXT:
            kept[name] = cut(clean(value if isinstance(value, str) else text_of(value)), bound)
    while True:
        try:
            return FailureEvent(**kept)
        except ValidationError as error:
            bad = {str(item["loc"][0]) for item in error.errors(include_input=False, include_url=False) if item["loc"]}
            bad &= kept.keys() - {"event_id", "failure_kind", "boundary"}
            if not bad:
                raise
            selfmetrics.dropped("invalid_field", len(bad))
            for name in bad:
                del kept[name]


_TEXT_BOUNDS: Final[Mapping[str, int]] = {
    "failure_reason": limits.REASON_LENGTH,
    "operation": limits.OPERATION_LENGTH,
    "exception_type": limits.TYPE_NAME_LENGTH,
}
_FREE_TEXT: Final = frozenset(_TEXT_BOUNDS)


def _details(error: BaseException, message: str, status: int | None) -> SdkErrorDetails:
    return SdkErrorDetails(
        exception_type=type_name(error), message=cut(message, limits.MESSAGE_LENGTH), http_status=status
    )


def _attribute(error: BaseException, name: str) -> object:
    """Return an attribute of a foreign object, or None when reading it raises."""
    try:
        return getattr(error, name, None)
    except Exception:  # noqa: BLE001 - a property of someone else's class may raise anything
        return None


def _shape_of(error: BaseException) -> tuple[str, FailureBoundary] | None:
    """Return kind and boundary of an exception that has a failure's shape."""
    kind = _attribute(error, "failure_kind")
    if not isinstance(kind, str) or not kind:
        return None
    boundary = _as_boundary(_attribute(error, "boundary"))
    return None if boundary is None else (kind, boundary)


def _boundary_of(error: BaseException) -> FailureBoundary | None:
    mark = mark_of(error)
    if mark is not None and mark.events:
        return mark.events[0].boundary
    shape = _shape_of(error)
    return None if shape is None else shape[1]


def _as_boundary(value: object) -> FailureBoundary | None:
    """Return our boundary for ours, another package's enum member with the same value, or the value itself."""
    try:
        return FailureBoundary(getattr(value, "value", value))
    except ValueError:
        return None
