"""What a check has found."""

import enum
from typing import NamedTuple


class Level(enum.StrEnum):
    """How bad it is."""

    OK = "ok"
    """As it should be."""
    WARNING = "warning"
    """Something will be missing, which may be what is wanted."""
    PROBLEM = "problem"
    """Failures will not be seen, or not rightly."""


class Finding(NamedTuple):
    """One thing that was looked at."""

    level: Level
    about: str
    """The variable, the package or the address."""
    says: str
    """What is so, and what comes of it."""
    fix: str | None = None
    """What to do; None where all is well."""


def ok(about: str, says: str) -> Finding:
    """Return that something is as it should be."""
    return Finding(Level.OK, about, says)


def warning(about: str, says: str, fix: str) -> Finding:
    """Return that something will be missing."""
    return Finding(Level.WARNING, about, says, fix)


def problem(about: str, says: str, fix: str) -> Finding:
    """Return that failures will not be seen rightly."""
    return Finding(Level.PROBLEM, about, says, fix)
