"""Which failures a command is about: the options that choose, and what they choose."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from glob import has_magic
from typing import Annotated

import typer

from gym_failures import semconv
from gym_failures.cli.seen import Seen, failures_in
from gym_failures.cli.times import moment
from gym_failures.kinds import FailureBoundary
from gym_failures.reading import RebuiltReport

Kind = Annotated[
    list[str] | None, typer.Option(metavar="KIND", help="Only failures of this kind; * stands for anything.")
]
Boundary = Annotated[
    list[FailureBoundary] | None,
    typer.Option(
        metavar="BOUNDARY",
        help=f"Only failures observed there: {', '.join(boundary.value for boundary in FailureBoundary)}.",
    ),
]
Service = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME", help="Only failures observed by this service; * stands for anything."),
]
Rollout = Annotated[
    list[str] | None, typer.Option(metavar="ID", help="Only failures of this rollout; * stands for anything.")
]
Since = Annotated[
    int | None,
    typer.Option(
        metavar="TIME", parser=moment, help="Only failures from then on: ISO 8601 in UTC, or 90m, 2h, 7d ago."
    ),
]
Until = Annotated[int | None, typer.Option(metavar="TIME", parser=moment, help="Only failures before then.")]


@dataclass(frozen=True)
class Choice:
    """What is asked for; None asks for all, and of several values any will do.

    Kinds, services and rollouts are patterns as of a shell. Times are nanoseconds since the epoch, from `since` on and
    before `until`. A failure whose time is not known is not of any time that is asked for.
    """

    kinds: Sequence[str] | None = None
    boundaries: Sequence[FailureBoundary] | None = None
    services: Sequence[str] | None = None
    rollouts: Sequence[str] | None = None
    since: int | None = None
    until: int | None = None
    ids: Sequence[str] | None = None
    """Of reports, whatever these are made of; patterns too."""

    def has(self, seen: Seen) -> bool:
        """Tell whether one failure is asked for; its `key` has to be its rollout's."""
        return (
            self._is_like(seen)
            and (self.since is None or seen.time_ns >= max(self.since, 1))
            and (self.until is None or 0 < seen.time_ns < self.until)
        )

    def lacks_time(self, seen: Seen) -> bool:
        """Tell whether one failure may be asked for, but nobody knows, because its time is not known."""
        return (self.since is not None or self.until is not None) and seen.time_ns <= 0 and self._is_like(seen)

    def _is_like(self, seen: Seen) -> bool:
        return (
            is_like(seen.event.failure_kind, self.kinds)
            and (not self.boundaries or seen.event.boundary in self.boundaries)
            and is_like(seen.service, self.services)
            and is_like(seen.key, self.rollouts)
        )

    def exactly(self) -> dict[str, str]:
        """Return an attribute that a span, or an event of it, has to have for the choice to have anything of its trace.

        One that needs no patterns and leaves the least; none where there is no such attribute.
        """
        for key, names in ((semconv.NEMO_GYM_ROLLOUT_ID, self.rollouts), (semconv.FAILURE_KIND, self.kinds)):
            if names is not None and len(names) == 1 and not has_magic(names[0]):
                return {key: names[0]}
        return {}

    def of(self, reports: Iterable[RebuiltReport], untimed: set[str] | None = None) -> Iterator[RebuiltReport]:
        """Yield those of `reports`, whole, that have a failure which is asked for; all of them where nothing is.

        `untimed` gets the ids of those failures in the others that lack a time.
        """
        wants_all = replace(self, ids=None) == Choice()
        for rebuilt in reports:
            if self.ids and not is_like(rebuilt.key, self.ids):
                continue
            seen = () if wants_all else failures_in([rebuilt]).seen
            if wants_all or any(map(self.has, seen)):
                yield rebuilt
            elif untimed is not None:
                untimed.update(one.event.event_id for one in seen if self.lacks_time(one))


def is_like(name: str | None, patterns: Sequence[str] | None) -> bool:
    """Tell whether a name is like any of the patterns; no patterns are for every name, even none."""
    return not patterns or (name is not None and any(fnmatchcase(name, pattern) for pattern in patterns))
