"""Make the event of one exception, from what it is and from the foreign exceptions that it was raised from."""

from collections.abc import Mapping, Sequence
from typing import Any

from gym_failures.classify import Classification, Rule, classify, default_kind
from gym_failures.ids import new_id
from gym_failures.kinds import FailureBoundary
from gym_failures.looking import attribute, is_really
from gym_failures.records import FailureEvent, SdkErrorDetails
from gym_failures.shapes import SHAPE_FIELDS, lenient_event, shape_of
from gym_failures.text import text_of, type_name, wire_id


def foreign_event(  # noqa: PLR0913 - what an observer knows
    foreign: Sequence[BaseException],
    *,
    boundary: FailureBoundary,
    members_kind: str | None,
    cause: FailureEvent | None,
    context: Mapping[str, Any],
    rules: Sequence[Rule],
) -> FailureEvent:
    """Make the event of the first of some foreign exceptions, each raised from the next.

    The first that the rules know names the kind; if none is known, `members_kind`, the kind that the members of
    a group among them agree on; else the boundary. That first one, or else the last, with which it all began, is the
    foreign error of those above it. `context` holds fields of the event that the observer knows.
    """
    found = _classify(foreign, boundary, context, rules)
    best = _best(found)
    kind = found[best].kind
    if members_kind is not None and not found[best].recognised:
        kind = members_kind
    # Of a plain exception, type and reason say all. So what was foreign to it is looked for below.
    details = found[0].foreign_error
    if details is None and not found[0].recognised:
        details = _details(foreign, found, max(len(found) - 1, 1))
    fields = {
        **context,
        "failure_reason": found[0].reason or found[best].reason,
        "exception_type": type_name(foreign[0]),
        "http_status": found[best].http_status or found[0].http_status,
        "foreign_error": details,
    }
    return _event(new_id(), boundary, kind, cause, fields)


def shaped_event(  # noqa: PLR0913 - what an observer knows
    error: BaseException,
    shape: tuple[str, FailureBoundary],
    *,
    foreign: Sequence[BaseException],
    cause: FailureEvent | None,
    context: Mapping[str, Any],
    rules: Sequence[Rule],
) -> FailureEvent:
    """Make the event of an exception that has a failure's fields; one that does not validate is left out.

    `shape` is its kind and boundary. `foreign` are the foreign exceptions between it and its cause: the first that the
    rules know, or else the last, with which it all began, is its foreign error, unless it names one itself.
    """
    kind, boundary = shape
    fields = {**context, "exception_type": type_name(error)}
    if attribute(error, "failure_reason") is None:
        fields["failure_reason"] = text_of(error)
    for name in SHAPE_FIELDS:
        value = attribute(error, name)
        if value is not None and not (is_really(value, str) and not str.__len__(value)):
            fields[name] = value
    if "foreign_error" not in fields and foreign:
        found = _classify(foreign, boundary, context, rules)
        fields["foreign_error"] = _details(foreign, found, len(found) - 1)
    event_id = attribute(error, "event_id")
    event_id = wire_id(str.__str__(event_id) or new_id()) if is_really(event_id, str) else new_id()
    return _event(event_id, boundary, kind, cause, fields)


def crossing_event(  # noqa: PLR0913 - what an observer knows
    error: BaseException,
    cause: FailureEvent,
    *,
    boundary: FailureBoundary,
    is_told: bool,
    context: Mapping[str, Any],
    rules: Sequence[Rule],
) -> FailureEvent:
    """Make the event of an exception that stands for a failure from elsewhere, `cause`, and crosses `boundary`.

    `is_told` says that a reply told of the failure. Then only a client's own exception knows the reply, and what it
    says of that is kept; else the cause has all of it.
    """
    fields = {**context, "exception_type": type_name(error)}
    if is_told and shape_of(error) is None:
        found = classify(error, boundary=boundary, stage=context.get("stage"), rules=rules)
        fields |= {"failure_reason": found.reason, "http_status": found.http_status}
    return _event(new_id(), boundary, default_kind(boundary, context.get("stage")), cause, fields)


def _event(
    event_id: str, boundary: FailureBoundary, kind: str, cause: FailureEvent | None, fields: Mapping[str, Any]
) -> FailureEvent:
    own = {"event_id": event_id, "boundary": boundary, "failure_kind": kind}
    return lenient_event({**fields, **own, "cause_id": None if cause is None else cause.event_id})


def _classify(
    foreign: Sequence[BaseException], boundary: FailureBoundary, context: Mapping[str, Any], rules: Sequence[Rule]
) -> list[Classification]:
    """Classify exceptions, outermost first, up to the first that is recognised."""
    found: list[Classification] = []
    for node in foreign:
        found.append(classify(node, boundary=boundary, stage=context.get("stage"), rules=rules))
        if found[-1].recognised:
            break
    return found


def _best(found: Sequence[Classification]) -> int:
    """Return the index of the one that is recognised, else of the first."""
    return len(found) - 1 if found[-1].recognised else 0


def _details(foreign: Sequence[BaseException], found: Sequence[Classification], index: int) -> SdkErrorDetails | None:
    """Return what is kept of the foreign exception at `index`; None when there is none."""
    if index >= len(found):
        return None
    one = found[index]
    return one.foreign_error or SdkErrorDetails(
        exception_type=type_name(foreign[index]), message=one.reason, http_status=one.http_status
    )
