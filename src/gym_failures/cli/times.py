"""Times as people write and read them."""

import re
from datetime import UTC, datetime, timedelta
from typing import Final

import typer

_AGO: Final = re.compile(r"(\d{1,6})([smhd])")
_UNITS: Final = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
_EPOCH: Final = datetime.fromtimestamp(0, UTC)
_SECOND: Final = 10**9
"""In nanoseconds."""


def moment(said: str) -> int:
    """Return a time in nanoseconds since the epoch: ISO 8601, in UTC unless it says otherwise, or `90m` ago.

    Raises typer.BadParameter for anything else.
    """
    try:
        if (ago := _AGO.fullmatch(said)) is not None:
            when = datetime.now(UTC) - timedelta(**{_UNITS[ago[2]]: int(ago[1])})
        else:
            when = datetime.fromisoformat(said)
            when = when.replace(tzinfo=UTC) if when.tzinfo is None else when.astimezone(UTC)
    except (ValueError, OverflowError):
        raise typer.BadParameter(
            f"{said!r} is no time like 2026-05-01, 2026-05-01T14:30, 2026-05-01T14:30+02:00, or 90m for so long ago"
        ) from None
    return (when - _EPOCH) // timedelta(microseconds=1) * 1_000


def instant(time_ns: int) -> str | None:
    """Return nanoseconds since the epoch in RFC 3339 and UTC, to the microsecond; None for 0 and what is no date."""
    when = _utc(time_ns)
    return None if when is None else f"{when:%Y-%m-%dT%H:%M:%S}.{time_ns % _SECOND // 1_000:06}Z"


def hour(time_ns: int) -> str | None:
    """Return the hour of nanoseconds since the epoch, as ISO 8601 in UTC; None as above."""
    when = _utc(time_ns)
    return None if when is None else f"{when:%Y-%m-%dT%H:00Z}"


def _utc(time_ns: int) -> datetime | None:
    if time_ns <= 0:
        return None
    try:
        return _EPOCH + timedelta(seconds=time_ns // _SECOND)
    except OverflowError:
        return None
