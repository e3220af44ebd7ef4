"""Compressed bytes, unpacked while they are read: gzip (RFC 1952) and Zstandard (RFC 8878).

A file that was cut gives all that is before the cut. No more is unpacked at once than `limits.READ_BLOCK`: what a small
file that unpacks to a huge one costs is time, and of memory what whoever reads it keeps, which is at most a line of
`limits.STORED_RECORD` or a document of `limits.STORED_DOCUMENT`.
"""

import zlib
from collections.abc import Callable, Iterator
from functools import partial
from io import BufferedReader, RawIOBase
from typing import TYPE_CHECKING, Final, Protocol

from gym_failures import limits
from gym_failures.misuse import MissingExtraError
from gym_failures.reading.otlp_values import TOO_LONG
from gym_failures.reading.sources.stream import Complain, Stream

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

GZIP: Final = b"\x1f\x8b"
ZSTD: Final = b"\x28\xb5\x2f\xfd"


class _Decompressor(Protocol):
    """One member of a compressed file; in the standard library, the newer decompressors are like this."""

    @property
    def eof(self) -> bool: ...
    @property
    def needs_input(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, max_length: int) -> bytes: ...


def is_packed(start: bytes) -> bool:
    """Tell whether a file that starts like this is compressed."""
    return start.startswith((GZIP, ZSTD))


def unpacked(stream: Stream, complain: Complain) -> Stream:
    """Return what `stream` unpacks to, and itself where it was not compressed.

    Raises MissingExtraError where it is Zstandard, and nothing here can unpack that.
    """
    start = stream.peek(len(ZSTD))
    if start.startswith(GZIP):
        return Stream(_parts(stream, complain, _Gunzip, zlib.error))
    if start.startswith(ZSTD):
        return Stream(_parts(stream, complain, *_zstd()))
    return stream


def lines_of(file: BufferedReader, complain: Complain) -> Iterator[tuple[bytes, bool]]:
    """Yield the lines of a file as they are, each with True, unpacked where it is compressed; raises as above.

    A line over `limits.STORED_RECORD` is told of, and comes in pieces, each with False.
    """
    most = limits.STORED_RECORD + 1  # with its end
    parts = Stream(iter(lambda: file.read(limits.READ_BLOCK), b""))
    with BufferedReader(_Readable(unpacked(parts, complain)), limits.READ_BLOCK) as lines:
        for number, line in enumerate(iter(partial(lines.readline, most), b""), 1):
            is_whole = len(line) < most or line.endswith(b"\n")
            yield line, is_whole
            if is_whole:
                continue
            complain(number, TOO_LONG)
            piece = line
            while not piece.endswith(b"\n") and (piece := lines.readline(limits.READ_BLOCK)):
                yield piece, False


class _Readable(RawIOBase):
    """A stream as a file."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: "WriteableBuffer", /) -> int:
        room = memoryview(buffer)
        part = self._stream.read(len(room))
        room[: len(part)] = part
        return len(part)


def message(packed: bytes) -> bytes | None:
    """Return one message, unpacked where it is Zstandard; None for a damaged one, and one over `limits.STORED_RECORD`.

    Raises MissingExtraError as above.
    """
    if not packed.startswith(ZSTD):
        return packed
    new, error = _zstd()
    one = new()
    try:
        found = one.decompress(packed, limits.STORED_RECORD)
    except error:
        return None
    return found if one.eof else None


def _parts(
    stream: Stream, complain: Complain, new: Callable[[], _Decompressor], error: type[Exception]
) -> Iterator[bytes]:
    """Yield what the members of a compressed file unpack to; zeros between them are padding."""
    packed = b""
    while packed := packed.lstrip(b"\0") or stream.read(limits.READ_BLOCK):
        member = new()
        while not member.eof:
            try:
                part = member.decompress(packed, limits.READ_BLOCK)
            except error:
                complain(0, "the compressed data is damaged; what comes after cannot be read")
                return
            if part:
                yield part
            packed = stream.read(limits.READ_BLOCK) if member.needs_input else b""
            if not part and not packed and not member.eof:
                complain(0, "the compressed data ends too soon")
                return
        packed = member.unused_data


class _Gunzip:
    """zlib's decompressor in the form of the newer ones."""

    def __init__(self) -> None:
        self._inner = zlib.decompressobj(wbits=31)

    @property
    def eof(self) -> bool:
        return self._inner.eof

    @property
    def needs_input(self) -> bool:
        return not self._inner.eof and not self._inner.unconsumed_tail

    @property
    def unused_data(self) -> bytes:
        return self._inner.unused_data

    def decompress(self, data: bytes, max_length: int) -> bytes:
        return self._inner.decompress(self._inner.unconsumed_tail + data, max_length)


def _zstd() -> tuple[Callable[[], _Decompressor], type[Exception]]:
    try:
        from compression import zstd  # type: ignore[import-not-found,unused-ignore]  # noqa: PLC0415 - Python 3.14
    except ModuleNotFoundError:
        try:
            from backports import zstd  # noqa: PLC0415 - only where there is something to unpack
        except ModuleNotFoundError as error:
            raise MissingExtraError("Zstandard", "backports.zstd", "zstd") from error
    return zstd.ZstdDecompressor, zstd.ZstdError
