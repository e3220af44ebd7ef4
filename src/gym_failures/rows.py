"""The failures of one rollout in its saved row, and back.

NeMo Gym saves each rollout as one JSON object, in ``rollouts.jsonl`` or in the failures file beside it. Four keys of
ours stand in it: the map of events, the id of the rollout's own failure, whether events are missing, and the trace. An
event is written as in a reply header, by the same table, with its id as the key. No other key of a row is touched.

A row without these keys can still tell of one failure, in the words that NeMo Gym 0.7 saves.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from gym_failures import kinds, limits, semconv
from gym_failures.classify import default_kind
from gym_failures.fields import as_text
from gym_failures.kinds import FailureBoundary, FailureStage
from gym_failures.misuse import GymFailuresError
from gym_failures.packing import RefusedError
from gym_failures.records import FailureEvent, FailureReport
from gym_failures.repair import chain_ids, repair
from gym_failures.shapes import lenient_event
from gym_failures.text import is_cut_of
from gym_failures.wire import read_tree, to_tree

Row = dict[str, Any]

KEYS: Final = (
    semconv.ROW_FAILURE_EVENTS,
    semconv.ROW_FAILURE_ID,
    semconv.ROW_FAILURE_OMITTED,
    semconv.ROW_FAILURE_TRACE_ID,
)
"""The keys of ours."""

# What NeMo Gym 0.7 saves of a failure, the most exact name first.
_KIND: Final = "failure_kind"
FAILURE_CLASS: Final = "_ng_failure_class"
"""By this key the collection client knows rows of rollouts that failed, and saves them in a file of their own."""
_REASON_KEYS: Final = ("failure_reason", "_ng_failure_message", "_ng_failure_judge_error")
_STAGE_KEYS: Final = ("stage", "_ng_failure_stage")
_STATUS_KEYS: Final = ("http_status", "_ng_failure_http_status")
_TYPE_KEYS: Final = ("exception_type", "_ng_failure_type")
# What makes the row of one attempt differ from every other one.
IDENTITY_KEYS: Final = (
    "run_id",
    "episode_id",
    "_ng_task_id",
    "_ng_task_index",
    "_ng_rollout_index",
    "_ng_rollout_id",
    "_ng_attempt_index",
)
_BOUNDARY_OF_CLASS: Final[Mapping[str, FailureBoundary]] = {
    kinds.ENVIRONMENT_SERVER_FAILED: FailureBoundary.ENVIRONMENT,
    kinds.JUDGE_FAILED: FailureBoundary.RESOURCES_SERVER,
}
"""Who says so, where that is certain; any other class is what the collection client was told, by whomever."""
_COPIED: Final = tuple(name for name, field in FailureEvent.model_fields.items() if not field.is_required())
"""The fields of an event that may be None, and its reason, which never is."""
_TRACE_ID: Final = re.compile("[0-9a-f]{32}")
"""The form of a trace's id (W3C Trace Context, "trace-id")."""


class RowError(GymFailuresError, ValueError):
    """Say which key of a row holds what it cannot hold."""


class RowFailures(NamedTuple):
    """What a row says of failures."""

    report: FailureReport
    """Its failures; empty when it tells of none."""
    trace_id: str | None
    """The trace that tells more, 32 hex digits; None where the row names none in that form."""


def failure_keys(report: FailureReport, *, trace_id: str | None = None) -> Row:
    """Return what a row needs in addition to hold `report`: keys and their JSON values.

    `trace_id` is 32 hex digits; None is unknown. A report that says nothing gives no key at all.
    """
    tree = to_tree(report)
    if not tree["events"] and "omitted" not in tree:
        return {}
    keys: Row = {semconv.ROW_FAILURE_EVENTS: tree["events"]}
    if "failure_id" in tree:
        keys[semconv.ROW_FAILURE_ID] = tree["failure_id"]
    if "omitted" in tree:
        keys[semconv.ROW_FAILURE_OMITTED] = True
    if trace_id is not None:
        keys[semconv.ROW_FAILURE_TRACE_ID] = trace_id
    return keys


def with_failures(row: Mapping[str, Any], report: FailureReport, *, trace_id: str | None = None) -> Row:
    """Return a copy of `row` that tells of `report`, and of nothing that it told before by keys of ours.

    All else stays as it is, in its order. The other arguments are those of `failure_keys`.
    """
    return without_failures(row) | failure_keys(report, trace_id=trace_id)


def join_failures(row: Mapping[str, Any], report: FailureReport, *, trace_id: str | None = None) -> Row:
    """Return a copy of `row` that tells of `report` in addition to what it tells already.

    The row knows how its rollout ended: its own failure stays, and so does that it has none, unless `report` has one
    that the row does not know, which the row's own is a cause of. Of an event in both, the row's copy stays and takes
    from the other what it lacks. A failure that NeMo Gym alone has written into the row is added where `report` has
    none of its boundary and kind, and none of its own. Of more events than are read back, the chain of the own failure
    is kept, and the first of the others. `trace_id` is for a row that names none. Raises what `read_row` raises.
    """
    told, named = read_row(row)
    before = told.events if semconv.ROW_FAILURE_EVENTS in row else _unknown_to(report, told)
    events = dict(before)
    for event_id, event in report.events.items():
        events.setdefault(event_id, event)
    for event_id, event in before.items():
        if other := report.events.get(event_id):
            filled = _filled(event, other)
            if event.cause_id is None and event_id in chain_ids(events, filled.cause_id):
                filled = filled.model_copy(update={"cause_id": None})  # The row says that it is the other way round.
            events[event_id] = filled
    own = told.failure_id if told.failure_id in events else None
    if report.failure_id is not None and report.failure_id not in told.events:
        own = report.failure_id if own is None or own in chain_ids(events, report.failure_id) else own
    omitted = report.omitted or told.omitted
    if len(events) > limits.DECODE_EVENTS:
        first = [*dict.fromkeys([*chain_ids(events, own), *events])][: limits.DECODE_EVENTS]
        events, omitted = {event_id: events[event_id] for event_id in first}, True
    whole = repair(events, failure_id=own, omitted=omitted).report
    return with_failures(row, whole, trace_id=named or trace_id)


def _unknown_to(report: FailureReport, told: FailureReport) -> Mapping[str, FailureEvent]:
    """Return the failure that NeMo Gym alone has told, unless `report` tells of it too, by another id."""
    if told.failure_id is not None and report.failure_id is not None:
        return {}
    known = {(event.boundary, event.failure_kind) for event in report.events.values()}
    return {
        event_id: event for event_id, event in told.events.items() if (event.boundary, event.failure_kind) not in known
    }


def _filled(known: FailureEvent, other: FailureEvent) -> FailureEvent:
    """Return `known` with what only `other`, a copy of it, has: fields, and the rest of a reason that was cut."""
    new = {name: getattr(other, name) for name in _COPIED if getattr(known, name) is None}
    if known.boundary is not other.boundary:
        new.pop("details", None)  # They are of another schema.
    if is_cut_of(known.failure_reason, other.failure_reason):
        new["failure_reason"] = other.failure_reason
    return known.model_copy(update=new)


def without_failures(row: Mapping[str, Any]) -> Row:
    """Return a copy of `row` without the keys of ours."""
    return {name: value for name, value in row.items() if name not in KEYS}


def read_row(row: Mapping[str, Any], *, run: str = "") -> RowFailures:
    """Return what `row` says of failures, by keys of ours, else by those of NeMo Gym 0.7.

    Of the latter there are the row of a verification with a ``failure_kind``, the row of a request that failed, and the
    saved `RolloutFailure`. Each is one failure with an id made of what it says, so that reading a row twice gives the
    same record. Rows of two runs can say the same: `run` is any name that tells theirs apart. It is the rollout's own,
    but for a verification whose sample is not masked: NeMo Gym calls that validly measured, so it was recovered from.

    As in a header, an event that cannot be read is left out and counted, and the report says that it is omitted.
    Raises RowError when the map of events is no object, or has more events than a log holds.
    """
    named = as_text(row.get(semconv.ROW_FAILURE_TRACE_ID))
    trace_id = named if named is not None and _TRACE_ID.fullmatch(named) else None
    events = row.get(semconv.ROW_FAILURE_EVENTS)
    if events is None:
        event = event_of(row, run=run)
        if event is None:
            return RowFailures(FailureReport(), trace_id)
        failure_id = event.event_id if _has_failed(row) else None
        return RowFailures(FailureReport(events={event.event_id: event}, failure_id=failure_id), trace_id)
    try:
        read = read_tree(
            {
                "events": events,
                "failure_id": row.get(semconv.ROW_FAILURE_ID),
                "omitted": row.get(semconv.ROW_FAILURE_OMITTED),
            }
        )
    except RefusedError as error:
        raise RowError(f"{semconv.ROW_FAILURE_EVENTS} of the row: {error.reason.value}") from None
    return RowFailures(repair(read.events, failure_id=read.failure_id, omitted=read.omitted).report, trace_id)


def event_of(row: Mapping[str, Any], *, run: str = "") -> FailureEvent | None:
    """Return the one failure that a row of NeMo Gym 0.7 tells of by keys of its own, or None; `run` as above."""
    outcome = _outcome_in(row)
    told = dict(row) if outcome is None else {**row, **outcome}
    kind, failure_class = (_first(told, (name,)) for name in (_KIND, FAILURE_CLASS))
    if outcome is not None:
        boundary = FailureBoundary.ENVIRONMENT if row.get("source") == "environment" else FailureBoundary.COLLECTION
    elif kind is not None:
        boundary = FailureBoundary.RESOURCES_SERVER
    elif failure_class is not None:
        boundary = _BOUNDARY_OF_CLASS.get(failure_class, FailureBoundary.COLLECTION)
    else:
        return None
    stage = _first(told, _STAGE_KEYS)
    if stage is None and boundary is FailureBoundary.RESOURCES_SERVER:
        stage = FailureStage.VERIFICATION
    event = lenient_event(
        {
            "event_id": "",
            "boundary": boundary,
            "failure_kind": kind or failure_class or default_kind(boundary),
            "failure_reason": _first(told, _REASON_KEYS) or "",
            "stage": stage,
            "http_status": _first(told, _STATUS_KEYS, of=int),
            "exception_type": _first(told, _TYPE_KEYS),
        }
    )
    return event.model_copy(update={"event_id": _id_of(told, event, run)})


def _outcome_in(row: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return what a saved `RolloutFailure` says, or None where the row is none."""
    nested = row.get("failure")
    return nested if isinstance(nested, Mapping) and "failure_reason" in nested else None


def _has_failed(row: Mapping[str, Any]) -> bool:
    """Tell whether the failure in the row of NeMo Gym 0.7 is what its rollout ended with."""
    return bool(row.get("mask_sample") or row.get(FAILURE_CLASS)) or _outcome_in(row) is not None


def _id_of(row: Mapping[str, Any], event: FailureEvent, run: str) -> str:
    """Return an id for `event` that no other row of its run has, and this one has each time it is read."""
    told = [{name: row.get(name) for name in IDENTITY_KEYS}, event.model_dump(), *filter(None, [run])]
    return hashlib.sha256(json.dumps(told, sort_keys=True, default=str).encode("ascii")).hexdigest()[:32]


def _first(row: Mapping[str, Any], names: Iterable[str], *, of: type = str) -> Any:  # noqa: ANN401 - of type `of`
    """Return the first of the values under `names` that is of the type and not empty, else None."""
    return next((value for name in names if isinstance(value := row.get(name), of) and value), None)
