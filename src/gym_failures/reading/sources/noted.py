"""Files that others may still write, read each time as what they were when they were noted."""

import os
import stat
from io import BufferedReader, FileIO, RawIOBase
from typing import TYPE_CHECKING, Final, NamedTuple, Self

from gym_failures.reading.sources.files import Watch

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

REPLACED: Final = "the file was replaced while it was read"


class ReplacedError(Exception):
    """A path names another file than it did, or its file is shorter than it was."""


class Noted(NamedTuple):
    """A path, and which file it named."""

    path: str
    device: int
    inode: int
    size: int | None
    """How far it went, in bytes; None for what is no regular file, of which that cannot be told."""

    @classmethod
    def of(cls, path: str | os.PathLike[str]) -> Self:
        """Note what `path` names now; raises OSError where it names nothing."""
        name = os.fspath(path)
        found = os.stat(name)  # noqa: PTH116 - an error then has the name as it was given
        return cls(name, found.st_dev, found.st_ino, found.st_size if stat.S_ISREG(found.st_mode) else None)

    def __fspath__(self) -> str:
        """Return the path."""
        return self.path

    def open(self, watch: Watch | None = None) -> BufferedReader:
        """Open the file for reading no further than it went, and tell `watch` how far one is.

        Raises ReplacedError where it is not the same file, or shorter, which reading may find too, and OSError where it
        cannot be opened.
        """
        return BufferedReader(_AsNoted(self, watch))


class _AsNoted(FileIO):
    """A file that ends where it ended when it was noted."""

    # Both with `readinto`, which those of a file go round.
    read = RawIOBase.read  # type: ignore[assignment]  # it takes no None
    readall = RawIOBase.readall

    def __init__(self, noted: Noted, watch: Watch | None) -> None:
        super().__init__(noted.path)
        self._size = noted.size
        self._watch = watch
        found = os.fstat(self.fileno())
        same = (found.st_dev, found.st_ino) == (noted.device, noted.inode)
        if not same or (noted.size is not None and found.st_size < noted.size):
            self.close()
            raise ReplacedError

    def readinto(self, buffer: "WriteableBuffer", /) -> int:
        room = memoryview(buffer)
        if self._size is not None:
            room = room[: max(self._size - self.tell(), 0)]
        size = super().readinto(room)
        if not size and room and self._size is not None:
            raise ReplacedError
        if self._watch is not None:
            self._watch(size)
        return size
