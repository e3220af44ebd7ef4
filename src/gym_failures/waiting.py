"""What a request that hangs has observed so far, told while it hangs.

NeMo Gym retries the calls between its servers for ever, and a span is exported when it has ended. So nothing would be
seen of a rollout that hangs, before somebody kills it and its open spans are lost (opentelemetry-specification#373). A
request that is older than a threshold gets a short child span that has ended already, with copies of its failures: the
same ids, as known from elsewhere, so that nothing is counted anew. It is told of again at twice the age, and so on.

Each event loop has one timer, whatever the number of requests; a retry looks at the clock too. A request that ends in
time costs one entry in a table.
"""

import asyncio
import heapq
import time
from contextvars import ContextVar
from itertools import islice
from typing import Final
from weakref import WeakKeyDictionary

from opentelemetry import trace
from opentelemetry.trace import Span

from gym_failures import limits, semconv
from gym_failures.guard import Guard
from gym_failures.log import log_of
from gym_failures.recording import CurrentLog, current

_WAITING: Final = Guard("waiting")

_CARRIED: Final = (
    semconv.NEMO_GYM_ROLLOUT_ID,
    semconv.NEMO_GYM_TASK_INDEX,
    semconv.NEMO_GYM_ROLLOUT_INDEX,
    semconv.NEMO_GYM_ATTEMPT_INDEX,
)
"""Attributes of the request's span that its short spans repeat, because it may never be exported itself."""


class Waiting:
    """One request that is waited for."""

    __slots__ = ("due", "holder", "started", "watch")

    def __init__(self, holder: CurrentLog, watch: "Watch", started: float, due: float) -> None:
        """Begin at `started`; both times are of the loop's clock."""
        self.holder: CurrentLog | None = holder
        self.watch = watch
        self.started = started
        self.due = due

    def __lt__(self, other: "Waiting") -> bool:
        """Order by who is due first."""
        return self.due < other.due


class Watch:
    """The requests of one event loop.

    They get old in the order in which they began, unless their thresholds differ; then some are told of a little late.
    The few that have been told of wait in a heap for their next time. Of many that are due at once, some are told of in
    each turn of the loop, so that neither the loop stands still nor the queue of spans overflows.
    """

    __slots__ = ("__weakref__", "_loop", "_old", "_quiet_until", "_timer", "_young")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        """Watch nothing yet."""
        self._loop = loop
        self._young: dict[int, Waiting] = {}
        self._old: list[Waiting] = []
        self._timer: asyncio.TimerHandle | None = None
        self._quiet_until = 0.0

    def enter(self, holder: CurrentLog, after: float) -> Waiting:
        """Begin to watch a request, which is told of `after` so many seconds."""
        now = self._loop.time()
        waiting = Waiting(holder, self, now, now + after)
        self._young[id(waiting)] = waiting
        self._ring_by(waiting.due)
        return waiting

    def leave(self, waiting: Waiting) -> None:
        """End to watch a request."""
        waiting.holder = None  # One that was told of stays in the heap until it is the first there.
        self._young.pop(id(waiting), None)

    def is_due(self, waiting: Waiting) -> bool:
        """Tell whether a request is to be told of, though the loop has not got to it yet."""
        return max(waiting.due, self._quiet_until) <= self._loop.time()

    def ring(self) -> None:
        """Tell of the requests that are due, as many as fit in one turn, and set the timer for the next one."""
        now = self._loop.time()
        self._quiet_until = now + limits.WAITING_PAUSE
        for _ in range(limits.WAITING_AT_ONCE):
            waiting = self._first()
            if waiting is None or waiting.due > now:
                break
            if self._young.pop(id(waiting), None) is None:
                heapq.heappop(self._old)
            while waiting.due <= now:
                waiting.due += waiting.due - waiting.started
            heapq.heappush(self._old, waiting)
            with _WAITING:
                _tell(waiting, now)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        following = self._first()
        if following is not None:
            self._ring_by(following.due)

    def _ring_by(self, due: float) -> None:
        """Let the timer ring at `due`, or when the pause is over, unless it rings before."""
        due = max(due, self._quiet_until)
        if self._timer is not None:
            if self._timer.when() <= due:
                return
            self._timer.cancel()
        self._timer = self._loop.call_at(due, self.ring)

    def _first(self) -> Waiting | None:
        """Return who is due first of those that still run."""
        while self._old and self._old[0].holder is None:
            heapq.heappop(self._old)
        return min((*self._old[:1], *islice(self._young.values(), 1)), default=None)


_watches: Final[WeakKeyDictionary[asyncio.AbstractEventLoop, Watch]] = WeakKeyDictionary()
_current: Final[ContextVar[Waiting | None]] = ContextVar("gym_failures_waiting", default=None)


def begin() -> Waiting | None:
    """Watch the request that this code works for, until `end`; None where there is none, or nobody wants to know.

    The threshold is `Config.waiting_after`. To be called in the event loop that serves the request.
    """
    with _WAITING:
        holder = current.get()
        config = None if holder is None else holder.recorder.config
        if holder is None or config is None or not config.enabled or not config.waiting_after:
            return None
        loop = asyncio.get_running_loop()
        watch = _watches.get(loop)
        if watch is None:
            watch = _watches[loop] = Watch(loop)
        waiting = watch.enter(holder, config.waiting_after)
        _current.set(waiting)
        return waiting
    return None


def end(waiting: Waiting | None) -> None:
    """End to watch what `begin` returned."""
    if waiting is not None:
        with _WAITING:
            waiting.watch.leave(waiting)


def look() -> None:
    """Tell of the current request at once if it is due, as at a retry; else do nothing."""
    waiting = _current.get()
    if waiting is not None:
        with _WAITING:
            if waiting.holder is not None and waiting.watch.is_due(waiting):
                waiting.watch.ring()


def _tell(waiting: Waiting, now: float) -> None:
    """Write a short span beneath that of the request, with copies of the newest of its failures."""
    log = log_of(waiting.holder)
    if log is None:
        return
    parent, recorder = log.span, log.recorder
    at = time.time_ns()
    events = list(log.report().events.values())
    attributes: dict[str, str | int | float] = {
        semconv.WAITING_DURATION: now - waiting.started,
        semconv.WAITING_FAILURES: len(events) + log.dropped,
    }
    if log.operation is not None:
        attributes[semconv.WAITING_OPERATION] = log.operation
    span = recorder.tracer.start_span(
        semconv.WAITING_SPAN_NAME,
        context=trace.set_span_in_context(parent),
        attributes=attributes | _carried(parent),
        start_time=at,
    )
    if span.is_recording():
        for event in events[-limits.EVENTS_PER_SPAN :]:
            recorder.write(event, origin=semconv.ORIGIN_REMOTE, span=span)
    span.end(end_time=at)


def _carried(span: Span) -> dict[str, str | int | float]:
    held = getattr(span, "attributes", None) or {}
    return {name: held[name] for name in _CARRIED if name in held}
