"""How many failures there were, by kind and boundary."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gym_failures.kinds import FailureBoundary
from gym_failures.reading import RebuiltReport

if TYPE_CHECKING:
    from gym_failures.records import FailureEvent


@dataclass
class Tally:
    """Failures counted once each, however many reports they are in; the same numbers as the counter `gym.failures`."""

    cells: Counter[tuple[str, FailureBoundary]] = field(default_factory=Counter)
    """By kind and boundary."""
    roots: Counter[str] = field(default_factory=Counter)
    """Those without a cause, by kind."""
    remote: int = 0
    """Those that are known from replies only, because their own process stored nothing."""
    missing_causes: int = 0
    """Causes that are named and not known; what they caused looks like a root."""

    @property
    def total(self) -> int:
        """All failures."""
        return self.cells.total()

    def of_kind(self, kind: str) -> int:
        """Return how many there were of one kind."""
        return sum(count for (of, _), count in self.cells.items() if of == kind)

    def at(self, boundary: FailureBoundary) -> int:
        """Return how many were observed at one boundary."""
        return sum(count for (_, at), count in self.cells.items() if at is boundary)


def tally(reports: Iterable[RebuiltReport]) -> Tally:
    """Count the failures in `reports`, which may overlap."""
    events: dict[str, FailureEvent] = {}
    local: set[str] = set()
    missing: set[str] = set()
    for rebuilt in reports:
        events.update(rebuilt.report.events)
        local.update(rebuilt.report.events.keys() - set(rebuilt.remote_only))
        missing.update(rebuilt.missing_causes)
    counted = Tally(remote=len(events.keys() - local), missing_causes=len(missing - events.keys()))
    for event in events.values():
        counted.cells[event.failure_kind, event.boundary] += 1
        counted.roots[event.failure_kind] += event.cause_id is None
    return counted
