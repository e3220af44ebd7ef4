"""Whether a reply and the trace tell the same of one request.

A report travels twice: in the reply to the caller, and as span events to a trace store. This is the one definition of
what it means that both arrived well.
"""

from collections.abc import Iterator
from typing import Final

from gym_failures import semconv
from gym_failures.attributes import to_attributes
from gym_failures.reading import RebuiltReport
from gym_failures.records import FailureEvent, FailureReport
from gym_failures.text import is_cut_of

_TEXTS: Final = frozenset({semconv.FAILURE_REASON, semconv.FOREIGN_ERROR_MESSAGE, semconv.SANDBOX_STATUS_REASON})
"""What either way may shorten, leaving a mark, and what a setting may take out of replies."""


def disagreements(sent: FailureReport | None, rebuilt: RebuiltReport | None) -> list[str]:
    """Return where a reply's report and the one rebuilt from the same request's spans differ; empty if they agree.

    `sent` is None for a reply without a report, `rebuilt` (by request) is None where no span tells of a failure. Both
    have the same own failure and the same events, field by field, up to texts that were cut. `rebuilt` may have more:
    events that came after the reply, the own failure among them, those that only a process further down knows of, and
    those that `sent` says it has left out. A difference is named by event and attribute; values, which can hold
    secrets, are not quoted.
    """
    return list(_disagreements(FailureReport() if sent is None else sent, rebuilt))


def _disagreements(sent: FailureReport, rebuilt: RebuiltReport | None) -> Iterator[str]:
    if rebuilt is None:
        if sent.events:
            yield "no span tells of it"
        return
    told = rebuilt.report
    # What fails after the header is decided too late for any reply that is no event stream.
    decided_late = sent.failure_id is None and told.failure_id in rebuilt.late
    if told.failure_id != sent.failure_id and not decided_late:
        yield f"the own failure is {sent.failure_id} in the reply and {told.failure_id} in the trace"
    if rebuilt.missing_causes and not sent.omitted:
        yield f"the trace lacks {', '.join(rebuilt.missing_causes)}"
    for event_id, event in sent.events.items():
        found = told.events.get(event_id)
        if found is None:
            yield f"{event_id} is in the reply only"
            continue
        for name in _differing(event, found, trace_was_cut=event_id in rebuilt.cut):
            # A link is cut where the event that it leads to was left out.
            if name != semconv.FAILURE_CAUSE_ID or not (sent.omitted or told.omitted):
                yield f"{event_id} differs in {name}"
    if not sent.omitted:
        known = {*sent.events, *rebuilt.late, *rebuilt.unseen}
        yield from (f"{event_id} is in the trace only" for event_id in told.events if event_id not in known)


def _differing(sent: FailureEvent, told: FailureEvent, *, trace_was_cut: bool) -> Iterator[str]:
    """Yield the attributes in which two copies of one event differ."""
    left, right = to_attributes(sent), to_attributes(told)
    for name in {**left, **right}:
        one, other = left.get(name), right.get(name)
        if one == other or (trace_was_cut and other is None):
            continue
        if name not in _TEXTS or not _is_shortened(str(one or ""), str(other or "")):
            yield name


def _is_shortened(one: str, other: str) -> bool:
    return is_cut_of(one, other) or is_cut_of(other, one)
