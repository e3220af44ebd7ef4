"""Records of the same shape from another package: read without importing it, and handed back without loss."""

import enum
import json
from types import MappingProxyType, SimpleNamespace
from typing import Literal

import pytest
from hypothesis import given
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, field_validator

from gym_failures import kinds
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


class TheirBoundary(enum.Enum):
    """The seven boundaries, as another package's enum."""

    AGENT = "agent"
    COLLECTION = "collection"
    ENVIRONMENT = "environment"
    HARNESS = "harness"
    MODEL = "model"
    RESOURCES_SERVER = "resources_server"
    SANDBOX = "sandbox"


# NeMo Gym has published the stages both as an enum and as literals.
TheirStage = enum.Enum("TheirStage", {stage.name: stage.value for stage in kinds.FailureStage})
TheirLiteralStage = Literal["admission", "seed", "agent", "verification", "cleanup"]


class Theirs(BaseModel):
    """Another package's base: nothing of it is ours, and absent fields are written as None."""

    model_config = ConfigDict(extra="forbid")


class TheirSandboxDetails(Theirs):
    """Sandbox facts."""

    provider: str | None = None
    sandbox_id: str | None = None
    execution_id: str | None = None
    exit_code: int | None = None
    provider_status_reason: str | None = None


class TheirModelDetails(Theirs):
    """Model facts."""

    provider_request_id: str | None = None
    request_upload_complete: bool | None = None


class TheirSdkError(Theirs):
    """What was kept of a foreign error."""

    exception_type: str
    message: str
    http_status: int | None = None


class TheirEvent(Theirs):
    """One failure."""

    event_id: str
    boundary: TheirBoundary
    failure_kind: str
    failure_reason: str = ""
    stage: TheirStage | None = None
    operation: str | None = None
    operation_id: str | None = None
    attempt_id: str | None = None
    exception_type: str | None = None
    http_status: int | None = None
    cause_id: str | None = None
    foreign_error: TheirSdkError | None = None
    details: TheirSandboxDetails | TheirModelDetails | None = None

    @field_validator("details", mode="before")
    @classmethod
    def _by_boundary(cls, value, info):
        schemas = {TheirBoundary.SANDBOX: TheirSandboxDetails, TheirBoundary.MODEL: TheirModelDetails}
        return schemas[info.data["boundary"]].model_validate(value) if isinstance(value, dict) else value


class TheirReport(Theirs):
    """The failures of one reply."""

    events: dict[str, TheirEvent] = Field(default_factory=dict)
    failure_id: str | None = None
    omitted: bool = False


class TheirEpisodeFailure(Theirs):
    """The failure of an episode, with the stages as literals."""

    failure_reason: str
    terminal: bool
    failure_kind: str | None = None
    stage: TheirLiteralStage | None = None


HANDED_OVER = {
    "object": lambda model: model,
    "Python dump": lambda model: model.model_dump(),
    "JSON-mode dump": lambda model: model.model_dump(mode="json"),
    "read-only mapping": lambda model: MappingProxyType(model.model_dump()),
    "dump of what is set": lambda model: model.model_dump(exclude_unset=True),
    "parsed JSON": lambda model: json.loads(model.model_dump_json()),
}


@pytest.mark.parametrize("hand_over", HANDED_OVER.values(), ids=HANDED_OVER.keys())
def test_their_report_becomes_ours_and_theirs_again(hand_over):
    """Any report, given as their object, its dump or its JSON, reads as ours and reads back as the same of theirs."""

    @given(strategies.failure_reports())
    def there_and_back(ours):
        theirs = TheirReport.model_validate_json(ours.model_dump_json())
        read = FailureReport.model_validate(hand_over(theirs))
        assert read == ours
        assert TheirReport.model_validate_json(read.model_dump_json()) == theirs
        assert TheirReport.model_validate(read.model_dump(mode="json")) == theirs

    there_and_back()


@given(strategies.failure_reports())
def test_their_json_becomes_ours(ours):
    """The JSON text of any report of theirs, with None written out, reads as ours."""
    theirs = TheirReport.model_validate_json(ours.model_dump_json())
    assert FailureReport.model_validate_json(theirs.model_dump_json()) == ours


@pytest.mark.parametrize("hand_over", HANDED_OVER.values(), ids=HANDED_OVER.keys())
def test_their_episode_failure_becomes_ours(hand_over):
    """Any failure of an episode reads as ours, also where a stage is plain text."""

    @given(strategies.episode_failures())
    def there_and_back(ours):
        theirs = TheirEpisodeFailure.model_validate_json(ours.model_dump_json())
        read = EpisodeFailure.model_validate(hand_over(theirs))
        assert read == ours
        assert TheirEpisodeFailure.model_validate_json(read.model_dump_json()) == theirs

    there_and_back()


def test_their_parts_fit_into_ours():
    """Each part of theirs can be given where ours is expected, and becomes ours."""
    event = FailureEvent(
        event_id="a",
        boundary=TheirBoundary.SANDBOX,
        failure_kind=kinds.PROVIDER_OOM_KILLED,
        stage=TheirStage.AGENT,
        foreign_error=TheirSdkError(exception_type="T", message="m"),
        details=TheirSandboxDetails(exit_code=137),
    )
    assert event.boundary is FailureBoundary.SANDBOX
    assert event.stage is kinds.FailureStage.AGENT
    assert event.foreign_error == SdkErrorDetails(exception_type="T", message="m")
    assert event.details == SandboxFailureDetails(exit_code=137)


def test_their_events_mix_with_ours():
    """A report takes events of theirs, of ours and plain fields side by side."""
    theirs = TheirEvent(event_id="a", boundary=TheirBoundary.AGENT, failure_kind=kinds.CANCELLED, cause_id="b")
    ours = FailureEvent(event_id="b", boundary=FailureBoundary.MODEL, failure_kind=kinds.CANCELLED, cause_id="c")
    plain = {"boundary": "harness", "failure_kind": kinds.CANCELLED}
    report = FailureReport(events={"a": theirs, "b": ours, "c": plain})
    assert [type(event) for event in report.events.values()] == [FailureEvent] * 3
    assert report.events["b"] is ours


def test_a_report_reads_as_a_field_of_a_users_model():
    """A user's own model takes a report of theirs in a field of ours."""

    class Row(BaseModel):
        report: FailureReport

    theirs = TheirReport(events={"a": TheirEvent(event_id="a", boundary=TheirBoundary.AGENT, failure_kind="cancelled")})
    assert Row(report=theirs).report == Row.model_validate(Row(report=theirs).model_dump()).report


def test_a_union_tells_the_details_apart():
    """Details outside an event are told apart by their fields."""
    details = TypeAdapter(SandboxFailureDetails | ModelFailureDetails)
    assert details.validate_python({"exit_code": 1}) == SandboxFailureDetails(exit_code=1)
    assert details.validate_python({"request_upload_complete": True}) == ModelFailureDetails(
        request_upload_complete=True
    )


class Unlike(Theirs):
    """A model of another shape, all of whose fields may be absent."""

    mystery: str | None = None


class NewerReport(TheirReport):
    """A report of a version that knows more."""

    version: int | None = None


REFUSED = {
    "model of another shape": (Unlike(), {"mystery": "extra_forbidden"}),
    "newer report": (NewerReport(), {"version": "extra_forbidden"}),
    "object with the fields as attributes": (SimpleNamespace(events={}, failure_id=None), {"": "model_type"}),
    "object without any": (object(), {"": "model_type"}),
    "their event under a wrong key": (
        TheirReport(events={"b": TheirEvent(event_id="a", boundary=TheirBoundary.AGENT, failure_kind="cancelled")}),
        {"events.b.event_id": "event_id_mismatch"},
    ),
    "their details of another boundary": (
        TheirReport(
            events={
                "a": TheirEvent(
                    event_id="a",
                    boundary=TheirBoundary.MODEL,
                    failure_kind="cancelled",
                    details=TheirSandboxDetails(exit_code=1),
                )
            }
        ),
        {
            f"events.a.details.{name}": "extra_forbidden"
            for name in ("provider", "sandbox_id", "execution_id", "exit_code", "provider_status_reason")
        },
    ),
    "their details at a boundary without": (
        TheirReport(
            events={
                "a": TheirEvent(
                    event_id="a", boundary=TheirBoundary.AGENT, failure_kind="cancelled", details=TheirModelDetails()
                )
            }
        ),
        {"events.a.details": "details_forbidden"},
    ),
}


@pytest.mark.parametrize(("value", "faults"), REFUSED.values(), ids=REFUSED.keys())
def test_what_is_not_of_our_shape_is_refused(value, faults):
    """Another shape is an error at the field that differs, never an empty report."""
    with pytest.raises(ValidationError) as caught:
        FailureReport.model_validate(value)
    assert {".".join(map(str, fault["loc"])): fault["type"] for fault in caught.value.errors()} == faults
