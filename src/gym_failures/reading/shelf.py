"""Spans kept until all have been seen, by trace: in memory while they are few, beyond that in a temporary file.

A trace is whole only when everything has been read, because its spans are in the files of several processes. So what is
kept here is put back together in batches, each of which has all the spans of the traces, or rollouts, that it is about.
"""

import os
import pickle
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from tempfile import TemporaryFile
from typing import IO, NamedTuple

from gym_failures import limits
from gym_failures.reading.model import Span
from gym_failures.reading.relevance import Relevance
from gym_failures.reading.rollouts import named_rollout


@dataclass(slots=True)
class _Trace:
    """What is known in memory of a trace whose spans are in the file."""

    start_ns: int
    number: int = 0
    """How many spans it has."""
    places: list[int] = field(default_factory=list)
    """Where in the file some of its spans begin."""


class Bundle(NamedTuple):
    """Some spans of a trace, packed."""

    trace_id: str
    start_ns: int
    """When the first of them starts."""
    rollouts: frozenset[str]
    """The rollouts that they name."""
    number: int
    packed: bytes


def bundle_of(trace_id: str, spans: Sequence[Span]) -> Bundle:
    """Pack spans of one trace."""
    rollouts = frozenset(rollout for span in spans if (rollout := named_rollout(span)) is not None)
    start_ns = min(span.start_ns for span in spans)
    return Bundle(trace_id, start_ns, rollouts, len(spans), pickle.dumps(spans, pickle.HIGHEST_PROTOCOL))


class Shelf:
    """Takes spans in any order and gives them back in batches; it has to be closed."""

    def __init__(self, *, by_rollout: bool, most: int, batch: int, large: int = limits.HELD_SPANS) -> None:
        """Hold at most `most` spans in memory, and give back about `batch` of those in the file at once.

        With `by_rollout` the traces of one rollout come in one batch. Of traces in the file that come together and have
        more than `large` spans only those come back that matter to reports.
        """
        self._ties = _Ties() if by_rollout else None
        self._most = most
        self._batch = batch
        self._large = large
        self._held: dict[str, list[Span]] = {}
        self._number = 0
        self._traces: dict[str, _Trace] = {}
        self._file: IO[bytes] | None = None

    def add(self, span: Span) -> None:
        """Take a span."""
        spans = self._held.get(span.trace_id)
        if spans is None:
            self._held[span.trace_id] = [span]
        else:
            spans.append(span)
        self._number += 1
        if self._number > self._most:
            self._put_away()

    def put(self, bundle: Bundle) -> None:
        """Take spans that are packed, and leave them so."""
        if self._file is None:
            self._file = TemporaryFile()  # noqa: SIM115 - `close` closes it
        trace = self._traces.get(bundle.trace_id)
        if trace is None:
            trace = self._traces[bundle.trace_id] = _Trace(bundle.start_ns)
        trace.start_ns = min(trace.start_ns, bundle.start_ns)
        trace.number += bundle.number
        trace.places.append(self._file.seek(0, os.SEEK_END))
        self._file.write(bundle.packed)
        if self._ties is not None:
            for rollout in bundle.rollouts:
                self._ties.tie(bundle.trace_id, rollout)

    def batches(self) -> Iterator[list[Span]]:
        """Yield all spans: at once where they are in memory, else the earliest traces first."""
        if self._file is None:
            yield [span for spans in self._held.values() for span in spans]
            return
        self._put_away()
        batch: list[Span] = []
        for group in self._groups():
            taken = self._relevant if sum(self._traces[of].number for of in group) > self._large else self._taken
            for trace_id in group:
                batch.extend(taken(self._file, self._traces[trace_id]))
            if len(batch) >= self._batch:
                yield batch
                batch = []
        if batch:
            yield batch

    def close(self) -> None:
        """Forget everything."""
        if self._file is not None:
            self._file.close()
        self._held.clear()
        self._traces.clear()

    def _put_away(self) -> None:
        """Move what is in memory to the file."""
        for trace_id, spans in self._held.items():
            self.put(bundle_of(trace_id, spans))
        self._held.clear()
        self._number = 0

    def _groups(self) -> list[list[str]]:
        """Return the traces in the file, the earliest first, and those that are tied together."""
        ordered = sorted(self._traces, key=lambda trace_id: (self._traces[trace_id].start_ns, trace_id))
        if self._ties is None:
            return [[trace_id] for trace_id in ordered]
        groups: dict[str, list[str]] = {}
        for trace_id in ordered:
            groups.setdefault(self._ties.representative(trace_id), []).append(trace_id)
        return list(groups.values())

    def _relevant(self, file: IO[bytes], trace: _Trace) -> Iterator[Span]:
        """Yield the spans of a trace that matter to its reports."""
        relevance = Relevance()
        for span in self._taken(file, trace):
            relevance.see(span)
        yield from filter(relevance.chosen(), self._taken(file, trace))

    @staticmethod
    def _taken(file: IO[bytes], trace: _Trace) -> Iterator[Span]:
        for place in trace.places:
            file.seek(place)
            yield from pickle.load(file)  # noqa: S301 - from a file without a name, which nobody else can write to


class _Ties:
    """Traces that belong together because they name the same rollout: sets that only grow (union-find)."""

    def __init__(self) -> None:
        self._named_by: dict[str, str] = {}
        """The first trace that named a rollout."""
        self._above: dict[str, str] = {}

    def tie(self, trace_id: str, rollout: str) -> None:
        first = self._named_by.setdefault(rollout, trace_id)
        one, other = self.representative(first), self.representative(trace_id)
        if one != other:
            self._above[other] = one

    def representative(self, trace_id: str) -> str:
        while (above := self._above.get(trace_id)) is not None:
            self._above[trace_id] = self._above.get(above, above)  # halves the way for the next time
            trace_id = above
        return trace_id
