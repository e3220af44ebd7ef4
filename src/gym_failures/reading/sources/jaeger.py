"""A running Jaeger, asked in its own JSON by HTTP, as its pages ask it."""

import http.client
import json
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Generator, Iterator, Mapping
from typing import ClassVar, Final, TypeVar

import msgspec

from gym_failures.reading.sources.jaeger_search import JaegerError, JaegerSearch, Tags

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


class Jaeger(JaegerSearch):
    """The API of a Jaeger's pages, such as at `http://localhost:16686`."""

    schemes: ClassVar = ("http", "https")
    example: ClassVar = "http://localhost:16686"
    telling: ClassVar = b'"failure.'

    def services(self) -> list[str]:
        """Return the names of the services that Jaeger knows spans of; raises JaegerError."""
        return self._ask(_SERVICES, "/api/services").data or []

    def _find(self, service: str, start: int, end: int, tags: Tags) -> Generator[tuple[str, bytes]]:
        query = {"service": service, "start": str(start), "end": str(end), "limit": str(self._most)}
        if tags:
            query["tags"] = json.dumps(tags)
        for trace in self._ask(_TRACES, "/api/traces", query).data or ():
            yield self._decode(_TRACE, trace).trace_id, bytes(trace)

    def _document(self, traces: Iterator[bytes]) -> Iterator[bytes]:
        yield b'{"data":['
        between = b""
        for trace in traces:
            yield between
            yield trace
            between = b","
        yield b"]}"

    def _ask(self, decoder: "msgspec.json.Decoder[_T]", path: str, query: Mapping[str, str] | None = None) -> _T:
        asked = f"{self._url}{path}"
        full = f"{asked}?{urllib.parse.urlencode(query)}" if query else asked
        try:
            with urllib.request.urlopen(full, timeout=self._seconds) as answer:  # noqa: S310 - http, made sure of
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
