"""A search of a running Jaeger for the traces that tell of failures, by whichever of its APIs.

None of them has pages or an order: each returns any traces of a range of times, up to a limit. So a range that is full
is asked for again in halves, until less than the limit comes back; what comes twice is kept once.
"""

import urllib.parse
from abc import ABC, abstractmethod
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import closing
from tempfile import SpooledTemporaryFile
from typing import ClassVar, Final

from gym_failures import limits
from gym_failures.reading.sources.urls import names_a_host

_MICROSECOND: Final = 1_000
"""In nanoseconds; most of Jaeger's stores keep no more of a time."""

Tags = Mapping[str, str]
"""What a span, or an event of it, has to have."""


class JaegerError(Exception):
    """Jaeger did not answer as it should; the text says what was asked and what came back."""


class Found(SpooledTemporaryFile[bytes]):
    """The traces of a search, which can be read like a file; in memory as far as `limits.JAEGER_HELD` goes."""

    name: str = ""

    def __init__(self, name: str) -> None:
        """Take the name to use for it."""
        super().__init__(limits.JAEGER_HELD)
        self.name = name
        self.full = False
        """Whether there was a microsecond with more traces than one answer holds, so that some may be missing."""

    def __del__(self) -> None:
        """Close it: whoever reads a file that is open leaves it open, and this one nobody else has."""
        self.close()


class JaegerSearch(ABC):
    """One of the APIs of the Jaeger at a URL."""

    schemes: ClassVar[tuple[str, ...]]
    """How such a URL begins."""
    example: ClassVar[str]
    """Such a URL."""
    telling: ClassVar[bytes]
    """In each trace that tells of a failure, as the API has it; only these are kept."""

    def __init__(self, url: str, *, seconds: float = limits.JAEGER_SECONDS, most: int = limits.JAEGER_TRACES) -> None:
        """Ask at `url`; an answer may take `seconds` and hold `most` traces. Raises JaegerError for what is no URL."""
        try:
            parts = urllib.parse.urlsplit(url)
        except ValueError as error:
            raise JaegerError(f"{url} is no URL: {error}") from None
        if "@" in parts.netloc:  # not to be shown
            raise JaegerError("a URL with a user is not taken")
        if parts.scheme not in self.schemes or not self._takes(parts):
            raise JaegerError(f"{url} is no URL like {self.example}")
        self._url = url.rstrip("/")
        self._seconds = seconds
        self._most = most

    def _takes(self, parts: urllib.parse.SplitResult) -> bool:
        """Tell whether the API can be at a URL of one of its schemes."""
        return names_a_host(parts)

    @abstractmethod
    def services(self) -> list[str]:
        """Return the names of the services that Jaeger knows spans of; raises JaegerError."""

    def failing(self, services: Iterable[str], *, since_ns: int, until_ns: int, tags: Tags | None = None) -> Found:
        """Return the traces that tell of failures and have a span of one of `services` that started in that time.

        Times are nanoseconds since the epoch, and one before it is the epoch; `tags` are what that span, or an event of
        it, has to have. Raises JaegerError, and OSError where there is no room for what does not fit into memory.
        """
        found = Found(self._url)
        period = max(since_ns, 0) // _MICROSECOND, -(-max(until_ns, 0) // _MICROSECOND)
        for part in self._document(self._traces(found, services, period, tags or {})):
            found.write(part)
        found.seek(0)
        return found

    def _traces(self, found: Found, services: Iterable[str], period: tuple[int, int], tags: Tags) -> Iterator[bytes]:
        """Yield each trace of a period that tells of a failure, once, and say in `found` whether some may be missing.

        A range goes from a microsecond to another. Stores differ in whether the end belongs to it, so halves have the
        middle in common, and the shortest range is one microsecond long.
        """
        kept: set[str] = set()
        for service in services:
            ranges = [period]
            while ranges:
                start, end = ranges.pop()
                ids: set[str] = set()
                with closing(self._find(service, start, end, tags)) as traces:
                    for trace_id, trace in traces:
                        ids.add(trace_id)
                        if trace_id not in kept and self.telling in trace:
                            kept.add(trace_id)
                            yield trace
                        if len(ids) >= self._most and end - start > 1:
                            break  # It is asked for in halves.
                if len(ids) < self._most:
                    continue
                if end - start <= 1:
                    found.full = True
                    continue
                middle = (start + end) // 2
                ranges += [(start, middle), (middle, end)]

    @abstractmethod
    def _find(self, service: str, start: int, end: int, tags: Tags) -> Generator[tuple[str, bytes]]:
        """Yield the id and the whole of each trace of an answer; times are microseconds."""

    @abstractmethod
    def _document(self, traces: Iterator[bytes]) -> Iterator[bytes]:
        """Yield what stands in a file of these traces."""
