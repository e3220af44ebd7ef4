"""From any source of spans to the reports in it, and to what could not be read."""

import logging
import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from io import IOBase
from typing import TYPE_CHECKING, Self

from gym_failures import limits
from gym_failures.reading.census import Census, Requests
from gym_failures.reading.model import Skip, SpanRecord, Tally
from gym_failures.reading.rebuild import By, checked, rebuild, rebuild_stored
from gym_failures.reading.rebuilt import RebuiltReport
from gym_failures.reading.scan import Intake, scan
from gym_failures.reading.shelf import Shelf
from gym_failures.reading.sources.files import File, Watch, is_path

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan

logger = logging.getLogger(__name__)


class Reports(list[RebuiltReport]):
    """The reports of one source, and how well it could be read."""

    def __init__(
        self,
        reports: Iterable[RebuiltReport],
        *,
        spans: int,
        skipped: Iterable[Skip] = (),
        skips: int = 0,
        requests: Mapping[str | None, Requests] | None = None,
    ) -> None:
        """Take the reports and the counts of what they were read from."""
        super().__init__(reports)
        self.spans = spans
        """Spans that were read, of traces without failures too."""
        self.skipped = tuple(skipped)
        """The first of what could not be read, at most `limits.SKIPS_NAMED`."""
        self.skips = skips
        """How much could not be read, in all."""
        self.requests = requests
        """The requests of each service; None unless they were asked for."""


class StoredReports:
    """The reports of files, made while one goes through them, so that memory holds some of them at a time only.

    One can go through them again until they are closed, which is what leaving them as a context does. What is known of
    the files is known before.
    """

    def __init__(
        self,
        shelf: Shelf,
        by: By,
        tallies: Collection[tuple[str, Tally]],
        requests: Mapping[str | None, Requests] | None,
    ) -> None:
        """Take the spans of the traces that failed, and the counts of what they were read from, each with its name."""
        self._shelf = shelf
        self._by = by
        skipped = [skip._replace(source=name) for name, tally in tallies for skip in tally.skipped]
        self.spans = sum(tally.spans for _, tally in tallies)
        """As in `Reports`, and so the others."""
        self.skipped = tuple(skipped[: limits.SKIPS_NAMED])
        self.skips = sum(tally.skips for _, tally in tallies)
        self.others = sum(tally.others for _, tally in tallies)
        """Records of metrics, logs and profiles, which are passed over: they are no damage, and no spans."""
        self.requests = requests

    def __iter__(self) -> Iterator[RebuiltReport]:
        """Make the reports, the earliest first; those of traces that a rollout ties together come one after another."""
        for spans in self._shelf.batches():
            yield from rebuild_stored(spans, by=self._by)

    def close(self) -> None:
        """Forget the spans, and the temporary file if there is one."""
        self._shelf.close()

    def __enter__(self) -> Self:
        """Return this."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close it."""
        self.close()


def read_reports(source: File | Iterable["ReadableSpan | SpanRecord"], *, by: By = "trace") -> Reports:
    """Return the reports of everything that failed in `source`, as `rebuild` does.

    `source` is the path of a file, an open one, its text (a str that begins like JSON, or bytes), or spans. A file
    holds OTLP JSON, what the Collector's file exporter writes instead of that (protobuf, or compressed), Jaeger's own
    JSON, or rows of rollouts, and can be compressed as a whole. It is read twice, as far as it goes when that begins,
    and memory grows with its failing traces only. What cannot be read is skipped, counted and logged in one warning,
    and so are a line over `limits.STORED_RECORD` and a document over `limits.STORED_DOCUMENT`; damage within a record
    of traces that did not fail may go unnoticed. Raises OSError for a path that cannot be opened, ModuleNotFoundError
    when text is given without the extra `reading` or a format's own, TypeError for what is no span, and ValueError for
    a wrong `by`.
    """
    if not isinstance(source, str | bytes | os.PathLike | IOBase):
        spans = list(source)
        return Reports(rebuild(spans, by=by), spans=len(spans))
    return _all(_read([("", source)], by, None))


def read_files(sources: Iterable[File], *, by: By = "trace", requests: bool = False) -> Reports:
    """Return the reports of everything that failed in several files together, as `read_reports` does of one.

    The spans of one trace are in the files of all the processes that it went through. Each source is a path, an open
    file or a text, and `Skip.source` names it: by its path, the name of the open file, or its number from 1.
    A path that is given twice is read once.
    With `requests` those of every service are counted too, which takes longer, because each span has to be decoded.
    """
    return _all(iter_reports(sources, by=by, requests=requests))


def iter_reports(
    sources: Iterable[File],
    *,
    by: By = "trace",
    requests: bool = False,
    workers: int = 1,
    watch: Watch | None = None,
) -> StoredReports:
    """Return the same reports as `read_files`, to be gone through in little memory, however many there are.

    The files are read before this returns. Of more than `limits.HELD_SPANS` spans of failing traces, all wait in a
    temporary file, which is as large as they are, and what memory holds is some hundred bytes for each such trace. Each
    report is made when its turn comes; by rollout, all traces of one are in memory then.

        with iter_reports(paths, by="rollout") as reports:
            kinds = Counter(report.root.failure_kind for report in reports if report.root)

    With several `workers`, which are processes, files of uncompressed OTLP JSON lines are read in parts. They are
    started anew, so a script has to keep what it does behind `if __name__ == "__main__"`. `watch` is called with the
    number of bytes that were read of a file, often, and twice for each file.
    """
    numbered = {os.fspath(source) if is_path(source) else number: source for number, source in enumerate(sources, 1)}
    named = [(_name_of(source) or str(number), source) for number, source in numbered.items()]
    return _read(named, by, Census() if requests else None, workers, watch)


def _all(stored: StoredReports) -> Reports:
    with stored:
        return Reports(stored, spans=stored.spans, skipped=stored.skipped, skips=stored.skips, requests=stored.requests)


def _read(
    named: Sequence[tuple[str, File]], by: By, census: Census | None, workers: int = 1, watch: Watch | None = None
) -> StoredReports:
    names = [name for name, _ in named]
    sources = {str(number): source for number, (_, source) in enumerate(named)}  # names need not differ
    tallies = {number: Tally() for number in sources}
    shelf = Shelf(by_rollout=checked(by) == "rollout", most=limits.HELD_SPANS, batch=limits.BATCH_SPANS)
    try:
        scan(sources, Intake(shelf, tallies, census), workers=workers, watch=watch)
    except BaseException:
        shelf.close()
        raise
    stored = StoredReports(
        shelf, by, [*zip(names, tallies.values(), strict=True)], None if census is None else census.requests()
    )
    if stored.skips:
        first = stored.skipped[0]
        logger.warning("skipped %d unreadable places, the first in %s: %s", stored.skips, first.where, first.reason)
    return stored


def _name_of(source: File) -> str | None:
    """Return the name of a source that has one; text that is given itself has none."""
    if is_path(source):
        return os.fspath(source)
    name: object = getattr(source, "name", None)
    return name if isinstance(name, str) else None
