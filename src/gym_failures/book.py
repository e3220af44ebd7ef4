"""The events of one request: each is written once, and kept within bounds as long as the request lasts."""

import threading
from collections.abc import Sequence
from typing import Final

from opentelemetry.trace import Span

from gym_failures import limits, selfmetrics, semconv
from gym_failures.ledger import Ledger
from gym_failures.privacy import canonical
from gym_failures.recorder import FailureRecorder, say_omitted
from gym_failures.records import FailureEvent
from gym_failures.refused import RefusedValues
from gym_failures.repair import chain_ids

_NOTHING: Final = Ledger()

_OPEN: Final = 0
_SEALED: Final = 1
_CLOSED: Final = 2


class Book:
    """What one log has written and keeps, safe in threads.

    A book within another one, `outer`, writes nothing that the outer one has written.
    """

    __slots__ = ("_kept", "_lock", "_recorder", "_refused", "_short_spans", "_state", "disbelieved", "outer")

    def __init__(self, recorder: FailureRecorder) -> None:
        """Begin with nothing."""
        self.outer: Book | None = None
        self.disbelieved: RefusedValues | None = None
        """Values of the report header that are not believed; None, if there are none."""
        self._recorder = recorder
        self._lock = threading.Lock()
        self._kept: Ledger | None = None  # Most requests have nothing to keep.
        self._state = _OPEN
        self._short_spans = 0
        self._refused = 0

    @property
    def ledger(self) -> Ledger:
        """What is kept, to look at."""
        return _NOTHING if self._kept is None else self._kept

    def events(self) -> dict[str, FailureEvent]:
        """Return the events that are kept by now, by id."""
        with self._lock:
            return dict(self.ledger.events)

    # --- How far the request is ---------------------------------------------------------------------------------------

    @property
    def is_closed(self) -> bool:
        """Whether the request has ended."""
        return self._state == _CLOSED

    def seal(self) -> None:
        """Mark what is written from now on as late."""
        if self._state == _OPEN:
            self._state = _SEALED

    def close(self) -> None:
        """Keep nothing of what is written from now on, on short spans of its own."""
        self._state = _CLOSED

    # --- What is written ----------------------------------------------------------------------------------------------

    def add(
        self, event: FailureEvent, origin: str, *, span: Span, request_span: Span, is_counted: bool = False
    ) -> FailureEvent:
        """Keep and write an event unless its id is known; returns the first copy of that id.

        `is_counted` says that it was counted before, where no span could carry it.
        """
        event, is_new = self._enter(event, local=origin == semconv.ORIGIN_LOCAL)
        if not is_new:
            return event
        refused = self._refused
        write = self._recorder.carry if is_counted else self._recorder.write
        write(
            event,
            origin=origin,
            span=None if self._state == _CLOSED else span,
            request_span=request_span,
            late=self._state != _OPEN,
            short_spans=self,
        )
        if self._refused != refused:
            say_omitted(request_span)
        return event

    def keep(self, event: FailureEvent, *, local: bool) -> FailureEvent:
        """Keep an event that is written already; returns the first copy of its id."""
        event, is_new = self._enter(event, local=local)
        if is_new and self._refused:
            # Nobody remembers whether it was this one for which no short span was left.
            with self._lock:
                self._writable().unspanned.add(event.event_id)
        return event

    def _enter(self, event: FailureEvent, *, local: bool) -> tuple[FailureEvent, bool]:
        """Keep an event; returns the first copy of its id, and whether it is new here."""
        event = canonical(event, self._recorder.config)
        with self._lock:
            known = self._known(event.event_id)
            if known is not None:
                return known, False
            ledger = self._writable()
            is_new = event.event_id not in ledger.gone
            if self._state == _CLOSED:
                ledger.let_go(event.event_id)
            else:
                ledger.keep(event, local=local)
            return event, is_new

    def may_open_for(self, event: FailureEvent) -> bool:
        """Tell whether one more short span may be opened, and remember the event if not."""
        with self._lock:
            if self._short_spans < limits.LOG_SHORT_SPANS:
                self._short_spans += 1
                return True
            self._refused += 1
            if event.event_id in self.ledger.events:
                self._writable().unspanned.add(event.event_id)
        selfmetrics.dropped(selfmetrics.Loss.SHORT_SPANS)
        return False

    def own(self, event: FailureEvent) -> None:
        """Take `event` for the failure of the request itself."""
        with self._lock:
            self._writable().own = event

    def carry_chain(self, span: Span) -> None:
        """Put the own failure and its causes on spans after all, where none was left for them."""
        with self._lock:
            ledger = self.ledger
            if ledger.own is None or not ledger.unspanned:
                return
            chain = [one for one in chain_ids(ledger.events, ledger.own.event_id) if one in ledger.unspanned]
            ledger.unspanned.difference_update(chain)
            events = [(ledger.events[one], one in ledger.local) for one in chain]
        for event, local in events:
            origin = semconv.ORIGIN_LOCAL if local else semconv.ORIGIN_REMOTE
            self._recorder.carry(event, origin=origin, span=span, late=self._state != _OPEN)

    def leave_out(self, dropped: int = 0) -> None:
        """Say that events are missing, and how many of them a bound here left out before they were written."""
        with self._lock:
            ledger = self._writable()
            ledger.omitted = True
            ledger.dropped += dropped
        if dropped:
            selfmetrics.dropped(selfmetrics.Loss.CAUSES, dropped)

    def refuse(self, values: Sequence[object]) -> None:
        """Remember values of the report header that are not believed."""
        with self._lock:
            if self.disbelieved is None:
                self.disbelieved = RefusedValues()
            self.disbelieved.add(values)

    def absorb(self, inner: "Book") -> None:
        """Take over what an inner book kept; it is written already."""
        found = inner._kept  # noqa: SLF001 - of the same class
        if found is None:
            return
        with inner._lock:  # noqa: SLF001 - of the same class; its threads may still be recording
            events, local, unspanned = dict(found.events), set(found.local), set(found.unspanned)
        with self._lock:
            kept = self._writable()
            if self._state != _CLOSED:
                for event_id, event in events.items():
                    if event_id not in kept.events:
                        kept.keep(event, local=event_id in local)
                kept.unspanned |= unspanned & kept.events.keys()
            kept.omitted = kept.omitted or found.omitted
            kept.dropped += found.dropped

    def _known(self, event_id: str) -> FailureEvent | None:
        found = self.ledger.events.get(event_id)
        return found if found is not None or self.outer is None else self.outer._known(event_id)  # noqa: SLF001 - as above

    def _writable(self) -> Ledger:
        """Return what is kept, to add to; only under the lock."""
        if self._kept is None:
            self._kept = Ledger()
        return self._kept
