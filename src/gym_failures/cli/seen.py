"""Failures one by one, each once however many reports tell of it."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

from gym_failures.reading import RebuiltReport
from gym_failures.records import FailureEvent

T = TypeVar("T")


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
class Failures(Generic[T]):
    """What failed according to some reports."""

    seen: Sequence[T]
    """What was kept of each, in the order in which they were found."""
    missing_causes: int
    """Causes that are named and not known; what they caused looks like a root."""


def failures_in(reports: Iterable[RebuiltReport]) -> Failures[Seen]:
    """Return the failures in `reports`, which may overlap; of several copies one that its own process told."""
    return kept_of(reports, lambda seen: seen)


def kept_of(reports: Iterable[RebuiltReport], keep: Callable[[Seen], T]) -> Failures[T]:
    """Do the same, and hold no more of each failure than what `keep` makes of it."""
    kept: dict[str, tuple[bool, T]] = {}
    missing: set[str] = set()
    for rebuilt in reports:
        missing.update(rebuilt.missing_causes)
        for seen in _told_by(rebuilt):
            event_id = seen.event.event_id
            known = kept.get(event_id)
            if known is None or (seen.is_local and not known[0]):
                kept[event_id] = seen.is_local, keep(seen)
    return Failures(tuple(one for _, one in kept.values()), len(missing - kept.keys()))


def _told_by(rebuilt: RebuiltReport) -> Iterator[Seen]:
    remote = frozenset(rebuilt.remote_only)
    for event_id, event in rebuilt.report.events.items():
        service, time_ns = rebuilt.services.get(event_id), rebuilt.times[event_id]
        yield Seen(event, service, time_ns, rebuilt.key, rebuilt.trace_id, event_id not in remote)
