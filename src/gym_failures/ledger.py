"""The bounded memory of one request's failures: which events to keep when there are too many."""

from collections import Counter, OrderedDict

from gym_failures import limits, selfmetrics
from gym_failures.records import FailureEvent
from gym_failures.repair import chain_ids


class Ledger:
    """At most `limits.LOG_EVENTS` events by id, and of one operation the first and the last failed attempts.

    The chain of the own failure and events that others name as their cause go last. Not safe in threads by itself.
    """

    __slots__ = (
        "_attempts",
        "_loose",
        "_referenced",
        "dropped",
        "events",
        "gone",
        "local",
        "omitted",
        "own",
        "unspanned",
    )

    def __init__(self) -> None:
        """Begin empty."""
        self.events: dict[str, FailureEvent] = {}
        self.local: set[str] = set()
        """Ids of the events that this process was first to observe."""
        self.unspanned: set[str] = set()
        """Ids of the events for which no short span was left."""
        self.gone: OrderedDict[str, None] = OrderedDict()
        """Ids of the last events that were written and are not kept, as many as are kept at most."""
        self.own: FailureEvent | None = None
        """The failure of the request itself, as far as it is known."""
        self.omitted = False
        """Whether events are missing, because a bound here or on the way to us left them out."""
        self.dropped = 0
        """Events that a bound here left out."""
        # Of what is kept only, so that a log which lives long does not grow.
        self._referenced: Counter[str] = Counter()
        self._attempts: dict[str, list[str]] = {}
        # Those of the kept events that no kept one names as its cause, in the order in which they may go: kept here,
        # because to look for them among all costs several times as much as to write the failure.
        self._loose: OrderedDict[str, None] = OrderedDict()

    def keep(self, event: FailureEvent, *, local: bool) -> None:
        """Keep a new event, leaving out another one when there is no room."""
        self.gone.pop(event.event_id, None)
        if len(self.events) >= limits.LOG_EVENTS:
            self._leave_out(self._most_dispensable())
        self.events[event.event_id] = event
        if event.event_id not in self._referenced:
            self._loose[event.event_id] = None
        if event.cause_id is not None:
            self._referenced[event.cause_id] += 1
            self._loose.pop(event.cause_id, None)
        if local:
            self.local.add(event.event_id)
            if event.operation_id is not None:
                self._keep_attempt(event.operation_id, event.event_id)

    def let_go(self, event_id: str) -> None:
        """Remember that an event was written which is not kept."""
        self.gone[event_id] = None
        if len(self.gone) > limits.LOG_EVENTS:
            self.gone.popitem(last=False)

    def _keep_attempt(self, operation_id: str, event_id: str) -> None:
        attempts = self._attempts.setdefault(operation_id, [])
        attempts.append(event_id)
        if len(attempts) > limits.LOG_ATTEMPTS_FIRST + limits.LOG_ATTEMPTS_LAST:
            middle = attempts.pop(limits.LOG_ATTEMPTS_FIRST)
            if middle not in self._referenced and (self.own is None or middle != self.own.event_id):
                self._leave_out(middle)

    def _most_dispensable(self) -> str:
        """Return the oldest event that nothing links to; else the oldest outside the own failure's chain."""
        own_id = None if self.own is None else self.own.event_id
        loose = next((event_id for event_id in self._loose if event_id != own_id), None)
        if loose is not None:
            return loose
        # What is left is the own failure's chain, and causes that go round in circles.
        chain = chain_ids(self.events, own_id)
        linked = frozenset(chain)
        others = next((event_id for event_id in self.events if event_id not in linked), None)
        return chain[len(chain) // 2] if others is None else others

    def _leave_out(self, event_id: str) -> None:
        event = self.events.pop(event_id, None)
        if event is None:
            return
        self.local.discard(event_id)
        self.unspanned.discard(event_id)
        self.let_go(event_id)
        self._loose.pop(event_id, None)
        self._forget_links(event)
        self.omitted = True
        self.dropped += 1
        selfmetrics.dropped(selfmetrics.Loss.LOG_FULL)

    def _forget_links(self, event: FailureEvent) -> None:
        cause_id, operation_id = event.cause_id, event.operation_id
        if cause_id is not None:
            self._referenced[cause_id] -= 1
            if not self._referenced[cause_id]:
                del self._referenced[cause_id]
                if cause_id in self.events:  # it goes next, after its effect
                    self._loose[cause_id] = None
                    self._loose.move_to_end(cause_id, last=False)
        if operation_id is not None and event.event_id in (attempts := self._attempts.get(operation_id, [])):
            attempts.remove(event.event_id)
            if not attempts:
                del self._attempts[operation_id]
