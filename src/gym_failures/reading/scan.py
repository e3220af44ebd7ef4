"""Files to the spans of the traces that failed: read twice, by this process or by several."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from gym_failures import limits
from gym_failures.reading.census import Census
from gym_failures.reading.model import Tally
from gym_failures.reading.shelf import Shelf
from gym_failures.reading.sources.files import File, Watch
from gym_failures.reading.sources.noted import REPLACED, Noted
from gym_failures.reading.spans import Readable, See, failing_traces_in, held, spans_in

if TYPE_CHECKING:
    from gym_failures.reading.sources.parts import Part
    from gym_failures.reading.workers import Found


class Intake(NamedTuple):
    """Where everything goes that is read."""

    shelf: Shelf
    """Takes the spans of the traces that failed."""
    tallies: Mapping[str, Tally]
    """One for each source."""
    census: Census | None
    """Sees every span; None where nobody asked for that."""

    @property
    def see(self) -> See | None:
        """What every span is shown to."""
        return None if self.census is None else self.census.see


def scan(sources: Mapping[str, File], intake: Intake, *, workers: int = 1, watch: Watch | None = None) -> None:
    """Read the spans of all traces in which anything failed in any of `sources`.

    With more `workers` than one, so many processes read files of lines in parts, and this one what cannot be cut.
    `watch` is told how much is read of files, each of which is read twice, and both times as far as it goes now; one
    that is replaced meanwhile is a skip.
    """
    with held(sources) as readable:
        if workers > 1:
            _scan_together(readable, intake, workers, watch)
            return
        traces = failing_traces_in(readable, watch)
        for _, span in spans_in(readable, intake.tallies, traces, see=intake.see, watch=watch):
            intake.shelf.add(span)


def _scan_together(sources: Mapping[str, Readable], intake: Intake, workers: int, watch: Watch | None) -> None:
    from gym_failures.reading.sources.parts import cut  # noqa: PLC0415 - text needs an extra, spans do not
    from gym_failures.reading.workers import failing_in, found_in, several  # noqa: PLC0415 - as above

    parts = {name: cut(source, limits.PART_BYTES) for name, source in sources.items() if isinstance(source, Noted)}
    left = {name: source for name, source in sources.items() if not parts.get(name)}
    every = [part for some in parts.values() for part in some]
    with several(workers) as run:
        failing = run(failing_in, every)
        traces = failing_traces_in(left, watch)
        for part, telling in zip(every, failing, strict=True):
            traces.update(telling)
            if watch is not None:
                watch(part.end - part.start)
        found = run(partial(found_in, traces=traces, with_census=intake.census is not None), every)
        for _, span in spans_in(left, intake.tallies, traces, see=intake.see, watch=watch):
            intake.shelf.add(span)
        take_in(parts, found, intake, watch)


def take_in(
    parts: "Mapping[str, Sequence[Part]]", found: "Iterator[Found]", intake: Intake, watch: Watch | None = None
) -> None:
    """Take in what is `found` in the parts of each source, in their order.

    It is taken as it comes, so that no more of it is in memory than what those who find it are ahead.
    """
    census = intake.census
    for name, some in parts.items():
        lines, was_replaced = 0, False
        for part in some:
            one = next(found)
            intake.tallies[name].add(one.tally, after=lines)
            lines += one.lines
            was_replaced |= one.was_replaced
            for bundle in one.bundles:
                intake.shelf.put(bundle)
            if census is not None and one.census is not None:
                census.add(one.census)
            if watch is not None:
                watch(part.end - part.start)
        if was_replaced:
            intake.tallies[name].skip(0, REPLACED)
