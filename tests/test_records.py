"""The records: what they hold, how they are written, and that they come back as they went."""

import copy
import json
import pickle

import pytest
from hypothesis import example, given
from jsonschema import Draft202012Validator
from pydantic import ValidationError
from pydantic_core import PydanticSerializationError

from gym_failures import kinds
from gym_failures.kinds import FailureStage
from gym_failures.records import (
    EpisodeFailure,
    FailureBoundary,
    FailureEvent,
    FailureReport,
    ModelFailureDetails,
    SandboxFailureDetails,
    SdkErrorDetails,
)
from tests import strategies

EMPTY_ID = FailureReport(
    events={"": FailureEvent(event_id="", boundary=FailureBoundary.AGENT, failure_kind="")}, failure_id=""
)

ROOT = FailureEvent(
    event_id="root",
    boundary=FailureBoundary.MODEL,
    failure_kind=kinds.PROVIDER_QUOTA_EXHAUSTED,
    failure_reason="rate limit reached",
    stage=FailureStage.AGENT,
    operation="model POST /v1/responses",
    operation_id="op",
    attempt_id="op.1",
    exception_type="openai.RateLimitError",
    http_status=429,
    foreign_error=SdkErrorDetails(exception_type="openai.RateLimitError", message="slow down", http_status=429),
    details=ModelFailureDetails(provider_request_id="req_1", request_upload_complete=True),
)
TOP = FailureEvent(event_id="top", boundary=FailureBoundary.AGENT, failure_kind=kinds.AGENT_RUN_ERROR, cause_id="root")
REPORT = FailureReport(events={"root": ROOT, "top": TOP}, failure_id="top")

# What each record is in JSON, field by field, in the order in which it is written.
WRITTEN = {
    "sandbox with everything": (
        SandboxFailureDetails(
            provider="docker", sandbox_id="s", execution_id="e", exit_code=137, provider_status_reason="OOMKilled"
        ),
        '{"provider":"docker","sandbox_id":"s","execution_id":"e","exit_code":137,"provider_status_reason":"OOMKilled"}',
    ),
    "sandbox with nothing observed": (SandboxFailureDetails(), "{}"),
    "sandbox with falsy facts": (SandboxFailureDetails(provider="", exit_code=0), '{"provider":"","exit_code":0}'),
    "model with everything": (
        ModelFailureDetails(provider_request_id="r", request_upload_complete=False),
        '{"provider_request_id":"r","request_upload_complete":false}',
    ),
    "foreign error without a status": (
        SdkErrorDetails(exception_type="T", message=""),
        '{"exception_type":"T","message":""}',
    ),
    "event with everything": (
        ROOT,
        (
            '{"event_id":"root","boundary":"model","failure_kind":"provider_quota_exhausted",'
            '"failure_reason":"rate limit reached","stage":"agent","operation":"model POST /v1/responses",'
            '"operation_id":"op","attempt_id":"op.1","exception_type":"openai.RateLimitError","http_status":429,'
            '"foreign_error":{"exception_type":"openai.RateLimitError","message":"slow down","http_status":429},'
            '"details":{"provider_request_id":"req_1","request_upload_complete":true}}'
        ),
    ),
    "event with little": (
        TOP,
        '{"event_id":"top","boundary":"agent","failure_kind":"agent_run_error","failure_reason":"","cause_id":"root"}',
    ),
    "empty report": (FailureReport(), '{"events":{},"omitted":false}'),
    "cut report": (FailureReport(omitted=True), '{"events":{},"omitted":true}'),
    "episode of unknown kind and stage": (
        EpisodeFailure(failure_reason="", terminal=False),
        '{"failure_reason":"","terminal":false}',
    ),
    "episode with everything": (
        EpisodeFailure(
            failure_reason="late", terminal=True, failure_kind=kinds.AGENT_TIMEOUT, stage=FailureStage.AGENT
        ),
        '{"failure_reason":"late","terminal":true,"failure_kind":"agent_timeout","stage":"agent"}',
    ),
}

RECORDS = {
    "sandbox": (SandboxFailureDetails, strategies.sandbox_details()),
    "model": (ModelFailureDetails, strategies.model_details()),
    "foreign error": (SdkErrorDetails, strategies.sdk_error_details()),
    "event": (FailureEvent, strategies.failure_events(wire=False)),
    "report": (FailureReport, strategies.failure_reports(wire=False)),
    "episode": (EpisodeFailure, strategies.episode_failures(wire=False)),
}


@pytest.mark.parametrize(("record", "text"), WRITTEN.values(), ids=WRITTEN.keys())
def test_a_record_is_written_without_what_is_absent(record, text):
    """JSON and the JSON-mode dump hold the present fields only, falsy ones included, in the order of the class."""
    assert record.model_dump_json() == text
    assert json.dumps(record.model_dump(mode="json"), separators=(",", ":")) == text


def test_a_python_dump_keeps_the_enums():
    """The Python-mode dump leaves out what is absent too, and keeps boundary and stage as members."""
    assert TOP.model_dump() == {
        "event_id": "top",
        "boundary": FailureBoundary.AGENT,
        "failure_kind": "agent_run_error",
        "failure_reason": "",
        "cause_id": "root",
    }
    assert ROOT.model_dump()["stage"] is FailureStage.AGENT
    assert ROOT.model_dump()["details"] == {"provider_request_id": "req_1", "request_upload_complete": True}


DUMP_OPTIONS = {
    "exclude_unset": (
        {"exclude_unset": True},
        {"event_id": "top", "boundary": "agent", "failure_kind": "agent_run_error", "cause_id": "root"},
    ),
    "exclude_defaults": (
        {"exclude_defaults": True},
        {"event_id": "top", "boundary": "agent", "failure_kind": "agent_run_error", "cause_id": "root"},
    ),
    "include": ({"include": {"event_id", "stage"}}, {"event_id": "top"}),
    "exclude": (
        {"exclude": {"failure_reason", "failure_kind"}},
        {"event_id": "top", "boundary": "agent", "cause_id": "root"},
    ),
    "by_alias": ({"by_alias": True}, json.loads(WRITTEN["event with little"][1])),
    "exclude_none": ({"exclude_none": True}, json.loads(WRITTEN["event with little"][1])),
}


@pytest.mark.parametrize(("options", "expected"), DUMP_OPTIONS.values(), ids=DUMP_OPTIONS.keys())
def test_the_options_of_a_dump_still_work(options, expected):
    """To leave out what is absent takes none of pydantic's dump options away, neither at the top nor nested."""
    assert TOP.model_dump(mode="json", **options) == expected
    assert json.loads(TOP.model_dump_json(**options)) == expected
    if "include" not in options and "exclude" not in options:
        assert REPORT.model_dump(mode="json", **options)["events"]["top"] == expected


def test_a_nested_field_can_be_excluded():
    """A path in `exclude` reaches through the report into an event's details."""
    dumped = REPORT.model_dump(mode="json", exclude={"events": {"root": {"details": {"provider_request_id"}}}})
    assert dumped["events"]["root"]["details"] == {"request_upload_complete": True}
    assert dumped["events"]["root"]["foreign_error"]["message"] == "slow down"


@pytest.mark.parametrize("record", [*(row[0] for row in WRITTEN.values()), REPORT], ids=[*WRITTEN, "report"])
def test_a_record_survives_copy_and_pickle(record):
    """A record comes out of copy, deepcopy and pickle equal to what went in."""
    assert copy.copy(record) == copy.deepcopy(record) == pickle.loads(pickle.dumps(record)) == record  # noqa: S301


@pytest.mark.parametrize(
    "record",
    [ROOT, ROOT.details, ROOT.foreign_error, SandboxFailureDetails()],
    ids=lambda record: type(record).__name__,
)
def test_an_event_and_its_facts_cannot_be_changed(record):
    """What was observed stays as it was recorded: no field of it can be set, and it can be hashed."""
    for name in type(record).model_fields:
        with pytest.raises(ValidationError, match="frozen"):
            setattr(record, name, getattr(record, name))
    assert hash(record) == hash(copy.deepcopy(record))


@pytest.mark.parametrize("kind", RECORDS)
def test_a_record_comes_back_from_python_and_json(kind):
    """Any legal record, dumped in Python or JSON mode or as JSON, validates into an equal record."""
    record_type, records = RECORDS[kind]

    @given(records)
    def comes_back(record):
        assert record_type.model_validate(record.model_dump()) == record
        assert record_type.model_validate(record.model_dump(mode="json")) == record
        assert record_type.model_validate_json(record.model_dump_json()) == record
        assert record_type.model_validate_json(json.dumps(record.model_dump(mode="json"))) == record

    comes_back()


@given(strategies.failure_reports(wire=False))
@example(EMPTY_ID)
@example(REPORT)
def test_a_report_may_leave_the_ids_to_its_keys(report):
    """A report whose events omit their ids is the same report: each id is its key."""
    dumped = report.model_dump()
    for event in dumped["events"].values():
        del event["event_id"]
    assert FailureReport.model_validate(dumped) == report


@pytest.mark.parametrize("kind", RECORDS)
def test_what_is_written_follows_the_schema(kind):
    """Any record's JSON is valid under the JSON Schema of what is written, and of what is read."""
    record_type, records = RECORDS[kind]
    written = Draft202012Validator(record_type.model_json_schema(mode="serialization"))
    read = Draft202012Validator(record_type.model_json_schema(mode="validation"))

    @given(records)
    def follows(record):
        value = json.loads(record.model_dump_json())
        written.validate(value)
        read.validate(value)

    follows()


@pytest.mark.parametrize("mode", ["serialization", "validation"])
@pytest.mark.parametrize("kind", RECORDS)
def test_the_schema_names_every_field_and_no_other(kind, mode):
    """The JSON Schema is public: it is well-formed, lists every field of the record and forbids others, both ways."""
    record_type, _ = RECORDS[kind]
    schema = record_type.model_json_schema(mode=mode)
    Draft202012Validator.check_schema(schema)
    assert schema["properties"].keys() == record_type.model_fields.keys()
    assert schema["additionalProperties"] is False


def test_the_schema_says_where_an_event_id_may_be_left_out():
    """An event needs its id, except under its key in a report that is read."""
    assert "event_id" in FailureEvent.model_json_schema()["required"]
    read = Draft202012Validator(FailureReport.model_json_schema(mode="validation"))
    written = Draft202012Validator(FailureReport.model_json_schema(mode="serialization"))
    without_id = {"events": {"a": {"boundary": "agent", "failure_kind": "cancelled"}}}
    assert read.is_valid(without_id)
    assert not written.is_valid(without_id)
    FailureReport.model_validate(without_id)


SCHEMA_REFUSES = {
    "unknown field": {"events": {}, "mystery": 1},
    "unknown field of an event": {"events": {"a": {"boundary": "agent", "failure_kind": "cancelled", "mystery": 1}}},
    "unknown boundary": {"events": {"a": {"boundary": "moon", "failure_kind": "cancelled"}}},
    "missing kind": {"events": {"a": {"boundary": "agent"}}},
    "reason too long": {
        "events": {"a": {"boundary": "agent", "failure_kind": "cancelled", "failure_reason": "x" * 2001}}
    },
    "status out of range": {"events": {"a": {"boundary": "agent", "failure_kind": "cancelled", "http_status": 600}}},
}


@pytest.mark.parametrize("value", SCHEMA_REFUSES.values(), ids=SCHEMA_REFUSES.keys())
def test_the_schema_refuses_what_the_record_refuses(value):
    """What the JSON Schema of a report can express, it refuses exactly as the report does."""
    assert not Draft202012Validator(FailureReport.model_json_schema()).is_valid(value)
    with pytest.raises(ValidationError):
        FailureReport.model_validate(value)


@given(strategies.failure_events(wire=False, surrogates=True))
def test_a_lone_surrogate_in_an_id_or_kind_stays_in_python(event):
    """An event with a lone surrogate in its id or kind comes back from a Python dump, and says that it has no JSON."""
    assert FailureEvent.model_validate(event.model_dump()) == event
    if any("\ud800" <= char <= "\udfff" for char in event.event_id + event.failure_kind):
        with pytest.raises(PydanticSerializationError, match="surrogates not allowed"):
            event.model_dump_json()
    else:
        assert FailureEvent.model_validate_json(event.model_dump_json()) == event


def test_an_unregistered_kind_is_kept():
    """A kind outside the vocabulary is read and written unchanged, in an event and in an episode's failure."""
    event = FailureEvent(event_id="a", boundary="agent", failure_kind="my_new_kind\n")
    assert json.loads(event.model_dump_json())["failure_kind"] == "my_new_kind\n"
    assert EpisodeFailure(failure_reason="", terminal=True, failure_kind="my_new_kind").failure_kind == "my_new_kind"
