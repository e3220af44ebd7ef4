"""Files and texts of lines, opened so that they can be read twice."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import BytesIO, IOBase
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
def opened(source: bytes | str | IOBase) -> Iterator[IOBase]:
    """Open a text, or a file that is open, for reading lines, at a place that one can seek back to.

    An open file is read from where it stands and left open; one that cannot seek, such as a pipe, is copied to disk
    first.
    """
    if isinstance(source, bytes | str):
        yield BytesIO(as_bytes(source))
    elif source.seekable():
        yield source
    else:
        with TemporaryFile() as copy:
            copy.writelines(map(as_bytes, source))
            copy.seek(0)
            yield copy


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
