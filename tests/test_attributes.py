"""Events as attributes of span events, and back: exact names and types one way, tolerance the other."""

import re
from pathlib import Path

import pytest
from hypothesis import given

from gym_failures import limits, semconv
from gym_failures.attributes import AttributesError, from_attributes, read_attributes, to_attributes
from gym_failures.exceptions import GymFailuresError
from gym_failures.kinds import FailureBoundary, FailureStage
from gym_failures.records import (
    FailureEvent,
    ModelFailureDetails,
    SandboxFailureDetails,
    SdkErrorDetails,
)
from tests import strategies

REFERENCE = Path(__file__).parent.parent / "docs" / "reference" / "attributes.md"

SANDBOX = FailureEvent(
    event_id="e1",
    cause_id="e0",
    boundary=FailureBoundary.SANDBOX,
    failure_kind="provider_oom_killed",
    failure_reason="killed",
    stage=FailureStage.AGENT,
    operation="sandbox POST /exec",
    operation_id="op",
    attempt_id="op.2",
    exception_type="sandbox.ExecError",
    http_status=502,
    foreign_error=SdkErrorDetails(exception_type="daytona.Error", message="out of memory", http_status=500),
    details=SandboxFailureDetails(
        provider="daytona", sandbox_id="s1", execution_id="x1", exit_code=137, provider_status_reason="OOMKilled"
    ),
)
SANDBOX_ATTRIBUTES = {
    "failure.reason": "killed",
    "failure.operation": "sandbox POST /exec",
    "failure.operation_id": "op",
    "failure.attempt_id": "op.2",
    "failure.stage": "agent",
    "exception.type": "sandbox.ExecError",
    "http.response.status_code": 502,
    "failure.foreign_error.type": "daytona.Error",
    "failure.foreign_error.message": "out of memory",
    "failure.foreign_error.http_status": 500,
    "failure.sandbox.provider": "daytona",
    "failure.sandbox.sandbox_id": "s1",
    "failure.sandbox.execution_id": "x1",
    "failure.sandbox.exit_code": 137,
    "failure.sandbox.provider_status_reason": "OOMKilled",
    "failure.origin": "local",
    "failure.root": False,
    "failure.late": True,
    "failure.cause_id": "e0",
    "failure.boundary": "sandbox",
    "failure.kind": "provider_oom_killed",
    "failure.id": "e1",
}
MODEL = FailureEvent(
    event_id="e1",
    boundary=FailureBoundary.MODEL,
    failure_kind="provider_unavailable",
    details=ModelFailureDetails(provider_request_id="r1", request_upload_complete=True),
)
LEAST = {"failure.boundary": "agent", "failure.kind": "agent_timeout", "failure.id": "e1"}
LEAST_EVENT = FailureEvent(event_id="e1", boundary=FailureBoundary.AGENT, failure_kind="agent_timeout")


def without_empty_details(event):
    """Return `event` as attributes can tell it: details of which nothing was observed are no details."""
    if event.details is None or event.details.model_dump():
        return event
    return event.model_copy(update={"details": None})


def test_every_field_has_its_attribute_in_order():
    """Names, value types and order are those of the reference: what identifies a failure is written last."""
    attributes = to_attributes(SANDBOX, root=False, late=True)
    assert list(attributes.items()) == list(SANDBOX_ATTRIBUTES.items())
    assert [type(value) for value in attributes.values()] == [type(value) for value in SANDBOX_ATTRIBUTES.values()]


def test_details_of_a_model_have_attributes_of_their_own():
    """The keys of details go with the boundary."""
    assert to_attributes(MODEL) == {
        "failure.model.provider_request_id": "r1",
        "failure.model.request_upload_complete": True,
        "failure.origin": "local",
        "failure.boundary": "model",
        "failure.kind": "provider_unavailable",
        "failure.id": "e1",
    }


def test_what_is_absent_writes_no_attribute():
    """With all optional fields None there is no attribute for them, and none with the value None.

    opentelemetry-python#3213.
    """
    assert to_attributes(LEAST_EVENT, origin=semconv.ORIGIN_REMOTE) == {"failure.origin": "remote"} | LEAST


@given(strategies.failure_events())
def test_attributes_and_back_is_the_same_event(event):
    """What is written is read back as it was, but for details of which nothing was observed."""
    assert from_attributes(to_attributes(event)) == without_empty_details(event)


@given(strategies.failure_events(wire=False, surrogates=True))
def test_any_event_has_attributes_that_any_exporter_takes(event):
    """Values are flat, valid Unicode, within OTLP's whole numbers, and ids and kinds fit the wire.

    mlflow#24123, opentelemetry-python-contrib#3940.
    """
    attributes = to_attributes(event)
    for value in attributes.values():
        assert type(value) in {str, int, bool}
        str(value).encode()
        if type(value) is int:
            assert -(2**63) <= value < 2**63
    for key in ("failure.id", "failure.kind"):
        assert 1 <= len(attributes[key]) <= limits.WIRE_ID_LENGTH


@pytest.mark.parametrize("exit_code", [2**63, -(2**63) - 1, 2**70, 10**limits.INTEGER_DIGITS - 1])
def test_a_number_that_otlp_has_no_room_for_goes_as_text(exit_code):
    """An exit code beyond 64 bits does not lose the export batch and reads back whole.

    opentelemetry-python-contrib#3940.
    """
    event = SANDBOX.model_copy(update={"details": SandboxFailureDetails(exit_code=exit_code)})
    attributes = to_attributes(event)
    assert attributes["failure.sandbox.exit_code"] == str(exit_code)
    assert from_attributes(attributes) == event


def test_a_number_that_python_may_not_convert_is_left_out():
    """An exit code of more digits than Python converts costs itself only."""
    event = SANDBOX.model_copy(update={"details": SandboxFailureDetails(exit_code=10**limits.INTEGER_DIGITS)})
    assert "failure.sandbox.exit_code" not in to_attributes(event)


STORED = {
    "number as text": ("http.response.status_code", "429", {"http_status": 429}),
    "number as text with a fraction of zero": ("http.response.status_code", "429.0", {"http_status": 429}),
    "number as float": ("http.response.status_code", 429.0, {"http_status": 429}),
    "number as bytes": ("http.response.status_code", b"429", {"http_status": 429}),
    "number with blanks": ("http.response.status_code", " 429 ", {"http_status": 429}),
    "text as bytes": ("failure.reason", "zu spät".encode(), {"failure_reason": "zu spät"}),
    "text as bytes that are no UTF-8": ("failure.reason", b"\xffoops", {"failure_reason": "\ufffdoops"}),
    "text with a lone surrogate": ("failure.reason", "a\ud800b", {"failure_reason": "a\ufffdb"}),
    "text with NUL": ("failure.reason", "a\0b", {"failure_reason": "a\0b"}),
    "id that a store took for a number": ("failure.operation_id", 123456, {"operation_id": "123456"}),
    "empty text": ("failure.operation", "", {"operation": ""}),
    "empty id that nothing refers to": ("failure.attempt_id", "", {"attempt_id": ""}),
    "nothing": ("failure.reason", None, {}),
    "stage": ("failure.stage", "seed", {"stage": FailureStage.SEED}),
    "stage as bytes": ("failure.stage", b"seed", {"stage": FailureStage.SEED}),
    "foreign error without a message": (
        "failure.foreign_error.type",
        "openai.Error",
        {"foreign_error": SdkErrorDetails(exception_type="openai.Error", message="")},
    ),
    "long text": ("failure.reason", "x" * 2_005, {"failure_reason": "x" * 1_994 + "…[+11]"}),
    "long name": ("failure.operation", "x" * 300, {"operation": "x" * 250 + "…[+50]"}),
    "key of a newer version": ("failure.mood", "sour", {}),
    "key of somebody else": ("exception.stacktrace", "Traceback", {}),
}


@pytest.mark.parametrize(("key", "stored", "fields"), STORED.values(), ids=STORED)
def test_what_stores_make_of_a_value_is_understood(key, stored, fields):
    """SDK, Collector and trace stores change the types of values; nothing is lost over that (jaeger#6389)."""
    read = read_attributes(LEAST | {key: stored})
    assert read.event == LEAST_EVENT.model_copy(update=fields)
    assert read.dropped == ()


FLAGS = {"true": (True, True), "text": ("true", True), "any case": ("False", False), "bytes": (b"true", True)}


@pytest.mark.parametrize(("stored", "meant"), FLAGS.values(), ids=FLAGS)
def test_a_flag_may_be_text(stored, meant):
    """A boolean that a store returned as text is understood."""
    model = {"failure.boundary": "model", "failure.model.request_upload_complete": stored}
    assert from_attributes(LEAST | model).details == ModelFailureDetails(request_upload_complete=meant)
    read = read_attributes(LEAST | {"failure.root": stored, "failure.late": stored})
    assert (read.root, read.late) == (meant, meant)


UNUSABLE = {
    "status out of range": ("http.response.status_code", 999),
    "status that is no number": ("http.response.status_code", "teapot"),
    "status with a fraction": ("http.response.status_code", 429.5),
    "status that is no finite number": ("http.response.status_code", float("nan")),
    "status as flag": ("http.response.status_code", True),
    "huge status": ("http.response.status_code", "9" * 5_000),
    "list for text": ("failure.reason", ["a", "b"]),
    "mapping for text": ("failure.operation", {"a": 1}),
    "flag for text": ("failure.operation", True),
    "float for id": ("failure.operation_id", 1.5),
    "number beyond what may be converted": ("failure.operation_id", 10**limits.INTEGER_DIGITS),
    "unknown stage": ("failure.stage", "lunch"),
    "empty cause": ("failure.cause_id", ""),
    "foreign error without a type": ("failure.foreign_error.message", "lost"),
    "empty type of a foreign error": ("failure.foreign_error.type", ""),
    "details of another boundary": ("failure.sandbox.exit_code", 1),
    "unknown origin": ("failure.origin", "elsewhere"),
    "root that is neither": ("failure.root", "perhaps"),
    "object": ("failure.reason", object()),
}


@pytest.mark.parametrize("digits", [10**limits.INTEGER_DIGITS, str(10**limits.INTEGER_DIGITS)], ids=["number", "text"])
def test_a_number_of_more_digits_than_are_written_is_dropped(digits):
    """What could not be written again is not read, whether it comes as a number or as text."""
    read = read_attributes(LEAST | {"failure.boundary": "sandbox", "failure.sandbox.exit_code": digits})
    assert read.event.details is None
    assert read.dropped == ("failure.sandbox.exit_code",)


@pytest.mark.parametrize(("key", "stored"), UNUSABLE.values(), ids=UNUSABLE)
def test_a_value_that_cannot_be_used_costs_itself_only(key, stored):
    """A bad value of one field is dropped and named; the event stands without it."""
    read = read_attributes({key: stored} | LEAST)
    assert read.event == LEAST_EVENT
    assert read.dropped == (key,)


NO_EVENT = {
    "id missing": ("failure.id", None, "failure.id is missing"),
    "id empty": ("failure.id", "", "failure.id cannot be used"),
    "id a list": ("failure.id", ["e1"], "failure.id cannot be used"),
    "kind missing": ("failure.kind", None, "failure.kind is missing"),
    "kind a flag": ("failure.kind", True, "failure.kind cannot be used"),
    "boundary missing": ("failure.boundary", None, "failure.boundary is missing"),
    "boundary unknown": ("failure.boundary", "kitchen", "failure.boundary cannot be used"),
}


@pytest.mark.parametrize(("key", "stored", "message"), NO_EVENT.values(), ids=NO_EVENT)
def test_attributes_without_identity_are_no_event(key, stored, message):
    """Without an id, a kind and a boundary there is no event, and the error names the attribute, not its value."""
    with pytest.raises(AttributesError) as caught:
        from_attributes(LEAST | {key: stored})
    assert str(caught.value) == message
    assert isinstance(caught.value, GymFailuresError)
    assert isinstance(caught.value, ValueError)


def test_ids_that_are_too_long_still_agree():
    """An id beyond 128 characters becomes the same shorter one wherever it is mentioned, and differs from others."""
    long, other = "x" * 200, "x" * 199 + "y"
    read = from_attributes(LEAST | {"failure.id": long, "failure.cause_id": long, "failure.attempt_id": other})
    assert read.event_id == read.cause_id != read.attempt_id
    assert len(read.event_id) == len(read.attempt_id) == limits.WIRE_ID_LENGTH


def test_marks_are_read_beside_the_event():
    """Origin, root and late belong to the recording and not to the record; what is not written is None."""
    assert read_attributes(SANDBOX_ATTRIBUTES) == (SANDBOX, "local", False, True, ())
    assert read_attributes(LEAST) == (LEAST_EVENT, None, None, False, ())


@given(strategies.mangled_attributes())
def test_any_attributes_give_a_legal_event_or_say_which_is_wrong(attributes):
    """Whatever stands in the attributes, what is read is a legal record or the one error of this module."""
    try:
        event = from_attributes(attributes)
    except AttributesError:
        return
    assert FailureEvent.model_validate(event.model_dump()) == event


def test_the_reference_lists_every_attribute_in_order():
    """The table of the reference has the keys of the code with their types, in the order in which they are written."""
    rows = re.findall(r"^\| `([\w.]+)` \|.*\| (string|integer|boolean)", REFERENCE.read_text(), re.MULTILINE)
    types = {"string": str, "integer": int, "boolean": bool}
    written = to_attributes(SANDBOX, root=False, late=True)
    model = [(key, type(value)) for key, value in to_attributes(MODEL).items() if key.startswith("failure.model.")]
    expected = [(key, type(value)) for key, value in written.items()]
    after_sandbox = list(written).index("failure.origin")
    assert [(key, types[name]) for key, name in rows] == expected[:after_sandbox] + model + expected[after_sandbox:]
