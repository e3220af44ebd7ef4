"""A file that a program is still writing, read as far as it goes and then on from there."""

from collections.abc import Iterator
from io import BufferedReader

from gym_failures import limits
from gym_failures.reading.sources.stream import Complain


class Tail:
    """The place in one file up to which its lines were read, whatever the file is called by now."""

    def __init__(self) -> None:
        """Begin at the start of the file."""
        self._begin()

    def _begin(self) -> None:
        self.lines = 0
        """Lines that were read of the file that is there now."""
        self._at = 0
        self._before = b""
        """What stands right before that place: where it no longer does, this is another file."""
        self._is_too_long = False
        """Whether the place is within a line that is passed over."""

    def find(self, file: BufferedReader) -> int:
        """Put `file` to where reading goes on, and return that place, in bytes; 0 is its start.

        That is where a file begins that was truncated, or written anew, since the last time.
        """
        file.seek(self._at - len(self._before))
        if file.read(len(self._before)) != self._before:
            self._begin()
        return file.seek(self._at)

    def texts(self, file: BufferedReader, complain: Complain) -> Iterator[bytes]:
        """Yield the whole lines that came since the last time, in texts of a block or of one longer line.

        What is after the last end of a line is left until that end has come; a line of more than
        `limits.STORED_RECORD` is passed over, of which `complain` is told. Raises OSError for a file that cannot be
        read.
        """
        self.find(file)
        rest = bytearray()
        while read := file.read(limits.READ_BLOCK):
            if self._is_too_long:
                over, end, read = read.partition(b"\n")
                self._go(over + end)
                self._is_too_long = not end
                self.lines += len(end)
            whole, end, begun = read.rpartition(b"\n")
            if end:
                text = bytes(rest) + whole + end
                rest.clear()
                self._go(text)
                yield text
                self.lines += text.count(b"\n")
            rest += begun
            if len(rest) > limits.STORED_RECORD:
                complain(self.lines + 1, f"a line of more than {limits.STORED_RECORD} bytes")
                self._is_too_long = True
                self._go(bytes(rest))
                rest.clear()

    def _go(self, read: bytes) -> None:
        """Move the place past `read`."""
        self._at += len(read)
        self._before = (self._before + read[-limits.RECOGNISED_START :])[-limits.RECOGNISED_START :]
