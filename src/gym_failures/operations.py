"""Logical calls to another server, and the attempts that they take."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final, NamedTuple

from gym_failures.ids import new_id


class Attempt(NamedTuple):
    """One attempt of an operation, as its failure is labelled."""

    operation_id: str
    attempt_id: str
    """``<operation_id>.<n>`` with n from 1."""


class Operation:
    """One logical call to another server, whatever number of attempts it takes."""

    __slots__ = ("attempts", "operation_id")

    def __init__(self) -> None:
        """Take an id; no attempt has begun."""
        self.operation_id = new_id()
        self.attempts = 0

    @property
    def attempt_id(self) -> str | None:
        """The current attempt, ``<operation_id>.<n>`` with n from 1; None before the first one begins."""
        return f"{self.operation_id}.{self.attempts}" if self.attempts else None

    def begin_attempt(self) -> Attempt:
        """Count one more attempt and return it; its labels stay its own when others run at the same time."""
        self.attempts += 1
        return Attempt(self.operation_id, f"{self.operation_id}.{self.attempts}")


_current: Final[ContextVar[Operation | None]] = ContextVar("gym_failures_operation", default=None)


def current_operation() -> Operation | None:
    """Return the operation that the outermost known retry wrapper opened, or None outside of one."""
    return _current.get()


@contextmanager
def operation() -> Iterator[Operation]:
    """Open an operation around a call with its retries; within another one, that one goes on."""
    outer = _current.get()
    if outer is not None:
        yield outer
        return
    opened = Operation()
    token = _current.set(opened)
    try:
        yield opened
    finally:
        _current.reset(token)


def close_off_operation() -> Callable[[], None]:
    """Put the current operation out of sight, and return what brings it back.

    For a server that is called from within its own process, in the context of its caller.
    """
    token = _current.set(None)
    return lambda: _current.reset(token)
