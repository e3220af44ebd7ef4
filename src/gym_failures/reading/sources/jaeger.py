"""A running Jaeger, asked by its query API for the traces that tell of failures.

The API has neither pages nor an order: it returns any traces of a range of times, up to a limit. So a range that is
full is asked for again in halves, until less than the limit comes back; what comes twice is kept once.
"""

import http.client
import json
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterable, Iterator, Mapping
from io import BytesIO
from typing import Final, TypeVar

import msgspec

from gym_failures import limits

_TELLING: Final = b'"failure.'
"""In each trace that tells of a failure; only these are kept."""
_MICROSECOND: Final = 1_000
"""In nanoseconds; Jaeger counts in microseconds."""


_T = TypeVar("_T")


class _Services(msgspec.Struct):
    data: list[str] | None


class _Traces(msgspec.Struct):
    data: list[msgspec.Raw] | None


class _Trace(msgspec.Struct):
    trace_id: str = msgspec.field(name="traceID")


_SERVICES: Final = msgspec.json.Decoder(_Services)
_TRACES: Final = msgspec.json.Decoder(_Traces)
_TRACE: Final = msgspec.json.Decoder(_Trace)


class JaegerError(Exception):
    """Jaeger did not answer as it should; the text says what was asked and what came back."""


class Found(BytesIO):
    """The traces of a search as one document, which can be read like a file of Jaeger's."""

    def __init__(self, document: bytes, name: str, *, full: bool) -> None:
        """Take the document, and the name to use for it."""
        super().__init__(document)
        self.name = name
        self.full = full
        """Whether there was a microsecond with more traces than one answer holds, so that some may be missing."""


class Jaeger:
    """The query API of a Jaeger, such as at `http://localhost:16686`."""

    def __init__(self, url: str, *, seconds: float = limits.JAEGER_SECONDS, most: int = limits.JAEGER_TRACES) -> None:
        """Ask at `url`; an answer may take `seconds` and hold `most` traces. Raises JaegerError for what is no URL."""
        try:
            parts = urllib.parse.urlsplit(url)
        except ValueError as error:
            raise JaegerError(f"{url} is no URL: {error}") from None
        if "@" in parts.netloc:  # not to be shown
            raise JaegerError("a URL with a user is not taken")
        if parts.scheme not in {"http", "https"}:
            raise JaegerError(f"{url} is no URL like http://localhost:16686")
        self._url = url.rstrip("/")
        self._seconds = seconds
        self._most = most

    def services(self) -> list[str]:
        """Return the names of the services that Jaeger knows spans of; raises JaegerError."""
        return self._ask(_SERVICES, "/api/services").data or []

    def failing(
        self, services: Iterable[str], *, since_ns: int, until_ns: int, tags: Mapping[str, str] | None = None
    ) -> Found:
        """Return the traces that tell of failures and have a span of one of `services` that started in that time.

        Times are nanoseconds since the epoch; `tags` are what that span, or an event of it, has to have. Raises
        JaegerError.
        """
        traces: dict[str, bytes] = {}
        full = False
        for service in services:
            ranges = [(since_ns // _MICROSECOND, until_ns // _MICROSECOND)]
            while ranges:
                start, end = ranges.pop()
                found = list(self._traces(service, start, end, tags))
                traces.update((trace_id, trace) for trace_id, trace in found if _TELLING in trace)
                if len(found) < self._most:
                    continue
                if start >= end:
                    full = True
                    continue
                middle = (start + end) // 2
                ranges += [(start, middle), (middle + 1, end)]
        return Found(b'{"data":[' + b",".join(traces.values()) + b"]}", self._url, full=full)

    def _traces(
        self, service: str, start: int, end: int, tags: Mapping[str, str] | None
    ) -> Iterator[tuple[str, bytes]]:
        query = {"service": service, "start": str(start), "end": str(end), "limit": str(self._most)}
        if tags:
            query["tags"] = json.dumps(tags)
        for trace in self._ask(_TRACES, "/api/traces", query).data or ():
            yield self._decode(_TRACE, trace).trace_id, bytes(trace)

    def _ask(self, decoder: "msgspec.json.Decoder[_T]", path: str, query: Mapping[str, str] | None = None) -> _T:
        asked = f"{self._url}{path}"
        full = f"{asked}?{urllib.parse.urlencode(query)}" if query else asked
        try:
            with urllib.request.urlopen(full, timeout=self._seconds) as answer:  # noqa: S310 - http, made sure of above
                body = answer.read()
        except urllib.error.HTTPError as error:
            error.close()
            raise JaegerError(f"{asked} answered {error.code}") from error
        except (OSError, ValueError, http.client.HTTPException) as error:
            raise JaegerError(f"{asked} did not answer: {getattr(error, 'reason', error)}") from error
        return self._decode(decoder, body)

    def _decode(self, decoder: "msgspec.json.Decoder[_T]", text: bytes | msgspec.Raw) -> _T:
        try:
            return decoder.decode(text)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise JaegerError(f"{self._url} did not answer like Jaeger") from error
