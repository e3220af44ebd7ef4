"""The mark that a recorded failure leaves on its exception, so that no observer records it twice.

Everything here reads exceptions as Python itself does and runs no code of their classes: the exception of someone else
may have attributes that raise, or that are not what they seem.
"""

import json
from typing import Any, Final

from gym_failures.ids import source_in_force
from gym_failures.records import FailureEvent
from gym_failures.semconv import EXCEPTION_MARK

REMOTE: Final = "remote"
"""Owner of a mark whose events came from another process."""

UNTRACED: Final = "process"
"""Owner of a mark that was left where there was neither a log nor a trace."""

_TRACE: Final = "trace:"

# The descriptors, so that a class which defines these names itself has no say.
_fields_of: Final[Any] = BaseException.__dict__["__dict__"].__get__
_cause_of: Final[Any] = BaseException.__dict__["__cause__"].__get__
_members_of: Final[Any] = BaseExceptionGroup.__dict__["exceptions"].__get__


def owner_in_trace(trace_id: int) -> str:
    """Return the owner of the marks that are left where there is no log, but a trace."""
    return f"{_TRACE}{trace_id:032x}"


def is_of_no_log(owner: str | None) -> bool:
    """Tell whether `owner` is that of marks which were left where there was no log."""
    return owner is not None and (owner == UNTRACED or owner.startswith(_TRACE))


class Mark:
    """What is left on an exception: its events (own first, then that one's causes) and who recorded them.

    `events` is never empty. `owner` is None until something records the first event, `REMOTE` for events from another
    process, and otherwise the token of the log that recorded it. `is_ours` is False once it came out of pickle: then
    its owner was in another process. `number` is None unless it was left where there was neither a log nor a trace:
    blocks of `observe` that began before have lower numbers, and later ones higher. Marks travel with the exception
    through copy, and through pickle as text, so that a process without this package can unpickle the exception as
    before. `source` is where its own ids came from.
    """

    __slots__ = ("events", "is_ours", "number", "owner", "source")

    def __init__(self, events: tuple[FailureEvent, ...], owner: str | None = None, *, is_ours: bool = True) -> None:
        """Hold at least one event."""
        self.events = events
        self.owner = owner
        self.is_ours = is_ours
        self.number: int | None = None
        self.source = source_in_force()

    def __reduce__(self) -> tuple[type[str], tuple[str]]:
        """Pickle as text; as none at all where the events have no JSON, for the exception must get through."""
        try:
            events = [event.model_dump(mode="json") for event in self.events]
            text = json.dumps({"events": events, "owner": self.owner})
        except ValueError:
            text = ""
        return str, (text,)

    def __deepcopy__(self, memo: dict[int, object]) -> "Mark":
        """Share the events, which never change."""
        copied = Mark(self.events, self.owner, is_ours=self.is_ours)
        copied.source = self.source
        return copied

    @classmethod
    def of_text(cls, text: str) -> "Mark | None":
        """Return the mark that was pickled as `text`; None when it was something else."""
        try:
            held = json.loads(text)
            events = tuple(FailureEvent.model_validate(event) for event in held["events"])
            owner = held["owner"]
        except (ValueError, TypeError, KeyError, RecursionError):
            return None
        return cls(events, owner, is_ours=owner is None) if events and isinstance(owner, str | None) else None


def mark_of(error: BaseException) -> Mark | None:
    """Return the mark on `error`, or None.

    A record that was made with another source of ids, as in a test before this one, is no record here: what it names
    may by now be called otherwise, and something else be called so.
    """
    mark = last_mark_of(error)
    if mark is None or mark.source is source_in_force() or mark.owner is None or mark.owner == REMOTE:
        return mark
    return None


def last_mark_of(error: BaseException) -> Mark | None:
    """Return the mark on `error` wherever its ids came from, or None."""
    fields = _fields_of(error)
    mark = fields.get(EXCEPTION_MARK)
    if type(mark) is str:  # it came out of pickle
        mark = Mark.of_text(mark)
        fields[EXCEPTION_MARK] = mark
    return mark if type(mark) is Mark and mark.events else None


def set_mark(error: BaseException, mark: Mark) -> None:
    """Leave `mark` on `error`."""
    _fields_of(error)[EXCEPTION_MARK] = mark


def drop_mark(error: BaseException) -> None:
    """Make of `error` one that nobody has recorded."""
    _fields_of(error).pop(EXCEPTION_MARK, None)


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
