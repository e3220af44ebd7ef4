"""Records that stand one behind the other, each after its length.

The Collector's file exporter writes so what cannot stand on a line: protobuf, and whatever it compresses, which it does
record by record. The length has four bytes, the highest first.
"""

from collections.abc import Iterator
from typing import Final

from gym_failures import limits
from gym_failures.reading.sources.stream import Complain, Stream
from gym_failures.reading.sources.unpacking import message

HEAD: Final = 4
"""Size of the length in front of a record, in bytes."""


def is_framed(start: bytes) -> bool:
    """Tell whether a file that starts like this holds such records.

    No text starts like the length of a likely record, with a byte of 0 to 3. Where a file was truncated under a program
    that goes on writing, there are zeros, and no length.
    """
    return len(start) > HEAD and 0 < int.from_bytes(start[:HEAD]) <= limits.STORED_RECORD


def frames(stream: Stream, complain: Complain) -> Iterator[bytes]:
    """Yield each record, unpacked if it was compressed; nothing, as empty bytes, for one that cannot be unpacked.

    Raises MissingExtraError where a record was compressed, and nothing here can unpack it.
    """
    number = 0
    while head := stream.exactly(HEAD):
        number += 1
        size = int.from_bytes(head)
        if len(head) < HEAD or size > limits.STORED_RECORD:
            complain(number, "no record begins here; what comes after cannot be read")
            return
        record = stream.exactly(size)
        if len(record) < size:
            complain(number, "the record is cut off")
            return
        unpacked = message(record)
        if unpacked is None:
            complain(number, "the compressed record is damaged, or too large")
        yield unpacked or b""
