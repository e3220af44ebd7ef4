"""The mark that a recorded failure leaves on its exception, so that no observer records it twice."""

from typing import Final

from gym_failures.records import FailureEvent
from gym_failures.semconv import EXCEPTION_MARK

REMOTE: Final = "remote"
"""Owner of a mark whose events came from another process."""


class Mark:
    """What is left on an exception: its events (own first, then that one's causes) and who recorded them.

    `owner` is None until something records the first event, `REMOTE` for events from another process, and otherwise the
    token of the log that recorded it. Marks travel with the exception through pickle and copy.
    """

    __slots__ = ("events", "owner")

    def __init__(self, events: tuple[FailureEvent, ...], owner: str | None = None) -> None:
        """Hold `events`, which is never empty."""
        self.events = events
        self.owner = owner


def mark_of(error: BaseException) -> Mark | None:
    """Return the mark on `error`, or None; never runs code of the exception's class."""
    mark = BaseException.__getattribute__(error, "__dict__").get(EXCEPTION_MARK)
    return mark if isinstance(mark, Mark) else None


def set_mark(error: BaseException, mark: Mark) -> None:
    """Leave `mark` on `error`; never runs code of the exception's class."""
    BaseException.__getattribute__(error, "__dict__")[EXCEPTION_MARK] = mark
