"""From any source of spans to the reports in it, and to what could not be read."""

import logging
import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import ExitStack
from io import IOBase
from typing import TYPE_CHECKING

from gym_failures import limits
from gym_failures.reading.census import Census, Requests
from gym_failures.reading.model import Skip, Span, SpanRecord, Tally
from gym_failures.reading.rebuild import By, rebuild, rebuild_stored
from gym_failures.reading.rebuilt import RebuiltReport
from gym_failures.reading.sources.files import File, is_path, opened

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


def read_reports(source: File | Iterable["ReadableSpan | SpanRecord"], *, by: By = "trace") -> Reports:
    """Return the reports of everything that failed in `source`, as `rebuild` does.

    `source` is the path of a file, an open one, its text (a str that begins like JSON, or bytes), or spans. A file
    holds OTLP JSON, what the Collector's file exporter writes instead of that (protobuf, or compressed), Jaeger's own
    JSON, or rows of rollouts, and can be compressed as a whole. It is read twice, and memory grows with its failing
    traces only. What cannot be read is skipped, counted and logged in one warning; damage within a record of traces
    that did not fail may go unnoticed. Raises OSError for a path that cannot be opened, ModuleNotFoundError when text
    is given without the extra `reading` or a format's own, TypeError for what is no span, and ValueError for a wrong
    `by`.
    """
    if not isinstance(source, str | bytes | os.PathLike | IOBase):
        spans = list(source)
        return Reports(rebuild(spans, by=by), spans=len(spans))
    return _read({"": source}, by, None)


def read_files(sources: Iterable[File], *, by: By = "trace", requests: bool = False) -> Reports:
    """Return the reports of everything that failed in several files together, as `read_reports` does of one.

    The spans of one trace are in the files of all the processes that it went through. Each source is a path, an open
    file or a text, and `Skip.source` names it: by its path, the name of the open file, or its number from 1.
    With `requests` those of every service are counted too, which takes longer, because each span has to be decoded.
    """
    named = {_name_of(source) or str(number): source for number, source in enumerate(sources, 1)}
    return _read(named, by, Census() if requests else None)


def _read(sources: Mapping[str, File], by: By, census: Census | None) -> Reports:
    """Read each of `sources` twice: to find the traces that failed anywhere, then to read those everywhere."""
    from gym_failures.reading.sources.contents import failing_traces  # noqa: PLC0415 - spans need no extra, text does

    tallies = {name: Tally() for name in sources}
    with ExitStack() as stack:
        # Paths are opened for each pass, one at a time, because there may be more of them than a process may hold open.
        held = {
            name: source if is_path(source) else stack.enter_context(opened(source)) for name, source in sources.items()
        }
        traces: set[str] = set()
        for one in held.values():
            with opened(one) as file:
                start = file.tell()
                traces.update(failing_traces(file))
                file.seek(start)
        reports = rebuild_stored(_spans(held, tallies, traces, census), by=by)
    skipped = [skip._replace(source=name) for name, tally in tallies.items() for skip in tally.skipped]
    skips = sum(tally.skips for tally in tallies.values())
    if skips:
        first = skipped[0]
        logger.warning("skipped %d unreadable places, the first in %s: %s", skips, first.where, first.reason)
    spans = sum(tally.spans for tally in tallies.values())
    requests = None if census is None else census.requests()
    return Reports(reports, spans=spans, skipped=skipped[: limits.SKIPS_NAMED], skips=skips, requests=requests)


def _spans(
    held: Mapping[str, File], tallies: Mapping[str, Tally], traces: Collection[str], census: Census | None
) -> Iterator[Span]:
    from gym_failures.reading.sources.contents import parse  # noqa: PLC0415 - as above

    for name, source in held.items():
        with opened(source) as file:
            if census is None:
                yield from parse(file, tallies[name], traces=traces)
                continue
            for span in parse(file, tallies[name], traces=None):
                census.see(span)
                if span.trace_id in traces:
                    yield span


def _name_of(source: File) -> str | None:
    """Return the name of a source that has one; text that is given itself has none."""
    if is_path(source):
        return os.fspath(source)
    name: object = getattr(source, "name", None)
    return name if isinstance(name, str) else None
