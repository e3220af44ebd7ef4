"""Which spans of a large trace its reports depend on; the others need not be in memory to make them.

A trace can have 100,000 spans of which a few tell of failures. Reports depend on these, on what is above them, on spans
that name a rollout or count what was dropped, and on those whose status or time decides something. Of each other span
this holds ids and times only, some 200 bytes.
"""

from array import array
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from gym_failures import semconv
from gym_failures.reading.model import Span, SpanKind, SpanRecord
from gym_failures.reading.otlp_values import SPAN_ID_SIZE, hex_id
from gym_failures.reading.rollouts import named_rollout

_MATTERS: Final = 1
_SERVER: Final = 2

_ON_THE_WAY: Final = 1
_ON_A_TREE: Final = 2
_ON_A_CIRCLE: Final = 3

_BENEATH_A_SERVER: Final = 1
_BENEATH_ANOTHER: Final = 2


class Relevance:
    """Is shown all spans of one trace, and then tells which of them matter."""

    def __init__(self) -> None:
        """Know of no span yet."""
        self._at: dict[int, int] = {}
        """Where each span stands in what follows, by its id."""
        self._parents = array("Q")
        self._starts = array("Q")
        self._ends = array("Q")
        self._flags = bytearray()

    def see(self, span: Span) -> None:
        """Note a span; one that comes twice matters, because the two may differ."""
        own_id = int(span.span_id, 16)
        position = len(self._flags)
        first = self._at.setdefault(own_id, position)
        matters = first != position or span.dropped_events > 0 or named_rollout(span) is not None or _tells(span)
        self._flags.append((_MATTERS if matters else 0) | (_SERVER if span.kind is SpanKind.SERVER else 0))
        self._flags[first] |= _MATTERS if matters else 0
        # What is written for a parent can be no id, which is then none.
        self._parents.append(int(hex_id(span.parent_id, SPAN_ID_SIZE) or "0", 16))
        self._starts.append(span.start_ns)
        self._ends.append(max(span.start_ns, span.end_ns))

    def chosen(self) -> Callable[[Span], bool]:
        """Return what tells whether a span matters; nothing more may be shown then."""
        kept = bytearray(len(self._flags))
        hangs = self._circling()
        seeds = [
            position
            for position, flags in enumerate(self._flags)
            # The first of a tree can decide how it ended.
            if flags & _MATTERS or hangs[position] == _ON_A_CIRCLE or self._above(position) is None
        ]
        self._keep(seeds, kept)
        nearest, beneath = self._nearest(kept)
        others = [position for position, is_kept in enumerate(kept) if not is_kept]
        # A server beneath no other one of its rollout decides how that ended.
        servers = [at for at in others if self._flags[at] & _SERVER and beneath[at] == _BENEATH_ANOTHER]
        self._keep([*servers, *self._outlasting(others, nearest)], kept)
        return lambda span: bool(kept[self._at[int(span.span_id, 16)]])

    def _above(self, position: int) -> int | None:
        return self._at.get(self._parents[position])

    def _keep(self, positions: Iterable[int], kept: bytearray) -> None:
        """Keep these and all that is above them."""
        for position in positions:
            above: int | None = position
            while above is not None and not kept[above]:
                kept[above] = 1
                above = self._above(above)

    def _circling(self) -> bytearray:
        """Tell of each span whether it hangs on parents that go round; where that is broken up depends on all of it."""
        hangs = bytearray(len(self._flags))
        for start in range(len(hangs)):
            path: list[int] = []
            at: int | None = start
            while at is not None and not hangs[at]:
                hangs[at] = _ON_THE_WAY
                path.append(at)
                at = self._above(at)
            goes_round = at is not None and hangs[at] != _ON_A_TREE
            for position in path:
                hangs[position] = _ON_A_CIRCLE if goes_round else _ON_A_TREE
        return hangs

    def _nearest(self, kept: bytearray) -> tuple[Sequence[int], bytearray]:
        """Return for each span that is not kept the nearest above that is, and whether a server or that is nearer."""
        nearest = array("q", [-1]) * len(kept)
        beneath = bytearray(len(kept))
        for start in range(len(kept)):
            path: list[int] = []
            at = start
            while not kept[at] and nearest[at] < 0:
                path.append(at)
                at = self._position_above(at)
            for position in reversed(path):
                above = self._position_above(position)
                nearest[position] = above if kept[above] else nearest[above]
                if self._flags[above] & _SERVER:
                    beneath[position] = _BENEATH_A_SERVER
                else:
                    beneath[position] = _BENEATH_ANOTHER if kept[above] else beneath[above]
        return nearest, beneath

    def _position_above(self, position: int) -> int:
        """Return where the parent stands of a span that has one: one without is kept, and never asked."""
        return self._at[self._parents[position]]

    def _outlasting(self, positions: Iterable[int], nearest: Sequence[int]) -> Iterable[int]:
        """Return the spans that begin first, or end last, of those that stand for a longer time than what is above."""
        first: dict[int, int] = {}
        last: dict[int, int] = {}
        for position in positions:
            above = nearest[position]
            if self._starts[position] < self._starts[first.get(above, above)]:
                first[above] = position
            if self._ends[position] > self._ends[last.get(above, above)]:
                last[above] = position
        return [*first.values(), *last.values()]


def _tells(span: Span) -> bool:
    return isinstance(span, SpanRecord) and (
        semconv.FAILURE_ID in span.attributes
        or semconv.FAILURE_OMITTED in span.attributes
        or any(event.name == semconv.EVENT_NAME for event in span.events)
    )
