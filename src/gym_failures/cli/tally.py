"""How many failures there were, by any of what they have in common."""

import enum
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import typer

from gym_failures import limits
from gym_failures.cli.choice import Choice
from gym_failures.cli.seen import Seen, kept_of
from gym_failures.cli.times import hour
from gym_failures.reading import RebuiltReport

Key = tuple[str | None, ...]
"""One value for each field that is counted by; None where a failure has none."""


class Field(enum.StrEnum):
    """What failures are counted by."""

    KIND = "kind"
    BOUNDARY = "boundary"
    STAGE = "stage"
    SERVICE = "service"
    HOUR = "hour"


DEFAULT: Final = (Field.KIND, Field.BOUNDARY)


_VALUES: Final[Mapping[Field, Callable[[Seen], str | None]]] = {
    Field.KIND: lambda seen: seen.event.failure_kind,
    Field.BOUNDARY: lambda seen: seen.event.boundary.value,
    Field.STAGE: lambda seen: None if seen.event.stage is None else seen.event.stage.value,
    Field.SERVICE: lambda seen: seen.service,
    Field.HOUR: lambda seen: hour(seen.time_ns),
}


def key_of(seen: Seen, by: Sequence[Field]) -> Key:
    """Return the values of one failure that it is counted by."""
    return tuple(_VALUES[of](seen) for of in by)


def fields_of(said: str) -> tuple[Field, ...]:
    """Return the fields that are named, with commas between; raises typer.BadParameter for a name of nothing."""
    try:
        return tuple(map(Field, dict.fromkeys(name.strip() for name in said.split(","))))
    except ValueError:
        raise typer.BadParameter(f"{said!r} is not made of {', '.join(Field)}") from None


class Example(NamedTuple):
    """Where a failure was found."""

    rollout: str | None
    """None where that is not known."""
    trace_id: str

    @property
    def name(self) -> str:
        """What tells it apart."""
        return self.rollout or self.trace_id


@dataclass
class Tally:
    """Failures counted once each, however many reports they are in; the same numbers as the counter `gym.failures`."""

    by: Sequence[Field] = DEFAULT
    cells: Counter[Key] = field(default_factory=Counter)
    """All of them."""
    roots: Counter[Key] = field(default_factory=Counter)
    """Those without a cause."""
    remote: int = 0
    """Those that are known from replies only, because their own process stored nothing."""
    missing_causes: int = 0
    """Causes that are named and not known; what they caused looks like a root."""
    kinds: set[str] = field(default_factory=set)
    """The kinds of all failures that there are, whatever is counted of them."""
    failed: int = 0
    """Reports of what failed in the end, whatever is counted of them."""
    untimed: int = 0
    """Those that may be chosen, but whose time is not known."""
    examples: dict[Key, list[Example]] = field(default_factory=dict)
    """The first of each key, each of another rollout, at most `limits.DIFF_EXAMPLES`."""

    @property
    def total(self) -> int:
        """All failures."""
        return self.cells.total()

    def rows(self) -> list[Key]:
        """Return the keys, the most frequent first; in the order of time where failures are counted by that first."""
        by_name = sorted(self.cells, key=lambda key: [part or "" for part in key])
        if self.by[0] is Field.HOUR:
            return by_name
        return sorted(by_name, key=lambda key: -self.cells[key])

    def along(self, position: int) -> tuple[Counter[str | None], Counter[str | None]]:
        """Return all failures and the roots by the value at `position` of a key alone."""
        sums: tuple[Counter[str | None], Counter[str | None]] = (Counter(), Counter())
        for counter, counted in zip(sums, (self.cells, self.roots), strict=True):
            for key, number in counted.items():
                counter[key[position]] += number
        return sums


class _Counted(NamedTuple):
    """What counting needs of a failure; many are alike."""

    key: Key
    is_root: bool
    is_local: bool
    is_chosen: bool
    is_untimed: bool


def tally(reports: Iterable[RebuiltReport], *, by: Sequence[Field] = DEFAULT, choice: Choice | None = None) -> Tally:
    """Count the failures in `reports` that `choice` has; to choose by rollout, the reports have to be of rollouts."""
    counted = Tally(by)
    alike: dict[_Counted, _Counted] = {}
    places: dict[Example, Example] = {}

    def gone_through() -> Iterator[RebuiltReport]:
        for rebuilt in reports:
            counted.failed += rebuilt.failed
            yield rebuilt

    def keep(seen: Seen) -> tuple[_Counted, Example]:
        counted.kinds.add(seen.event.failure_kind)
        is_chosen = choice is None or choice.has(seen)
        is_untimed = choice is not None and choice.lacks_time(seen)
        one = _Counted(key_of(seen, by), seen.event.cause_id is None, seen.is_local, is_chosen, is_untimed)
        where = Example(seen.key, seen.trace_id)
        return alike.setdefault(one, one), places.setdefault(where, where)

    failures = kept_of(gone_through(), keep)
    counted.missing_causes = failures.missing_causes
    for one, where in failures.seen:
        counted.untimed += one.is_untimed
        if not one.is_chosen:
            continue
        counted.cells[one.key] += 1
        counted.roots[one.key] += one.is_root
        counted.remote += not one.is_local
        examples = counted.examples.setdefault(one.key, [])
        if len(examples) < limits.DIFF_EXAMPLES and where.name not in {example.name for example in examples}:
            examples.append(where)
    return counted
