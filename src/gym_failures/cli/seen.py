"""Failures one by one, each once however many reports tell of it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from gym_failures.reading import RebuiltReport
from gym_failures.records import FailureEvent


class Seen(NamedTuple):
    """One failure, and what is known of it beside its record."""

    event: FailureEvent
    service: str | None
    """The service that observed it; None where that stored no span, or has no name."""
    time_ns: int
    """When it was recorded, in nanoseconds since the epoch; 0 where no span says."""
    key: str | None
    """The rollout, or what else reports are made of, in which it was found first; None where that is not known."""
    trace_id: str
    is_local: bool
    """Whether the process that observed it stored it; if not, it is known from replies only."""


@dataclass(frozen=True)
class Failures:
    """What failed according to some reports."""

    seen: Sequence[Seen]
    """In the order in which they were found."""
    missing_causes: int
    """Causes that are named and not known; what they caused looks like a root."""


def failures_in(reports: Iterable[RebuiltReport]) -> Failures:
    """Return the failures in `reports`, which may overlap; of several copies one that its own process told."""
    seen: dict[str, Seen] = {}
    missing: set[str] = set()
    for rebuilt in reports:
        missing.update(rebuilt.missing_causes)
        remote = frozenset(rebuilt.remote_only)
        for event_id, event in rebuilt.report.events.items():
            is_local = event_id not in remote
            known = seen.get(event_id)
            if known is None or (is_local and not known.is_local):
                service, time_ns = rebuilt.services.get(event_id), rebuilt.times[event_id]
                seen[event_id] = Seen(event, service, time_ns, rebuilt.key, rebuilt.trace_id, is_local)
    return Failures(tuple(seen.values()), len(missing - seen.keys()))
