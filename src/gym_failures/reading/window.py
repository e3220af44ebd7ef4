"""The traces of late, whose spans are still coming in."""

from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from gym_failures import limits
from gym_failures.reading.model import Span
from gym_failures.reading.rebuild import By, rebuild_stored
from gym_failures.reading.rebuilt import RebuiltReport
from gym_failures.reading.witness import witnesses


@dataclass(slots=True)
class _Trace:
    spans: list[Span] = field(default_factory=list)
    last: float = 0.0
    """When its last span came."""
    again: float = 0.0
    """Until when it is not put together again."""
    changed: bool = True
    """Whether a span came since its reports were given."""
    given: list[RebuiltReport] = field(default_factory=list)


class Window:
    """Spans as they come, to reports as soon as a trace has been quiet for a while.

    A report is given again when what came later changed it, for a large trace not at once: one second for each
    `limits.FOLLOWED_AGAIN` spans. Of more spans than `limits.FOLLOWED_SPANS` the traces that were quiet the longest are
    forgotten; what they told until then is given first. Of a trace that alone has more, the spans that tell of a
    failure are kept if they take no more than half of that. A rollout of several traces is given trace by trace.
    """

    def __init__(
        self,
        *,
        by: By,
        quiet: float,
        cut: Callable[[str], object],
        gone: Callable[[RebuiltReport], object],
        most: int = limits.FOLLOWED_SPANS,
    ) -> None:
        """Wait `quiet` seconds after the last span of a trace, and hold at most `most` spans.

        `cut` is called with the id of a trace that alone has more, each time that some of it is forgotten, and `gone`
        with a report that was given under a key that is no longer its own, as when its rollout became known.
        """
        self._by = by
        self._quiet = quiet
        self._cut = cut
        self._gone = gone
        self._most = most
        self._held = 0
        self._traces: OrderedDict[str, _Trace] = OrderedDict()
        self._due: deque[RebuiltReport] = deque()

    def add(self, span: Span, now: float) -> None:
        """Take a span that came at `now`, in seconds of any clock that only goes forward."""
        trace = self._traces.setdefault(span.trace_id, _Trace())
        trace.spans.append(span)
        trace.last = now
        trace.changed = True
        self._traces.move_to_end(span.trace_id)
        self._held += 1
        while self._held > self._most:
            trace_id, oldest = next(iter(self._traces.items()))
            if oldest.changed:
                self._put_together(oldest, now)
            del self._traces[trace_id]
            self._held -= len(oldest.spans)
            if not self._traces:
                self._keep_telling(trace_id, oldest)

    def due(self) -> Iterator[RebuiltReport]:
        """Yield the new reports of traces that had to be forgotten."""
        while self._due:
            yield self._due[0]
            self._due.popleft()  # Only now, so that what an interrupt breaks off is given again.

    def ready(self, now: float) -> Iterator[RebuiltReport]:
        """Yield the reports of traces that are quiet or had to be forgotten, those that are new or have changed."""
        yield from self.due()
        for trace in self._traces.values():
            if trace.changed and now - trace.last >= self._quiet and now >= trace.again:
                self._put_together(trace, now)
                yield from self.due()

    def rest(self) -> Iterator[RebuiltReport]:
        """Yield the reports of all that has not been given."""
        return self.ready(float("inf"))

    def _keep_telling(self, trace_id: str, trace: _Trace) -> None:
        """Take back what tells of failures, if so little that not every span that comes makes room anew."""
        trace.spans = [witness.span for witness in witnesses(trace.spans)]
        if len(trace.spans) <= self._most // 2:
            self._traces[trace_id] = trace
            self._held += len(trace.spans)
        self._cut(trace_id)

    def _put_together(self, trace: _Trace, now: float) -> None:
        reports = rebuild_stored(trace.spans, by=self._by)
        keys = {report.key for report in reports}
        for report in trace.given:
            if report.key not in keys:
                self._gone(report)
        self._due += (report for report in reports if report not in trace.given)
        trace.given = reports
        trace.again = now + len(trace.spans) / limits.FOLLOWED_AGAIN
        trace.changed = False
