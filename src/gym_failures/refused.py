"""What a request has refused to read: report headers of peers that are not believed.

An app may copy the headers of a reply into its own, and its own reply is believed. So what was refused once is known
again by its value, which is one report and no other.
"""

from collections.abc import Iterable, Iterator

from gym_failures import limits


class RefusedValues:
    """The values of the report header that one request has refused, as hashes; beyond a bound, all that there are."""

    __slots__ = ("_are_all", "_hashes")

    def __init__(self) -> None:
        """Begin with none."""
        self._hashes: set[int] = set()
        self._are_all = False

    def add(self, values: Iterable[object]) -> None:
        """Refuse these values of the header, in which a proxy may have joined several by commas."""
        for value in _single(values):
            if len(self._hashes) >= limits.REFUSED_VALUES:
                self._are_all = True
                return
            self._hashes.add(hash(value))

    def others(self, values: Iterable[object]) -> list[object]:
        """Return what of these values was not refused."""
        return [] if self._are_all else [value for value in _single(values) if hash(value) not in self._hashes]


def _single(values: Iterable[object]) -> Iterator[str]:
    """Yield values one by one, each as the same text wherever it was found."""
    for value in values:
        text = value.decode("latin-1") if isinstance(value, bytes) else str(value)
        yield from (piece.strip(" \t") for piece in text.split(","))
