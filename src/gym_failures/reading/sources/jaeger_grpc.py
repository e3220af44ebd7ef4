"""A running Jaeger, asked by gRPC: its API of version 3, which answers with OTLP.

Its messages are defined in `jaeger/api_v3/query_service.proto` of jaegertracing/jaeger-idl. Of those only the request
has more than one field; it is written here by hand, which is less than a generated module, or a schema of it, would be.
"""

import ssl
import weakref
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager
from itertools import groupby
from pathlib import Path
from typing import ClassVar, Final
from urllib.parse import SplitResult, urlsplit

from gym_failures import limits
from gym_failures.misuse import MissingExtraError
from gym_failures.reading.otlp_proto import trace_id
from gym_failures.reading.sources.frames import HEAD
from gym_failures.reading.sources.jaeger_search import JaegerError, JaegerSearch, Tags

try:
    import grpc
    from google.protobuf.field_mask_pb2 import FieldMask
    from google.protobuf.message import DecodeError
except ModuleNotFoundError as error:
    raise MissingExtraError("Jaeger's gRPC API", "grpc", "grpc") from error

_SERVICE: Final = "/jaeger.api_v3.QueryService/"
_UNANSWERED: Final = frozenset({grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED})
"""What the client says by itself where no answer comes."""
_GROUP: Final = 0x7F
"""The seven bits of a group in a number of protobuf's."""
_SECOND: Final = 10**6
"""In microseconds."""
_MICROSECOND: Final = 1_000
"""In nanoseconds."""


class JaegerGrpc(JaegerSearch):
    """The gRPC API of a Jaeger, such as at `grpc://localhost:16685`; with `grpcs` by TLS.

    A server is believed that those vouch for whom the system's OpenSSL trusts, or `SSL_CERT_FILE` names; where these
    are in no one file, those whom gRPC itself knows.
    """

    schemes: ClassVar = ("grpc", "grpcs")
    example: ClassVar = "grpc://localhost:16685"
    telling: ClassVar = b"failure."

    def __init__(self, url: str, *, seconds: float = limits.JAEGER_SECONDS, most: int = limits.JAEGER_TRACES) -> None:
        """Take the same as any search."""
        super().__init__(url, seconds=seconds, most=most)
        parts = urlsplit(self._url)
        target = f"dns:///{parts.netloc}"  # Alone, a host such as `unix` would be something else.
        options = [("grpc.max_receive_message_length", limits.STORED_RECORD)]
        self._channel = (
            grpc.insecure_channel(target, options)
            if parts.scheme == "grpc"
            else grpc.secure_channel(target, grpc.ssl_channel_credentials(_trusted()), options)
        )
        weakref.finalize(self, self._channel.close)

    def _takes(self, parts: SplitResult) -> bool:
        return (
            super()._takes(parts)
            and parts.port is not None
            and parts.path in {"", "/"}
            and not parts.query + parts.fragment
        )

    def services(self) -> list[str]:
        """Return the names of the services that Jaeger knows spans of; raises JaegerError."""
        with self._asking("GetServices") as asked:
            answer: bytes = self._channel.unary_unary(asked)(b"", timeout=self._seconds)
        try:
            # On the wire GetServicesResponse is the same as this: one field, number 1, of any number of texts.
            return [*FieldMask.FromString(answer).paths]
        except DecodeError as error:
            raise self._unlike() from error

    def _find(self, service: str, start: int, end: int, tags: Tags) -> Generator[tuple[str, bytes]]:
        # Jaeger's stores may cut a trace, into messages that come one after another, and put no two into one message.
        with closing(self._messages(_find_traces(service, start, end, tags, self._most))) as messages:
            for of, parts in groupby(messages, key=lambda message: message[0]):
                yield of, self._joined(of, (part for _, part in parts))

    def _messages(self, request: bytes) -> Generator[tuple[str, bytes]]:
        with self._asking("FindTraces") as asked:
            call = self._channel.unary_stream(asked)(request, timeout=self._seconds)
            try:
                for message in call:
                    of = trace_id(message)
                    if of is None:
                        raise self._unlike()
                    if of:
                        yield of, message
            finally:
                call.cancel()

    def _joined(self, of: str, parts: Iterator[bytes]) -> bytes:
        """Return the messages of a trace as one, which they are one behind the other."""
        kept: list[bytes] = []
        left = limits.STORED_RECORD
        for part in parts:
            left -= len(part)
            if left < 0:
                raise JaegerError(f"{self._url} has a trace of more than {limits.STORED_RECORD >> 20} MiB: {of}")
            kept.append(part)
        return b"".join(kept)

    def _document(self, traces: Iterator[bytes]) -> Iterator[bytes]:
        for trace in traces:
            yield len(trace).to_bytes(HEAD)
            yield trace

    @contextmanager
    def _asking(self, method: str) -> Iterator[str]:
        """Give the name that gRPC has for a method, and tell in one line what goes wrong with it."""
        try:
            yield f"{_SERVICE}{method}"
        except grpc.RpcError as error:
            code, said = error.code(), error.details()
            answered = "did not answer" if code in _UNANSWERED else f"answered {code.name}"
            raise JaegerError(f"{self._url}{_SERVICE}{method} {answered}: {said}") from error

    def _unlike(self) -> JaegerError:
        return JaegerError(f"{self._url} did not answer like Jaeger")


def _trusted() -> bytes | None:
    """Return the certificates of whom OpenSSL trusts; None where they are in no one file."""
    file = ssl.get_default_verify_paths().cafile
    return Path(file).read_bytes() if file else None


def _find_traces(service: str, start: int, end: int, tags: Tags, most: int) -> bytes:
    """Return a FindTracesRequest for traces as they were stored, which began from one microsecond to another."""
    query = (
        _text(1, service),  # service_name
        *(_part(3, _text(1, key) + _text(2, value)) for key, value in tags.items()),  # attributes
        _part(4, _timestamp(start)),  # start_time_min
        _part(5, _timestamp(end)),  # start_time_max
        _number(8, most),  # search_depth
        _number(9, 1),  # raw_traces
    )
    return _part(1, b"".join(query))


def _timestamp(microseconds: int) -> bytes:
    seconds, rest = divmod(microseconds, _SECOND)
    return _number(1, seconds) + _number(2, rest * _MICROSECOND)


def _text(field: int, value: str) -> bytes:
    return _part(field, value.encode("utf-8", "replace"))  # What is asked for can come from a command line.


def _part(field: int, value: bytes) -> bytes:
    """Return a field with a length, as texts, messages and the entries of maps are."""
    return _varint(field << 3 | 2) + _varint(len(value)) + value


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _varint(value: int) -> bytes:
    """Return a number in groups of seven bits, the lowest first; a bit before each but the last says that more come."""
    groups = []
    while value > _GROUP:
        groups.append(value & _GROUP | _GROUP + 1)
        value >>= 7
    return bytes([*groups, value])
