"""One line of a file, to the spans that it holds: a record of OTLP JSON, a failure's line in a log, or both.

A writer that was killed leaves half a line, and the next one goes on behind it. So a line that cannot be read as one
thing is taken apart where a record or a failure's line begins, and each piece is read by itself.
"""

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from gym_failures.reading import log_lines
from gym_failures.reading.model import SpanRecord
from gym_failures.reading.otlp_line import decode_line
from gym_failures.reading.otlp_skeleton import ResourceSkeleton

_PIECE: Final = re.compile(rb"(?=%b|%b)" % (log_lines.START.pattern, log_lines.RECORD.pattern))


class Line(NamedTuple):
    """What a line holds, and what is wrong with it, one sentence a fault."""

    resources: list[ResourceSkeleton]
    faults: list[str]
    others: int
    """Records of other signals, which nothing is read of."""
    logged: list[SpanRecord]
    """What the lines of failures in it stand for."""


def read_line(line: bytes) -> Line:
    """Read one line; whatever it holds, this does not raise.

    What stands before and behind a failure's line is the format of a log, and no fault.
    """
    decoded = decode_line(line)
    if (decoded.resources and not decoded.faults) or not log_lines.tells(line):
        return Line(*decoded, logged=[])
    read = Line([], [], 0, [])
    for piece in _pieces(line):
        if not log_lines.tells(piece):
            resources, faults, _ = decode_line(piece)
            read.resources.extend(resources)
            read.faults.extend(faults)
        elif (span := log_lines.span_of(piece)) is not None:
            read.logged.append(span)
        else:
            read.faults.append(log_lines.DAMAGED)
    return read


def _pieces(line: bytes) -> Iterator[bytes]:
    """Yield the parts of a line that begin like a record or a failure's line."""
    starts = [found.start() for found in _PIECE.finditer(line)]
    for start, end in zip(starts, [*starts[1:], len(line)], strict=True):
        yield line[start:end]
