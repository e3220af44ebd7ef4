"""A file that a program is still writing, read as far as it goes and then on from there."""

from collections.abc import Iterator
from pathlib import Path

from gym_failures import limits


class Tail:
    """The lines of one file, those that are there and those that come; a file that is not there yet has none."""

    def __init__(self, path: Path) -> None:
        """Begin at the start of the file."""
        self.path = path
        self.lines = 0
        """Lines that were read of the file that is there now."""
        self._at = 0
        self._inode = 0

    def start(self) -> bytes:
        """Return the first bytes of the file; none where there is no file yet."""
        try:
            with self.path.open("rb") as file:
                return file.read(limits.RECOGNISED_START)
        except FileNotFoundError:
            return b""

    def texts(self) -> Iterator[bytes]:
        """Yield the whole lines that came since the last time, in texts of a block or of one longer line.

        What is after the last end of a line is left until that end has come. A file that is shorter than it was, or
        another one of this name, is read from its start. Raises OSError for a file that cannot be read.
        """
        try:
            file = self.path.open("rb")
        except FileNotFoundError:
            return
        with file:
            known = file.seek(0, 2)
            inode = self.path.stat().st_ino
            if inode != self._inode or known < self._at:
                self._at = self.lines = 0
                self._inode = inode
            file.seek(self._at)
            rest = b""
            while read := file.read(limits.READ_BLOCK):
                whole, end, begun = read.rpartition(b"\n")
                if not end:
                    rest += begun
                    continue
                text = rest + whole + end
                rest = begun
                self._at += len(text)
                yield text
                self.lines += text.count(b"\n")
