"""Large files of lines, cut into parts that can be read apart from each other."""

from collections.abc import Iterator
from typing import NamedTuple

from gym_failures import limits
from gym_failures.reading.sources.contents import is_lines_only
from gym_failures.reading.sources.files import blocks
from gym_failures.reading.sources.noted import Noted, ReplacedError
from gym_failures.reading.sources.stream import Stream


class Part(NamedTuple):
    """Whole lines of a file, from the byte `start` to before the byte `end`."""

    file: Noted
    start: int
    end: int


def cut(noted: Noted, size: int = limits.PART_BYTES) -> list[Part]:
    """Return the parts of a file of OTLP JSON lines, each of about `size` bytes; none where it cannot be cut.

    That is where it is compressed, of another format, or one document, or was replaced. A line of more than
    `limits.STORED_RECORD` is left in one part with all that comes after. Raises OSError for a file that cannot be
    opened.
    """
    if noted.size is None:
        return []
    starts = [0]
    try:
        with noted.open() as file:
            if not is_lines_only(file):
                return []
            while starts[-1] + size < noted.size:
                file.seek(starts[-1] + size - 1)
                if not file.readline(limits.STORED_RECORD).endswith(b"\n"):
                    break
                starts.append(file.tell())
    except ReplacedError:
        return []
    ends = [*starts[1:], noted.size]
    return [Part(noted, *bounds) for bounds in zip(starts, ends, strict=True) if bounds[0] < bounds[1]]


def blocks_of(part: Part) -> Iterator[bytes]:
    """Yield the lines of a part as `blocks` does those of a file; raises ReplacedError as well."""
    with part.file.open() as file:
        file.seek(part.start)
        left = part.end - part.start

        def read() -> bytes:
            nonlocal left
            piece = file.read(min(left, limits.READ_BLOCK))
            left -= len(piece)
            return piece

        yield from blocks(Stream(iter(read, b"")))
