"""The published JSON Schema of the records: what it says is what the records do."""

import json

import pytest
from hypothesis import given
from jsonschema import Draft202012Validator
from pydantic import ValidationError

from gym_failures.records import FailureEvent, FailureReport
from tests import strategies


def name_of(record_type):
    """Return the name that a case about `record_type` goes by."""
    return record_type.__name__


@pytest.mark.parametrize("record_type", strategies.RECORDS, ids=name_of)
def test_what_is_written_follows_the_schema(record_type):
    """Any record's JSON is valid under the JSON Schema of what is written, and of what is read."""
    written = Draft202012Validator(record_type.model_json_schema(mode="serialization"))
    read = Draft202012Validator(record_type.model_json_schema(mode="validation"))

    @given(strategies.RECORDS[record_type])
    def follows(record):
        value = json.loads(record.model_dump_json())
        written.validate(value)
        read.validate(value)

    follows()


@pytest.mark.parametrize("mode", ["serialization", "validation"])
@pytest.mark.parametrize("record_type", strategies.RECORDS, ids=name_of)
def test_the_schema_names_every_field_and_no_other(record_type, mode):
    """The JSON Schema is public: it is well-formed, lists every field of the record and forbids others, both ways."""
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
