"""Large files of lines, cut into parts that can be read apart from each other."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from gym_failures import limits
from gym_failures.reading.sources.contents import is_lines_only
from gym_failures.reading.sources.files import blocks
from gym_failures.reading.sources.stream import Stream


class Part(NamedTuple):
    """Whole lines of a file, from the byte `start` to before the byte `end`."""

    path: str
    start: int
    end: int


def cut(path: str | os.PathLike[str], size: int = limits.PART_BYTES) -> list[Part]:
    """Return the parts of a file of OTLP JSON lines, each of about `size` bytes; none where it cannot be cut.

    That is where it is compressed, of another format, or one document. A line of more than `limits.STORED_RECORD` is
    left in one part with all that comes after. Raises OSError for a file that cannot be opened.
    """
    with Path(path).open("rb") as file:
        if not (file.seekable() and is_lines_only(file)):
            return []
        end = file.seek(0, os.SEEK_END)
        starts = [0]
        while starts[-1] + size < end:
            file.seek(starts[-1] + size - 1)
            if not file.readline(limits.STORED_RECORD).endswith(b"\n"):
                break
            starts.append(file.tell())
    ends = [*starts[1:], end]
    return [Part(os.fspath(path), *bounds) for bounds in zip(starts, ends, strict=True) if bounds[0] < bounds[1]]


def blocks_of(part: Part) -> Iterator[bytes]:
    """Yield the lines of a part as `blocks` does those of a file."""
    with Path(part.path).open("rb") as file:
        file.seek(part.start)
        left = part.end - part.start

        def read() -> bytes:
            nonlocal left
            piece = file.read(min(left, limits.READ_BLOCK))
            left -= len(piece)
            return piece

        yield from blocks(Stream(iter(read, b"")))
