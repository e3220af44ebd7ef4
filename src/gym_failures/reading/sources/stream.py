"""Bytes that come in parts, read in the sizes that one wants."""

from collections.abc import Callable, Iterable
from typing import Final

from gym_failures import limits

Complain = Callable[[int, str], None]
"""Takes the place where something cannot be read, as in `model.Skip`, and what is wrong with it."""


class Stream:
    """What can be read of `parts` one after the other; what starts a file can be looked at before it is read."""

    def __init__(self, parts: Iterable[bytes]) -> None:
        """Read the parts when their bytes are asked for, and not before."""
        self._parts = iter(parts)
        self._part = b""
        self._at: int = 0

    def peek(self, size: int) -> bytes:
        """Return the next `size` bytes, fewer only at the end, and leave them to be read."""
        while len(self._part) - self._at < size and (more := next(self._parts, b"")):
            self._part, self._at = self._part[self._at :] + more, 0
        return self._part[self._at : self._at + size]

    def read(self, size: int) -> bytes:
        """Return at least one and at most `size` bytes; none at the end."""
        self.peek(1)
        read = self._part[self._at : self._at + size]
        self._at += len(read)
        return read

    def exactly(self, size: int) -> bytes:
        """Return `size` bytes, fewer only at the end; memory grows with what is there, whatever `size` says."""
        parts = []
        while size > 0 and (part := self.read(min(size, limits.READ_BLOCK))):
            parts.append(part)
            size -= len(part)
        return b"".join(parts)


NOBODY: Final[Complain] = lambda _number, _reason: None  # noqa: E731 - a constant that can be called
"""Whom to tell of faults that are told of at another time."""
