"""What a failure records: the events that were observed, the report that carries them, and the failure of an episode.

Classes, fields and bounds are those of NeMo Gym's published records (`nemo_gym.core.failure_records`). Other packages'
models of the same fields, their `model_dump()` and their JSON validate here and go back without loss. Absent and None
are the same, so a serialised record leaves out what is absent.

Text is as lax as published: a text with a bound refuses lone surrogates, but an event id and a kind take them, and
a record that holds one has no JSON (`pydantic_core.PydanticSerializationError`).

An error names the field by its path. Its text never quotes the value, because reasons and messages can hold secrets;
`ValidationError.errors(include_input=False)` is the structured form without values.
"""

from collections.abc import Iterator, Mapping
from typing import Annotated, Final, LiteralString, NoReturn, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    SerializerFunctionWrapHandler,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_serializer,
    model_validator,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, InitErrorDetails, PydanticCustomError

from gym_failures import limits
from gym_failures.kinds import FailureBoundary, FailureStage, validate_failure_kind

__all__ = [
    "EpisodeFailure",
    "FailureBoundary",
    "FailureDetails",
    "FailureEvent",
    "FailureReport",
    "ModelFailureDetails",
    "SandboxFailureDetails",
    "SdkErrorDetails",
    "validate_failure_event_map",
]

_Id = Annotated[str, Field(max_length=limits.ID_LENGTH)]
_Name = Annotated[str, Field(max_length=limits.NAME_LENGTH)]
_TypeName = Annotated[str, Field(max_length=limits.TYPE_NAME_LENGTH)]
_Reason = Annotated[str, Field(max_length=limits.REASON_LENGTH)]
_HttpStatus = Annotated[int, Field(ge=limits.HTTP_STATUS_MIN, le=limits.HTTP_STATUS_MAX)]


class _Record(BaseModel):
    """What all records share: no unknown field, no value in an error's text, and other packages' models as input."""

    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)

    @model_validator(mode="before")
    @classmethod
    def _read_foreign_model(cls, value: object) -> object:
        return dict(value) if isinstance(value, BaseModel) and not isinstance(value, _Record) else value


# No return annotation: pydantic would publish it as the JSON Schema of every record.
def _omit_absent(self: _Record, handler: SerializerFunctionWrapHandler):  # type: ignore[no-untyped-def]  # noqa: ANN202
    return {name: value for name, value in handler(self).items() if value is not None}


class SandboxFailureDetails(_Record):
    """State what was observed of a sandbox; None is what was not observed, and no cause is inferred from it.

    `execution_id` is the last execution, which need not be the one that failed. `exit_code` is what a command reported,
    never a stand-in. All fields leave the process. `provider_status_reason` (at most 2,000 characters) is the
    provider's own text and may hold secrets; the names (at most 256) identify, but give no access.
    """

    model_config = ConfigDict(frozen=True)

    provider: _Name | None = None
    sandbox_id: _Name | None = None
    execution_id: _Name | None = None
    exit_code: int | None = None
    provider_status_reason: _Reason | None = None

    _serialize_details = model_serializer(mode="wrap")(_omit_absent)


class ModelFailureDetails(_Record):
    """State what was observed of a request to a model; None is what was not observed.

    Both fields leave the process and neither holds secrets: `provider_request_id` (at most 256 characters) is what
    a provider's support asks for; `request_upload_complete` says whether the whole request had been sent.
    """

    model_config = ConfigDict(frozen=True)

    provider_request_id: _Name | None = None
    request_upload_complete: bool | None = None

    _serialize_details = model_serializer(mode="wrap")(_omit_absent)


FailureDetails = SandboxFailureDetails | ModelFailureDetails

_DETAILS: Final[Mapping[FailureBoundary, type[FailureDetails]]] = {
    FailureBoundary.SANDBOX: SandboxFailureDetails,
    FailureBoundary.MODEL: ModelFailureDetails,
}


class SdkErrorDetails(_Record):
    """State what an adapter chose from another library's error before it raised a failure of its own.

    All fields leave the process. `message` (at most 2,000 characters) may hold secrets, so an adapter picks a part of
    the error that is meant for people and never its `str()`, which can quote the request. `exception_type` has 1 to
    256 characters. `http_status` is in [100, 599]; None where there was no HTTP answer.
    """

    model_config = ConfigDict(frozen=True)

    exception_type: Annotated[_TypeName, Field(min_length=1)]
    message: _Reason
    http_status: _HttpStatus | None = None

    _serialize_error = model_serializer(mode="wrap")(_omit_absent)


class FailureEvent(_Record):
    """Record one observed failure: who observed it, what failed, and which other failure caused it.

    An `event_id` names one unchanging record, so that readers count it once. `cause_id` names another event of the same
    report; None is a failure without a known cause. The schema of `details` goes with `boundary`: sandbox and model
    have one, and elsewhere `details` must be None. Another library's error stands in `foreign_error`; it is no failure
    of its own. A `failure_kind` outside the vocabulary is kept and warned about. Ids have at most 128 characters, names
    and types 256, the reason 2,000; `http_status` is in [100, 599].

    All fields leave the process, in span events, reply headers, log lines and saved rows. `failure_reason`,
    `foreign_error.message` and `details.provider_status_reason` may hold secrets; no other field should.
    """

    model_config = ConfigDict(frozen=True)

    event_id: str
    boundary: FailureBoundary
    failure_kind: str
    failure_reason: _Reason = ""
    stage: FailureStage | None = None
    operation: _Name | None = None
    operation_id: _Id | None = None
    attempt_id: _Id | None = None
    exception_type: _TypeName | None = None
    http_status: _HttpStatus | None = None
    cause_id: _Id | None = None
    foreign_error: SdkErrorDetails | None = None
    details: FailureDetails | None = None  # after `boundary`, which chooses its schema

    _serialize_event = model_serializer(mode="wrap")(_omit_absent)

    @field_validator("failure_kind")
    @classmethod
    def _validate_failure_kind(cls, value: str) -> str:
        validate_failure_kind(value)
        return value

    @field_validator("details", mode="before")
    @classmethod
    def _validate_details(cls, value: object, info: ValidationInfo) -> FailureDetails | None:
        boundary = info.data.get("boundary")
        if value is None or boundary is None:  # a wrong boundary is an error of its own
            return None
        schema = _DETAILS.get(boundary)
        if schema is None:
            raise PydanticCustomError(
                "details_forbidden", "A failure at boundary '{boundary}' has no details", {"boundary": boundary.value}
            )
        return schema.model_validate(value)


class FailureReport(_Record):
    """Carry the failures that one reply forwards, each with its explicit causes.

    `events` maps an event's id to the event; in input an event may leave its `event_id` to the key. `failure_id` names
    the reply's own failure among them; None is a reply that succeeded, whose events were recovered from. `omitted` says
    that a report on the way was too large, so events or causes are missing. Causes resolve within the report and form
    no cycle.

    All fields leave the process; see `FailureEvent` for those that may hold secrets.
    """

    events: dict[str, FailureEvent] = Field(default_factory=dict)
    failure_id: _Id | None = None
    omitted: bool = False

    _serialize_report = model_serializer(mode="wrap")(_omit_absent)

    def merged(self, other: "FailureReport") -> "FailureReport":
        """Return a new report with `other`'s events added; the own `failure_id` stays.

        An id names one record, so the first copy of an id is kept. `omitted` is set if it is set in either.
        """
        # Needs no validation: causes resolve within each report, so an own event never points to an added one, and a
        # cycle of added events alone would have been a cycle in `other`.
        events = self.events.copy()
        for event_id, event in other.events.items():
            events.setdefault(event_id, event)
        return self.model_copy(update={"events": events, "omitted": self.omitted or other.omitted})

    @field_validator("events", mode="before")
    @classmethod
    def _restore_event_ids(cls, value: object) -> object:
        if not isinstance(value, Mapping):
            return value
        return {
            event_id: {**event, "event_id": event_id}
            if isinstance(event, Mapping) and "event_id" not in event
            else event
            for event_id, event in value.items()
        }

    @field_validator("events")
    @classmethod
    def _validate_events(cls, value: dict[str, FailureEvent]) -> dict[str, FailureEvent]:
        validate_failure_event_map(value)
        return value

    @model_validator(mode="after")
    def _failure_id_is_an_event(self) -> Self:
        if self.failure_id is not None and self.failure_id not in self.events:
            _raise_faults([_fault("failure_id_unknown", "No event of the report has this id", "failure_id")])
        return self

    @classmethod
    def __get_pydantic_json_schema__(cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """Publish that an event in input may leave its `event_id` to the key."""
        schema = handler(core_schema)
        if handler.mode == "validation":
            events = handler.resolve_ref_schema(schema)["properties"]["events"]
            event = handler.resolve_ref_schema(events["additionalProperties"])
            required = [name for name in event["required"] if name != "event_id"]
            events["additionalProperties"] = event | {"required": required}
        return schema


class EpisodeFailure(_Record):
    """Describe why one attempt at an episode failed, in the same fields on the wire and in saved records.

    `terminal` says that no further attempt will be made. `failure_kind` and `stage` are None where they are not known,
    as for an observer whose reply got lost. All fields leave the process, in replies and saved rows; `failure_reason`
    (at most 2,000 characters) may hold secrets.
    """

    failure_reason: _Reason
    terminal: bool
    failure_kind: str | None = None
    stage: FailureStage | None = None

    _serialize_failure = model_serializer(mode="wrap")(_omit_absent)

    @field_validator("failure_kind")
    @classmethod
    def _validate_failure_kind(cls, value: str | None) -> str | None:
        return validate_failure_kind(value)


def validate_failure_event_map(events: Mapping[str, FailureEvent]) -> Mapping[str, FailureEvent]:
    """Return `events` unchanged when each stands under its own id and all causes resolve in it without a cycle.

    Otherwise raises ValidationError, a ValueError, with one fault for each event under a wrong key, each cause that is
    missing and each cycle; the path is the key and the field. Takes linear time.
    """
    faults = []
    for key, event in events.items():
        if event.event_id != key:
            faults.append(_fault("event_id_mismatch", "The event stands under another id than this", key, "event_id"))
        if event.cause_id is not None and event.cause_id not in events:
            faults.append(_fault("cause_unknown", "No event of the report has this id", key, "cause_id"))
    faults += (_fault("cause_cycle", "The event causes itself", key, "cause_id") for key in circular_causes(events))
    if faults:
        _raise_faults(faults)
    return events


def circular_causes(events: Mapping[str, FailureEvent]) -> Iterator[str]:
    """Yield the key of one event of each cycle of causes: the one whose cause a walk along the causes came back to.

    Without that event's cause the cycle is gone, and everything that led into it stays linked. Each event is stepped on
    once, by the first walk that gets there. A walk that ends on one of its own events has gone round; one that ends on
    an earlier walk's, or on a cause that is missing, has not.
    """
    walk_of: dict[str, str] = {}
    for start in events:
        last = start
        key: str | None = start
        while key is not None and key in events and key not in walk_of:
            walk_of[key] = start
            last = key
            key = events[key].cause_id
        if key is not None and walk_of.get(key) == start:
            yield last


def _fault(code: LiteralString, message: LiteralString, *path: str) -> InitErrorDetails:
    return InitErrorDetails(type=PydanticCustomError(code, message), loc=path, input=None)


def _raise_faults(faults: list[InitErrorDetails]) -> NoReturn:
    """Raise `faults` so that pydantic keeps the path of each; of a plain ValueError it knows only the validator's."""
    raise ValidationError.from_exception_data("failure events", faults, hide_input=True)
