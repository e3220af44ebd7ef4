"""The mark that a recorded failure leaves on its exception, so that no observer records it twice.

Everything here reads exceptions as Python itself does and runs no code of their classes: the exception of someone else
may have attributes that raise, or that are not what they seem.
"""

from typing import Any, Final

from gym_failures.records import FailureEvent
from gym_failures.semconv import EXCEPTION_MARK

REMOTE: Final = "remote"
"""Owner of a mark whose events came from another process."""

# The descriptors, so that a class which defines these names itself has no say.
_fields_of: Final[Any] = BaseException.__dict__["__dict__"].__get__
_cause_of: Final[Any] = BaseException.__dict__["__cause__"].__get__
_members_of: Final[Any] = BaseExceptionGroup.__dict__["exceptions"].__get__


class Mark:
    """What is left on an exception: its events (own first, then that one's causes) and who recorded them.

    `events` is never empty. `owner` is None until something records the first event, `REMOTE` for events from another
    process, and otherwise the token of the log that recorded it. Marks travel with the exception through pickle and
    copy.
    """

    __slots__ = ("events", "owner")

    def __init__(self, events: tuple[FailureEvent, ...], owner: str | None = None) -> None:
        """Hold at least one event."""
        self.events = events
        self.owner = owner


def mark_of(error: BaseException) -> Mark | None:
    """Return the mark on `error`, or None."""
    mark = _fields_of(error).get(EXCEPTION_MARK)
    return mark if isinstance(mark, Mark) and mark.events else None


def set_mark(error: BaseException, mark: Mark) -> None:
    """Leave `mark` on `error`."""
    _fields_of(error)[EXCEPTION_MARK] = mark


def cause_of(error: BaseException) -> BaseException | None:
    """Return the exception that `error` was raised from, or None."""
    cause: BaseException | None = _cause_of(error)
    return cause


def members_of(error: BaseException) -> tuple[BaseException, ...]:
    """Return the members of an exception group; none for any other exception."""
    if not issubclass(type(error), BaseExceptionGroup):
        return ()
    members: tuple[BaseException, ...] = _members_of(error)
    return members
