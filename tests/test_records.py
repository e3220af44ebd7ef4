"""The records: what they hold, how they are written, and that they come back as they went."""

import copy
import json
import pickle

import pytest
from hypothesis import example, given
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


def name_of(record_type):
    """Return the name that a case about `record_type` goes by."""
    return record_type.__name__


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
    ids=lambda record: name_of(type(record)),
)
def test_an_event_and_its_facts_cannot_be_changed(record):
    """What was observed stays as it was recorded: no field of it can be set, and it can be hashed."""
    for name in type(record).model_fields:
        with pytest.raises(ValidationError, match="frozen"):
            setattr(record, name, getattr(record, name))
    assert hash(record) == hash(copy.deepcopy(record))


@pytest.mark.parametrize("record_type", strategies.RECORDS, ids=name_of)
def test_a_record_comes_back_from_python_and_json(record_type):
    """Any legal record, dumped in Python or JSON mode or as JSON, validates into an equal record."""

    @given(strategies.RECORDS[record_type])
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


@given(strategies.failure_events(wire=False, surrogates=True))
def test_a_lone_surrogate_in_an_id_or_kind_stays_in_python(event):
    """An event with a lone surrogate in its id or kind comes back from a Python dump, and says that it has no JSON."""
    assert FailureEvent.model_validate(event.model_dump()) == event
    if any("\ud800" <= char <= "\udfff" for char in event.event_id + event.failure_kind):
        with pytest.raises(PydanticSerializationError, match="surrogates not allowed"):
            event.model_dump_json()
    else:
        assert FailureEvent.model_validate_json(event.model_dump_json()) == event


UNREGISTERED = {
    "event": lambda kind: FailureEvent(event_id="a", boundary=FailureBoundary.AGENT, failure_kind=kind),
    "episode": lambda kind: EpisodeFailure(failure_reason="", terminal=True, failure_kind=kind),
}


@pytest.mark.parametrize("record", UNREGISTERED.values(), ids=UNREGISTERED.keys())
def test_an_unregistered_kind_is_kept_with_a_warning(record, monkeypatch, caplog):
    """A kind outside the vocabulary is read and written unchanged, and named once in the log."""
    monkeypatch.setattr(kinds, "_WARNED_UNKNOWN", {})
    for _ in range(2):
        assert json.loads(record("my_new_kind\n").model_dump_json())["failure_kind"] == "my_new_kind\n"
    assert [r"'my_new_kind\n'" in message for message in caplog.messages] == [True]
