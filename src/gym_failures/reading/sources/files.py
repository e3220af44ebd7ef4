"""Files and texts of lines, opened so that they can be read twice."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import BufferedReader, BytesIO, FileIO, IOBase
from pathlib import Path
from tempfile import TemporaryFile
from typing import TypeGuard

from gym_failures import limits
from gym_failures.reading.otlp_values import OVERLONG, as_bytes
from gym_failures.reading.sources.stream import Stream

File = str | bytes | os.PathLike[str] | IOBase
"""A path, an open file, or the text itself: a str that begins like JSON is text, and any other str is a path."""

Watch = Callable[[int], object]
"""Called with the number of bytes that were read."""


def is_path(source: File) -> TypeGuard[str | os.PathLike[str]]:
    """Tell whether `source` is the path of a file, and neither an open one nor the text itself."""
    if isinstance(source, str):
        return source.lstrip()[:1] not in {"{", "[", ""}
    return isinstance(source, os.PathLike)


@contextmanager
def opened(source: File, watch: Watch | None = None) -> Iterator[IOBase]:
    """Open `source` for reading lines, at a place that one can seek back to.

    An open file is read from where it stands and left open; one that cannot seek, such as a pipe, is copied to disk
    first. How far one is in a file that is given by its path, `watch` is told. Raises OSError for a path that cannot be
    opened.
    """
    if isinstance(source, IOBase):
        if source.seekable():
            yield source
            return
        with TemporaryFile() as copy:
            copy.writelines(map(as_bytes, source))
            copy.seek(0)
            yield copy
    elif isinstance(source, bytes) or (isinstance(source, str) and not is_path(source)):
        yield BytesIO(as_bytes(source))
    else:
        with _Watched(FileIO(source), watch) if watch else Path(source).open("rb") as file:
            yield file


class _Watched(BufferedReader):
    """A file that tells how much is read of it."""

    def __init__(self, raw: FileIO, watch: Watch) -> None:
        super().__init__(raw)
        self._watch = watch

    def read(self, size: int | None = -1, /) -> bytes:
        read = super().read(size)
        self._watch(len(read))
        return read


def blocks(file: IOBase | Stream) -> Iterator[bytes]:
    """Yield what `file` holds as texts of whole lines, of about `limits.READ_BLOCK` bytes each.

    Memory does not grow with a line: instead of one over `limits.STORED_RECORD` there is `OVERLONG`. Nor does it grow
    with the NULs that are in a file up to where its writer was when somebody truncated it: of many a few are left.
    """
    parts: list[bytes | memoryview] = []
    size = 0  # of the line that has not ended
    while read := file.read(limits.READ_BLOCK):
        text = as_bytes(read)
        end = text.rfind(b"\n") + 1
        if end:
            start = 0
            if size > limits.STORED_RECORD:
                parts, start = [OVERLONG], text.find(b"\n")
            parts.append(memoryview(text)[start:end])
            yield b"".join(parts)
            parts, size = [], 0
        rest = text[end:]
        if rest.startswith(b"\0"):
            rest = b"\0" + rest.lstrip(b"\0")
        parts.append(rest)
        size += len(rest)
        if size > limits.STORED_RECORD:
            parts = []
    if size > limits.STORED_RECORD:
        yield OVERLONG
    elif any(parts):
        yield b"".join(parts)
