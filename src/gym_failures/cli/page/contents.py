"""The data of the page: tables of numbers over everything, and as many rollouts as there is room for."""

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from enum import IntFlag
from typing import Final

from gym_failures import limits
from gym_failures.cli.seen import Seen, failures_in
from gym_failures.cli.tree import OUR_ERROR
from gym_failures.reading import RebuiltReport
from gym_failures.reading.census import Requests
from gym_failures.records import FailureEvent
from gym_failures.repair import chain_ids
from gym_failures.text import cut

_MILLISECOND: Final = 10**6
"""In nanoseconds."""
_SECOND: Final = 1_000
_HOUR: Final = 3_600 * _SECOND
_WIDTHS: Final = (
    *(50, 100, 250, 500),
    *(seconds * _SECOND for seconds in (1, 5, 15, 60, 300, 900)),
    *(hours * _HOUR for hours in (1, 6, 24, 168)),
)
"""Widths of the columns of the chart of time, in milliseconds; a longer time has a multiple of the last."""

Row = list[object]


class _Is(IntFlag):
    """What is known of one failure of a rollout, beside its record; page.js has the same numbers."""

    OWN = 1
    IN_CHAIN = 2
    RECOVERED = 4
    LATE = 8
    REMOTE_ONLY = 16


class _Names:
    """The names that a table has a row for, and the one row for all others."""

    def __init__(self, counted: Counter[str], what: str) -> None:
        self._shown = frozenset(name for name, _ in counted.most_common(limits.PAGE_NAMES))
        more = len(counted) - len(self._shown)
        self.others = f"{more} other {what}" if more else None

    def row(self, name: str) -> str:
        """Return the name of the row that `name` counts in."""
        return name if self.others is None or name in self._shown else self.others


class _Texts:
    """Each text once, and its number in the list of all."""

    def __init__(self) -> None:
        self.all: list[str] = []
        self.size = 0
        self._numbers: dict[str, int] = {}

    def number(self, text: str | None) -> int:
        """Return the number of `text`; -1 for None and for an empty one."""
        if not text:
            return -1
        number = self._numbers.setdefault(text, len(self.all))
        if number == len(self.all):
            self.all.append(text)
            self.size += _size(text)
        return number


def contents(
    reports: Sequence[RebuiltReport],
    *,
    spans: int,
    skipped: int,
    requests: Mapping[str | None, Requests] | None = None,
    room: int = limits.PAGE_ROOM,
) -> dict[str, object]:
    """Return what the page shows of `reports`, which are of rollouts, as values of JSON.

    The tables count everything, each failure once. Rollouts are listed while `room`, in bytes, lasts, those that failed
    first; `left_out` counts the others. Reasons are cut to `limits.PAGE_REASON` characters, and to fewer where together
    they would take more than half of the room. Of kinds and of services the tables name `limits.PAGE_NAMES`, the most
    frequent, and sum up the others. `requests` are those of each service; None where they are not known.
    """
    failures = failures_in(reports)
    kinds = _Names(Counter(seen.event.failure_kind for seen in failures.seen), "kinds")
    ordered = sorted(reports, key=lambda rebuilt: (not rebuilt.failed, rebuilt.span.start_ns, rebuilt.key or ""))
    texts = _Texts()
    length = _reason_length((seen.event for seen in failures.seen), room // 2)
    rollouts: list[Row] = []
    size = 0
    for rebuilt in ordered:
        row = _rollout(rebuilt, texts, length)
        size += _size(row)
        if size + texts.size > room:
            break
        rollouts.append(row)
    failed = sum(rebuilt.failed for rebuilt in reports)
    return {
        "totals": {
            "failed": failed,
            "recovered": len(reports) - failed,
            "failures": len(failures.seen),
            "roots": sum(seen.event.cause_id is None for seen in failures.seen),
            "remote_only": sum(not seen.is_local for seen in failures.seen),
            "missing_causes": failures.missing_causes,
            "dropped_events": sum(rebuilt.dropped_events for rebuilt in reports),
            "spans": spans,
            "skipped": skipped,
        },
        "cells": _cells(failures.seen, kinds),
        "other_kinds": kinds.others,
        "times": _times(failures.seen, kinds),
        "chains": _chains(reports),
        "servers": _servers(failures.seen, requests),
        "rollouts": rollouts,
        "texts": texts.all,
        "left_out": len(reports) - len(rollouts),
        "reason_length": length,
    }


def _cells(seen: Iterable[Seen], kinds: _Names) -> list[Row]:
    """Return ``[kind, boundary, failures, roots]``, the most frequent first."""
    cells: Counter[tuple[str, str]] = Counter()
    roots: Counter[tuple[str, str]] = Counter()
    for one in seen:
        cell = kinds.row(one.event.failure_kind), one.event.boundary.value
        cells[cell] += 1
        roots[cell] += one.event.cause_id is None
    return [[*cell, number, roots[cell]] for cell, number in cells.most_common()]


def _times(seen: Iterable[Seen], kinds: _Names) -> dict[str, object] | None:
    """Return the failures of each kind in columns of equal width over time; None where no time is known."""
    timed = [
        (one.time_ns // _MILLISECOND, kinds.row(one.event.failure_kind))
        for one in seen
        if 0 < one.time_ns <= limits.LATEST_TIME
    ]
    if not timed:
        return None
    first, last = min(timed)[0], max(timed)[0]
    width = _width(last - first)
    start = first - first % width
    columns = (last - start) // width + 1
    counts: defaultdict[str, list[int]] = defaultdict(lambda: [0] * columns)
    for when, kind in timed:
        counts[kind][(when - start) // width] += 1
    ordered = sorted(counts.items(), key=lambda item: (-sum(item[1]), item[0]))
    return {"start": start, "width": width, "kinds": [list(each) for each in ordered]}


def _width(span: int) -> int:
    """Return the width of a column, in milliseconds, so that at most `limits.PAGE_COLUMNS` span that time."""
    for width in _WIDTHS:
        if span < width * (limits.PAGE_COLUMNS - 1):
            return width
    return _WIDTHS[-1] * (span // (_WIDTHS[-1] * (limits.PAGE_COLUMNS - 1)) + 1)


def _chains(reports: Iterable[RebuiltReport]) -> list[Row]:
    """Return ``[[[kind, boundary], ...], links left out, rollouts]`` of the most frequent chains, root cause first."""
    chains: Counter[tuple[tuple[str, str], ...]] = Counter(
        tuple((event.failure_kind, event.boundary.value) for event in reversed(rebuilt.chain))
        for rebuilt in reports
        if rebuilt.chain
    )
    return [
        [list(chain[: limits.PAGE_CHAIN_LINKS]), max(len(chain) - limits.PAGE_CHAIN_LINKS, 0), number]
        for chain, number in chains.most_common(limits.PAGE_CHAINS)
    ]


def _servers(seen: Iterable[Seen], requests: Mapping[str | None, Requests] | None) -> list[Row]:
    """Return ``[service, failures, roots, requests, failed requests]``; the last two are null where not known."""
    known = requests or {}
    failures: Counter[str | None] = Counter()
    roots: Counter[str | None] = Counter()
    for one in seen:
        failures[one.service] += 1
        roots[one.service] += one.event.cause_id is None
    names = sorted(failures.keys() | known.keys(), key=lambda name: (-failures[name], name or ""))
    rows: list[Row] = [
        [name, failures[name], roots[name], *(known.get(name) or (None, None))] for name in names[: limits.PAGE_NAMES]
    ]
    if others := names[limits.PAGE_NAMES :]:
        sums = [sum(counter[name] for name in others) for counter in (failures, roots)]
        rows.append([f"{len(others)} other services", *sums, None, None])
    return rows


def _rollout(rebuilt: RebuiltReport, texts: _Texts, length: int) -> Row:
    """Return ``[key, trace, failed, start in ms, [event, ...], remarks]``; page.js reads the fields by their places.

    The last remark is ``[[kind, boundary], ...]`` of the events that are not listed, so that they can be found.
    """
    events = rebuilt.report.events
    chain = frozenset(chain_ids(events, rebuilt.report.failure_id))
    recovered, late, remote = map(frozenset, (rebuilt.recovered, rebuilt.late, rebuilt.remote_only))
    # The chain of its own failure stays whole; of what else there was, the first are enough to look at.
    kept = [event_id for event_id in events if event_id in chain]
    kept += [event_id for event_id in events if event_id not in chain][: limits.TREE_EVENTS]
    places = {event_id: place for place, event_id in enumerate(kept)}
    start = rebuilt.span.start_ns // _MILLISECOND
    rows = []
    for event_id in kept:
        is_ = (
            _Is.OWN * (event_id == rebuilt.report.failure_id)
            | _Is.IN_CHAIN * (event_id in chain)
            | _Is.RECOVERED * (event_id in recovered)
            | _Is.LATE * (event_id in late)
            | _Is.REMOTE_ONLY * (event_id in remote)
        )
        time_ns = rebuilt.times[event_id]
        after = time_ns // _MILLISECOND - start if time_ns and start else None
        row = _event(events[event_id], rebuilt.services.get(event_id), places, texts, length)
        rows.append([*row, int(is_), after])
    hidden = dict.fromkeys(
        (texts.number(event.failure_kind), texts.number(event.boundary.value))
        for event_id, event in events.items()
        if event_id not in places
    )
    remarks = [
        len(events) - len(kept),
        len(rebuilt.missing_causes),
        rebuilt.dropped_events,
        rebuilt.unreadable,
        [list(pair) for pair in hidden],
    ]
    return [texts.number(rebuilt.key), rebuilt.trace_id, int(rebuilt.failed), start, rows, remarks]


def _event(event: FailureEvent, service: str | None, places: Mapping[str, int], texts: _Texts, length: int) -> Row:
    cause = -1 if event.cause_id is None else places.get(event.cause_id, -1)
    return [
        cause,
        texts.number(event.failure_kind),
        texts.number(event.boundary.value),
        texts.number(cut(event.failure_reason, length)),
        texts.number(event.operation),
        texts.number(service),
        texts.number(None if event.exception_type == OUR_ERROR else event.exception_type),
        event.http_status or 0,
    ]


def _reason_length(events: Iterable[FailureEvent], room: int) -> int:
    """Return how long a reason may be, so that all different ones together take no more than `room`."""
    sizes = [_size(reason) for reason in {event.failure_reason for event in events}]
    length = limits.PAGE_REASON
    # A character takes up to six bytes of JSON in the worst case, but then in nearly all of them it takes one.
    while length > limits.PAGE_REASON_LEAST and sum(min(size, length) for size in sizes) > room:
        length //= 2
    return max(length, limits.PAGE_REASON_LEAST)


def _size(value: object) -> int:
    return len(json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()) + 1
