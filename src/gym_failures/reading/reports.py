"""From any source of spans to the reports in it, and to what could not be read."""

import logging
import os
from collections.abc import Iterable
from io import IOBase
from typing import TYPE_CHECKING

from gym_failures.reading.model import Skip, SpanRecord
from gym_failures.reading.rebuild import By, rebuild
from gym_failures.reading.rebuilt import RebuiltReport
from gym_failures.reading.sources.files import File, opened

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan

logger = logging.getLogger(__name__)


class Reports(list[RebuiltReport]):
    """The reports of one source, and how well it could be read."""

    def __init__(
        self, reports: Iterable[RebuiltReport], *, spans: int, skipped: Iterable[Skip] = (), skips: int = 0
    ) -> None:
        """Take the reports and the counts of what they were read from."""
        super().__init__(reports)
        self.spans = spans
        """Spans that were read, of traces without failures too."""
        self.skipped = tuple(skipped)
        """The first of what could not be read, at most `limits.SKIPS_NAMED`."""
        self.skips = skips
        """How much could not be read, in all."""


def read_reports(source: File | Iterable["ReadableSpan | SpanRecord"], *, by: By = "trace") -> Reports:
    """Return the reports of everything that failed in `source`, as `rebuild` does.

    `source` is the path of an OTLP JSON file, an open one, its text (a str that begins like JSON, or bytes), or spans.
    A file is read twice, and memory grows with its failing traces only. What cannot be read is skipped, counted and
    logged in one warning. Raises OSError for a path that cannot be opened, ModuleNotFoundError when text is given
    without the extra `reading`, TypeError for what is no span, and ValueError for a wrong `by`.
    """
    if not isinstance(source, str | bytes | os.PathLike | IOBase):
        spans = list(source)
        return Reports(rebuild(spans, by=by), spans=len(spans))
    from gym_failures.reading.otlp_json import parse_lines, survey  # noqa: PLC0415 - spans need no extra, text does

    with opened(source) as file:
        start = file.tell()
        found = survey(file)
        file.seek(start)
        read = (span for span in parse_lines(file, traces=found.traces) if isinstance(span, SpanRecord))
        reports = rebuild(read, by=by)
    if found.skips:
        logger.warning("skipped %d unreadable places, the first in line %d: %s", found.skips, *found.skipped[0])
    return Reports(reports, spans=found.spans, skipped=found.skipped, skips=found.skips)
