"""The traces of late, whose spans are still coming in."""

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from gym_failures import limits
from gym_failures.reading.model import Span
from gym_failures.reading.rebuild import By, rebuild_stored
from gym_failures.reading.rebuilt import RebuiltReport


@dataclass(slots=True)
class _Trace:
    spans: list[Span] = field(default_factory=list)
    last: float = 0.0
    """When its last span came."""
    changed: bool = True
    """Whether a span came since its reports were given."""
    given: list[RebuiltReport] = field(default_factory=list)


class Window:
    """Spans as they come, to reports as soon as a trace has been quiet for a while.

    A report is given again when what came later changed it. Of more spans than `limits.FOLLOWED_SPANS` the traces that
    were quiet the longest are forgotten; what they told until then is given first. A rollout of several traces is
    given trace by trace.
    """

    def __init__(self, *, by: By, quiet: float, most: int = limits.FOLLOWED_SPANS) -> None:
        """Wait `quiet` seconds after the last span of a trace, and hold at most `most` spans."""
        self._by = by
        self._quiet = quiet
        self._most = most
        self._held = 0
        self._traces: OrderedDict[str, _Trace] = OrderedDict()
        self._forgotten: list[_Trace] = []

    def add(self, span: Span, now: float) -> None:
        """Take a span that came at `now`, in seconds of any clock that only goes forward."""
        trace = self._traces.setdefault(span.trace_id, _Trace())
        trace.spans.append(span)
        trace.last = now
        trace.changed = True
        self._traces.move_to_end(span.trace_id)
        self._held += 1
        while self._held > self._most and len(self._traces) > 1:
            _, oldest = self._traces.popitem(last=False)
            self._held -= len(oldest.spans)
            if oldest.changed:
                self._forgotten.append(oldest)

    def ready(self, now: float) -> Iterator[RebuiltReport]:
        """Yield the reports of traces that are quiet or had to be forgotten, those that are new or have changed."""
        forgotten, self._forgotten = self._forgotten, []
        yield from self._new(forgotten)
        yield from self._new(
            trace for trace in self._traces.values() if trace.changed and now - trace.last >= self._quiet
        )

    def rest(self) -> Iterator[RebuiltReport]:
        """Yield the reports of all that has not been given."""
        return self.ready(float("inf"))

    def _new(self, traces: Iterable[_Trace]) -> Iterator[RebuiltReport]:
        for trace in traces:
            reports = rebuild_stored(trace.spans, by=self._by)
            yield from (report for report in reports if report not in trace.given)
            trace.given = reports
            trace.changed = False
