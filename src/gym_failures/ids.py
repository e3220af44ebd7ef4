"""Identifiers of failures and operations: UUIDv7 as 32 hex digits."""

import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_VERSION = 0x7 << 76
_VARIANT = 0b10 << 62
_RANDOM = (1 << 74) - 1
_LOW = (1 << 62) - 1
_UUID7 = re.compile(r"[0-9a-f]{12}7[0-9a-f]{3}[89ab][0-9a-f]{15}")


def uuid7() -> str:
    """Return a new UUIDv7 (RFC 9562, section 5.7) as 32 lower-case hex digits.

    The randomness is read from the operating system each time, so ids do not repeat after a fork.
    """
    milliseconds = time.time_ns() // 1_000_000 & 0xFFFF_FFFF_FFFF
    random = int.from_bytes(os.urandom(10), "big") & _RANDOM
    value = milliseconds << 80 | _VERSION | random >> 62 << 64 | _VARIANT | random & _LOW
    return f"{value:032x}"


def time_of(identifier: str) -> int | None:
    """Return when a UUIDv7 was made, in nanoseconds since the epoch and to the millisecond; None for any other id."""
    if _UUID7.fullmatch(identifier) is None:
        return None
    return int(identifier[:12], 16) * 1_000_000


_source: Callable[[], str] = uuid7


def new_id() -> str:
    """Return the next identifier from the source in force (`uuid7` unless a test replaced it)."""
    return _source()


def source_in_force() -> Callable[[], str]:
    """Return where identifiers come from now: another source may give again those of one before."""
    return _source


@contextmanager
def id_source(source: Callable[[], str]) -> Iterator[None]:
    """Take identifiers from `source` within the block; for tests, process-wide, not for concurrent use."""
    global _source  # noqa: PLW0603 - one replaceable source a process is the point
    before, _source = _source, source
    try:
        yield
    finally:
        _source = before
