"""Logical calls to another server, and the attempts that they take."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from contextvars import ContextVar
from typing import Final, NamedTuple, Self

from gym_failures.ids import new_id


class Attempt(NamedTuple):
    """One attempt of an operation, as its failure is labelled."""

    operation_id: str
    attempt_id: str
    """``<operation_id>.<n>`` with n from 1."""


class Operation:
    """One logical call to another server, whatever number of attempts it takes.

    As a context manager, once, it is the current one of the code within.
    """

    __slots__ = ("_token", "attempts", "operation_id")

    def __init__(self) -> None:
        """Take an id; no attempt has begun."""
        self.operation_id = new_id()
        self.attempts = 0

    @property
    def attempt_id(self) -> str | None:
        """The current attempt, ``<operation_id>.<n>`` with n from 1; None before the first one begins."""
        return self.attempt(self.attempts).attempt_id if self.attempts else None

    def begin_attempt(self) -> int:
        """Count one more attempt and return its number; that stays its own when others run at the same time."""
        self.attempts += 1
        return self.attempts

    def attempt(self, number: int) -> Attempt:
        """Return the labels of an attempt, by its number from 1."""
        return Attempt(self.operation_id, f"{self.operation_id}.{number}")

    def __enter__(self) -> Self:
        """Make this the current operation."""
        self._token = _current.set(self)
        return self

    def __exit__(self, *_: object) -> None:
        """Bring back what was the current one; where another context ends the block, there is nothing to bring back."""
        with suppress(ValueError):
            _current.reset(self._token)
        del self._token  # It holds the context, and a connection that was made meanwhile holds the operation.


_current: Final[ContextVar[Operation | None]] = ContextVar("gym_failures_operation", default=None)


def current_operation() -> Operation | None:
    """Return the operation that the outermost known retry wrapper opened, or None outside of one."""
    return _current.get()


def operation() -> AbstractContextManager[Operation]:
    """Open an operation around a call with its retries; within another one, that one goes on."""
    outer = _current.get()
    return Operation() if outer is None else nullcontext(outer)


def close_off_operation() -> Callable[[], None]:
    """Put the current operation out of sight, and return what brings it back.

    For a server that is called from within its own process, in the context of its caller.
    """
    token = _current.set(None)
    return lambda: _current.reset(token)
