"""Make a legal report of events whose links may be broken.

Events reach us from replies, logs and trace stores that may have lost some of them. A report never leaves a cause
dangling: a link that leads nowhere, or round in a circle, is cut, and the report says that something is missing.
"""

from collections.abc import Mapping
from typing import NamedTuple

from gym_failures.records import FailureEvent, FailureReport, circular_causes


class Repaired(NamedTuple):
    """A legal report, and what had to be cut to get it."""

    report: FailureReport
    missing: tuple[str, ...]
    """Ids that something named, as cause or as own failure, and that no event has, each once, in order of mention."""
    circular: tuple[str, ...]
    """Ids of the events whose link was cut because it closed a circle."""


def repair(events: Mapping[str, FailureEvent], *, failure_id: str | None = None, omitted: bool = False) -> Repaired:
    """Return a report of `events` (keyed by their ids) with every broken link cut.

    `omitted` is set on the report when it is given or when anything was cut. Linear in the number of events.
    """
    missing: dict[str, None] = {}
    circular: list[str] = []
    whole: dict[str, FailureEvent] = {}
    closing = frozenset(circular_causes(events))
    for event_id, event in events.items():
        cause = event.cause_id
        if cause is None or (cause in events and event_id not in closing):
            whole[event_id] = event
            continue
        if cause in events:
            circular.append(event_id)
        else:
            missing[cause] = None
        whole[event_id] = event.model_copy(update={"cause_id": None})
    if failure_id is not None and failure_id not in events:
        missing[failure_id] = None
        failure_id = None
    report = FailureReport.model_construct(
        events=whole, failure_id=failure_id, omitted=omitted or bool(missing) or bool(circular)
    )
    return Repaired(report, tuple(missing), tuple(circular))


def chain_ids(events: Mapping[str, FailureEvent], failure_id: str | None) -> tuple[str, ...]:
    """Return the ids from `failure_id` down to its root cause, as far as `events` has them; ends at a circle."""
    chain: dict[str, None] = {}
    current = failure_id
    while current is not None and current in events and current not in chain:
        chain[current] = None
        current = events[current].cause_id
    return tuple(chain)
