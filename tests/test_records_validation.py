"""What the records refuse, and that each error says where the fault is without quoting what was there."""

import pytest
from pydantic import ValidationError

from gym_failures import kinds, limits
from gym_failures.records import (
    EpisodeFailure,
    FailureBoundary,
    FailureEvent,
    FailureReport,
    ModelFailureDetails,
    SandboxFailureDetails,
    SdkErrorDetails,
)

EVENT = {"event_id": "a", "boundary": "agent", "failure_kind": "agent_run_error"}
SANDBOX = EVENT | {"boundary": "sandbox"}
MODEL = EVENT | {"boundary": "model"}
FOREIGN = {"exception_type": "T", "message": "m"}
EPISODE = {"failure_reason": "r", "terminal": True}


def without(value, name):
    """Return `value` with the field `name` left out."""
    return {key: field for key, field in value.items() if key != name}


def report(**events):
    """Return the input of a report of `events`, each given by what differs from an agent's failure."""
    return {"events": {key: without(EVENT, "event_id") | event for key, event in events.items()}}


# name: (record, input, {path of the field: type of its error})
INVALID = {
    "event: no id": (FailureEvent, without(EVENT, "event_id"), {"event_id": "missing"}),
    "event: id None": (FailureEvent, EVENT | {"event_id": None}, {"event_id": "string_type"}),
    "event: id no text": (FailureEvent, EVENT | {"event_id": 5}, {"event_id": "string_type"}),
    "event: no boundary": (FailureEvent, without(EVENT, "boundary"), {"boundary": "missing"}),
    "event: unknown boundary": (FailureEvent, EVENT | {"boundary": "moon"}, {"boundary": "enum"}),
    "event: boundary by name": (FailureEvent, EVENT | {"boundary": "AGENT"}, {"boundary": "enum"}),
    "event: boundary with a newline": (FailureEvent, EVENT | {"boundary": "agent\n"}, {"boundary": "enum"}),
    "event: boundary unhashable": (FailureEvent, EVENT | {"boundary": []}, {"boundary": "enum"}),
    "event: boundary is a stage": (FailureEvent, EVENT | {"boundary": kinds.FailureStage.AGENT}, {"boundary": "enum"}),
    "event: no kind": (FailureEvent, without(EVENT, "failure_kind"), {"failure_kind": "missing"}),
    "event: kind None": (FailureEvent, EVENT | {"failure_kind": None}, {"failure_kind": "string_type"}),
    "event: kind a list": (FailureEvent, EVENT | {"failure_kind": []}, {"failure_kind": "string_type"}),
    "event: reason None": (FailureEvent, EVENT | {"failure_reason": None}, {"failure_reason": "string_type"}),
    "event: reason too long": (
        FailureEvent,
        EVENT | {"failure_reason": "模" * 2_001},
        {"failure_reason": "string_too_long"},
    ),
    "event: reason with a lone surrogate": (
        FailureEvent,
        EVENT | {"failure_reason": "a\ud800"},
        {"failure_reason": "string_unicode"},
    ),
    "event: reason not UTF-8": (
        FailureEvent,
        EVENT | {"failure_reason": b"\xff"},
        {"failure_reason": "string_unicode"},
    ),
    "event: unknown stage": (FailureEvent, EVENT | {"stage": "later"}, {"stage": "enum"}),
    "event: stage is a boundary": (FailureEvent, EVENT | {"stage": FailureBoundary.AGENT}, {"stage": "enum"}),
    "event: operation too long": (FailureEvent, EVENT | {"operation": "x" * 257}, {"operation": "string_too_long"}),
    "event: operation a dict": (FailureEvent, EVENT | {"operation": {"a": {"b": 1}}}, {"operation": "string_type"}),
    "event: operation id too long": (
        FailureEvent,
        EVENT | {"operation_id": "x" * 129},
        {"operation_id": "string_too_long"},
    ),
    "event: attempt id too long": (FailureEvent, EVENT | {"attempt_id": "x" * 129}, {"attempt_id": "string_too_long"}),
    "event: cause id too long": (FailureEvent, EVENT | {"cause_id": "x" * 129}, {"cause_id": "string_too_long"}),
    "event: type too long": (
        FailureEvent,
        EVENT | {"exception_type": "x" * 257},
        {"exception_type": "string_too_long"},
    ),
    "event: type is a class": (FailureEvent, EVENT | {"exception_type": ValueError}, {"exception_type": "string_type"}),
    "event: status 99": (FailureEvent, EVENT | {"http_status": 99}, {"http_status": "greater_than_equal"}),
    "event: status 600": (FailureEvent, EVENT | {"http_status": 600}, {"http_status": "less_than_equal"}),
    "event: status 2**70": (FailureEvent, EVENT | {"http_status": 2**70}, {"http_status": "less_than_equal"}),
    "event: status nan": (FailureEvent, EVENT | {"http_status": float("nan")}, {"http_status": "finite_number"}),
    "event: status true": (FailureEvent, EVENT | {"http_status": True}, {"http_status": "greater_than_equal"}),
    "event: status 429.5": (FailureEvent, EVENT | {"http_status": 429.5}, {"http_status": "int_from_float"}),
    "event: unknown field": (FailureEvent, EVENT | {"mystery": None}, {"mystery": "extra_forbidden"}),
    "event: a list": (FailureEvent, [EVENT], {"": "model_type"}),
    "event: another record": (FailureEvent, FailureReport(), {"": "model_type"}),
    "details: none at this boundary": (FailureEvent, EVENT | {"details": {}}, {"details": "details_forbidden"}),
    "details: record at a boundary without": (
        FailureEvent,
        EVENT | {"details": ModelFailureDetails()},
        {"details": "details_forbidden"},
    ),
    "details: of another boundary": (
        FailureEvent,
        MODEL | {"details": {"sandbox_id": "s"}},
        {"details.sandbox_id": "extra_forbidden"},
    ),
    "details: record of another boundary": (
        FailureEvent,
        MODEL | {"details": SandboxFailureDetails()},
        {"details": "model_type"},
    ),
    "details: a string": (FailureEvent, SANDBOX | {"details": "137"}, {"details": "model_type"}),
    "details: field too long": (
        FailureEvent,
        SANDBOX | {"details": {"provider": "x" * 257}},
        {"details.provider": "string_too_long"},
    ),
    "details: two wrong fields": (
        FailureEvent,
        SANDBOX | {"details": {"exit_code": "killed", "provider_status_reason": "x" * 2_001}},
        {"details.exit_code": "int_parsing", "details.provider_status_reason": "string_too_long"},
    ),
    "details: not judged at an unknown boundary": (
        FailureEvent,
        EVENT | {"boundary": "moon", "details": {"sandbox_id": "s"}},
        {"boundary": "enum"},
    ),
    "foreign error: no message": (
        FailureEvent,
        EVENT | {"foreign_error": without(FOREIGN, "message")},
        {"foreign_error.message": "missing"},
    ),
    "foreign error: empty type": (
        SdkErrorDetails,
        FOREIGN | {"exception_type": ""},
        {"exception_type": "string_too_short"},
    ),
    "foreign error: type too long": (
        SdkErrorDetails,
        FOREIGN | {"exception_type": "x" * 257},
        {"exception_type": "string_too_long"},
    ),
    "foreign error: message too long": (
        SdkErrorDetails,
        FOREIGN | {"message": "x" * 2_001},
        {"message": "string_too_long"},
    ),
    "foreign error: status 0": (SdkErrorDetails, FOREIGN | {"http_status": 0}, {"http_status": "greater_than_equal"}),
    "foreign error: unknown field": (SdkErrorDetails, FOREIGN | {"body": "x"}, {"body": "extra_forbidden"}),
    "model: flag no truth": (
        ModelFailureDetails,
        {"request_upload_complete": "perhaps"},
        {"request_upload_complete": "bool_parsing"},
    ),
    "report: events a list": (FailureReport, {"events": []}, {"events": "dict_type"}),
    "report: events None": (FailureReport, {"events": None}, {"events": "dict_type"}),
    "report: event a string": (FailureReport, {"events": {"a": "agent"}}, {"events.a": "model_type"}),
    "report: event None": (FailureReport, {"events": {"a": None}}, {"events.a": "model_type"}),
    "report: wrong field of one event": (
        FailureReport,
        report(a={}, b={"http_status": 1}),
        {"events.b.http_status": "greater_than_equal"},
    ),
    "report: wrong details of one event": (
        FailureReport,
        report(a={"boundary": "sandbox", "details": {"exit_code": "x"}}),
        {"events.a.details.exit_code": "int_parsing"},
    ),
    "report: wrong id": (FailureReport, report(a={"event_id": "b"}), {"events.a.event_id": "event_id_mismatch"}),
    "report: wrong id of a record": (
        FailureReport,
        {"events": {"b": FailureEvent(**EVENT)}},
        {"events.b.event_id": "event_id_mismatch"},
    ),
    "report: unknown cause": (FailureReport, report(a={"cause_id": "b"}), {"events.a.cause_id": "cause_unknown"}),
    "report: two unknown causes": (
        FailureReport,
        report(a={"cause_id": "x"}, b={}, c={"cause_id": "y"}),
        {"events.a.cause_id": "cause_unknown", "events.c.cause_id": "cause_unknown"},
    ),
    "report: own cause": (FailureReport, report(a={"cause_id": "a"}), {"events.a.cause_id": "cause_cycle"}),
    "report: cycle of three": (
        FailureReport,
        report(x={"cause_id": "a"}, a={"cause_id": "b"}, b={"cause_id": "c"}, c={"cause_id": "a"}),
        {"events.c.cause_id": "cause_cycle"},
    ),
    "report: two cycles": (
        FailureReport,
        report(a={"cause_id": "a"}, b={"cause_id": "c"}, c={"cause_id": "b"}),
        {"events.a.cause_id": "cause_cycle", "events.c.cause_id": "cause_cycle"},
    ),
    "report: unknown own failure": (
        FailureReport,
        report(a={}) | {"failure_id": "b"},
        {"failure_id": "failure_id_unknown"},
    ),
    "report: own failure of nothing": (FailureReport, {"failure_id": ""}, {"failure_id": "failure_id_unknown"}),
    "report: own failure too long": (FailureReport, {"failure_id": "x" * 129}, {"failure_id": "string_too_long"}),
    "report: omitted no truth": (FailureReport, {"omitted": "perhaps"}, {"omitted": "bool_parsing"}),
    "report: omitted None": (FailureReport, {"omitted": None}, {"omitted": "bool_type"}),
    "report: unknown field": (FailureReport, {"version": 2}, {"version": "extra_forbidden"}),
    "episode: no reason": (EpisodeFailure, without(EPISODE, "failure_reason"), {"failure_reason": "missing"}),
    "episode: reason too long": (
        EpisodeFailure,
        EPISODE | {"failure_reason": "x" * 2_001},
        {"failure_reason": "string_too_long"},
    ),
    "episode: no terminal": (EpisodeFailure, without(EPISODE, "terminal"), {"terminal": "missing"}),
    "episode: kind no text": (EpisodeFailure, EPISODE | {"failure_kind": 5}, {"failure_kind": "string_type"}),
    "episode: unknown stage": (EpisodeFailure, EPISODE | {"stage": "later"}, {"stage": "enum"}),
    "episode: unknown field": (EpisodeFailure, EPISODE | {"retry": True}, {"retry": "extra_forbidden"}),
}

AT_THE_BOUND = {
    "reason of 2,000": (FailureEvent, EVENT | {"failure_reason": "模" * limits.REASON_LENGTH}),
    "operation of 256": (FailureEvent, EVENT | {"operation": "🔥" * limits.NAME_LENGTH}),
    "type of 256": (FailureEvent, EVENT | {"exception_type": "x" * limits.TYPE_NAME_LENGTH}),
    "ids of 128": (
        FailureEvent,
        EVENT | dict.fromkeys(["operation_id", "attempt_id", "cause_id"], "x" * limits.ID_LENGTH),
    ),
    "status 100": (FailureEvent, EVENT | {"http_status": 100}),
    "status 599": (FailureEvent, EVENT | {"http_status": 599}),
    "status in text": (FailureEvent, EVENT | {"http_status": "429"}),
    "exit code 2**70": (SandboxFailureDetails, {"exit_code": 2**70}),
    "exit code -9": (SandboxFailureDetails, {"exit_code": -9}),
    "type of 1": (SdkErrorDetails, FOREIGN | {"exception_type": "x"}),
    "empty message": (SdkErrorDetails, FOREIGN | {"message": ""}),
    "event id and kind of any length": (FailureEvent, EVENT | {"event_id": "x" * 5_000, "failure_kind": "y" * 5_000}),
    "details None anywhere": (FailureEvent, EVENT | {"details": None}),
    "cause after its effect": (FailureReport, report(a={"cause_id": "b"}, b={"cause_id": "c"}, c={})),
    "two effects of a cause": (FailureReport, report(a={"cause_id": "c"}, b={"cause_id": "c"}, c={})),
}


def paths(error):
    """Return the path of each field that `error` complains about, with the type of the complaint."""
    return {".".join(map(str, fault["loc"])): fault["type"] for fault in error.errors()}


@pytest.mark.parametrize(("record_type", "value", "faults"), INVALID.values(), ids=INVALID.keys())
def test_an_error_names_each_wrong_field(record_type, value, faults):
    """Invalid input is one error that names every wrong field by its path, and no other field."""
    with pytest.raises(ValidationError) as caught:
        record_type.model_validate(value)
    assert paths(caught.value) == faults


@pytest.mark.parametrize(("record_type", "value"), AT_THE_BOUND.values(), ids=AT_THE_BOUND.keys())
def test_what_is_just_allowed_is_taken(record_type, value):
    """Bounds are inclusive, and what has no bound has none."""
    record_type.model_validate(value)


def test_a_lone_surrogate_in_json_is_an_error_of_the_json():
    """JSON with half of a surrogate pair has no such text, so the whole input is refused."""
    with pytest.raises(ValidationError) as caught:
        EpisodeFailure.model_validate_json(r'{"failure_reason": "\ud800", "terminal": true}')
    assert paths(caught.value) == {"": "json_invalid"}


SECRET = "sk-0123456789abcdef"  # noqa: S105 - what must not show
SECRETIVE = {
    "reason": (FailureEvent, EVENT | {"failure_reason": SECRET * 200}),
    "message": (FailureEvent, EVENT | {"foreign_error": FOREIGN | {"message": SECRET * 200}}),
    "status reason": (FailureEvent, SANDBOX | {"details": {"provider_status_reason": SECRET * 200}}),
    "event in a report": (FailureReport, report(a={"failure_reason": SECRET * 200})),
    "unexpected value": (FailureEvent, EVENT | {"stage": SECRET}),
    "record that is no dict": (FailureEvent, SECRET),
    "episode": (EpisodeFailure, EPISODE | {"failure_reason": SECRET * 200}),
}


@pytest.mark.parametrize(("record_type", "value"), SECRETIVE.values(), ids=SECRETIVE.keys())
def test_an_error_does_not_quote_the_value(record_type, value):
    """An error's text, which ends up in logs, is short and holds nothing of the value that was wrong."""
    with pytest.raises(ValidationError) as caught:
        record_type.model_validate(value)
    assert SECRET not in str(caught.value)
    assert len(str(caught.value)) < 1_000
