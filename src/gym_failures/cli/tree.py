"""A report as a tree: each failure stands beneath its cause, so that the root cause is seen first."""

from collections import defaultdict
from collections.abc import Container, Iterator, Sequence
from typing import Final

from rich.text import Text
from rich.tree import Tree

from gym_failures import limits
from gym_failures.cli.terminal import plain
from gym_failures.reading import By, RebuiltReport
from gym_failures.records import FailureEvent
from gym_failures.repair import chain_ids
from gym_failures.text import cut

OUR_ERROR: Final = "gym_failures.exceptions.FailureError"
"""Tells nothing that the kind does not tell."""


def tree_of(rebuilt: RebuiltReport, by: By) -> Tree:
    """Return the tree of one report: the chain of its own failure in full, what else there was dimmed."""
    events = rebuilt.report.events
    chain = chain_ids(events, rebuilt.report.failure_id)
    in_chain = frozenset(chain)
    notes = _notes(rebuilt, {events[event_id].operation_id for event_id in chain} - {None})
    effects: defaultdict[str | None, list[str]] = defaultdict(list)
    for event_id in sorted(events, key=lambda event_id: event_id not in in_chain):  # else as they are, by their times
        effects[events[event_id].cause_id].append(event_id)
    tree = Tree(_headline(rebuilt, by, events[chain[-1]] if chain else None), guide_style="dim")
    shown = 0
    waiting = [(tree, 0, event_id) for event_id in reversed(effects[None])]
    while waiting:
        parent, depth, event_id = waiting.pop()
        if shown >= limits.TREE_EVENTS and event_id not in in_chain:  # The chain came first.
            continue
        shown += 1
        event = events[event_id]
        line = _line(event, rebuilt.services.get(event_id), notes[event_id], event_id == rebuilt.report.failure_id)
        if event_id not in in_chain:
            line.stylize("dim not bold")
        branch = parent.add(line)
        # Deeper than this, an effect stands below its cause and no longer beneath it.
        inner = (branch, depth + 1) if depth < limits.TREE_DEPTH else (parent, depth)
        waiting += [(*inner, effect) for effect in reversed(effects[event_id])]
    for remark in _remarks(rebuilt, len(events) - shown):
        tree.add(Text(remark, style="yellow"))
    return tree


def _headline(rebuilt: RebuiltReport, by: By, root: FailureEvent | None) -> Text:
    name = plain(rebuilt.key or rebuilt.trace_id)
    what = by if rebuilt.key else "trace"
    if not rebuilt.failed:
        parts = [(f"✓ {what} {name}", "green"), (f"  recovered from {len(rebuilt.recovered)}", "dim")]
    elif root is None:
        parts = [(f"✗ {what} {name}", "bold"), ("  failed, but how is not known", "yellow")]
    else:
        parts = [(f"✗ {what} {name}", "bold"), (f"  {_kind_at(root)}", "bold red")]
    if what != "trace":
        parts.append((f"  trace {plain(rebuilt.trace_id)}", "dim"))
    return Text.assemble(*parts)


def _line(event: FailureEvent, service: str | None, notes: Sequence[str], is_own: bool) -> Text:  # noqa: FBT001 - of a private function
    style = "bold red" if event.cause_id is None else "bold" if is_own else ""
    parts = [(_kind_at(event), style)]
    if event.http_status is not None and f"HTTP {event.http_status}" != event.failure_reason:
        parts.append((f"HTTP {event.http_status}", ""))
    if event.exception_type is not None and event.exception_type != OUR_ERROR:
        parts.append((plain(event.exception_type.rpartition(".")[2]), "cyan"))
    if event.failure_reason:
        parts.append((plain(cut(event.failure_reason, limits.TREE_REASON)), ""))
    where = event.operation or service
    if where and where != event.boundary.value:
        parts.append((plain(where), "dim"))
    if notes:
        parts.append((f"({', '.join(notes)})", "dim"))
    return Text("  ").join(Text(text, style=style) for text, style in parts)


def _kind_at(event: FailureEvent) -> str:
    return f"{plain(event.failure_kind)} at {event.boundary.value}"


def _attempt(event: FailureEvent) -> str | None:
    """Return the number of the attempt, which `operations.Attempt` puts behind the id of the operation."""
    if event.attempt_id is None or event.operation_id is None:
        return None
    number = event.attempt_id.removeprefix(f"{event.operation_id}.")
    return number if number.isdecimal() else None


def _notes(rebuilt: RebuiltReport, given_up: Container[str | None]) -> defaultdict[str, list[str]]:
    """Return what there is to say of each event beside its fields; `given_up` are operations that failed for good."""
    events = rebuilt.report.events
    notes: defaultdict[str, list[str]] = defaultdict(list)
    for event_id, event in events.items():
        number = _attempt(event)
        if number is not None and (number != "1" or event_id in rebuilt.unlinked):
            notes[event_id].append(f"attempt {number}")
    for event_id in rebuilt.unlinked:
        notes[event_id].append("tried again" if events[event_id].operation_id in given_up else "not linked")
    for note, ids in (
        ("recovered", rebuilt.recovered),
        ("after the reply", rebuilt.late),
        ("known from a reply only", rebuilt.remote_only),
        ("shortened", rebuilt.cut),
    ):
        for event_id in ids:
            notes[event_id].append(note)
    return notes


def _remarks(rebuilt: RebuiltReport, hidden: int) -> Iterator[str]:
    """Yield what is not shown, and what is not known."""
    if hidden:
        yield f"and {hidden} more failures"
    missing = {
        "failures are named, but no span tells of them": len(rebuilt.missing_causes),
        "causes led round in a circle": len(rebuilt.circular_causes),
        "events of spans were dropped before they were stored": rebuilt.dropped_events,
        "failures cannot be read": rebuilt.unreadable,
    }
    yield from (f"{count} {what}" for what, count in missing.items() if count)
    if rebuilt.report.omitted and not any(missing.values()):
        yield "a report on the way had no room for everything"
