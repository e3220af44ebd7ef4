"""Exceptions with a failure's fields, of any package, and exceptions whose code cannot be trusted."""

import datetime as dt
import enum

import pytest
from pydantic import BaseModel

from gym_failures import limits, selfmetrics
from gym_failures.chain import failures_of
from gym_failures.kinds import FailureBoundary, FailureStage
from gym_failures.records import ModelFailureDetails, SandboxFailureDetails
from tests.raising import chained, failure

AGENT = FailureBoundary("agent")

pytestmark = pytest.mark.usefixtures("counted_ids")


@pytest.fixture
def dropped(monkeypatch):
    """Collect what is counted as dropped."""
    items: list[tuple] = []
    monkeypatch.setattr(selfmetrics, "dropped", lambda *item: items.append(item))
    return items


class UpstreamBoundary(enum.Enum):
    """Another package's enum of the same values."""

    MODEL = "model"


class UpstreamError(Exception):
    """A failure of another package, with the same fields."""

    failure_kind = "provider_unavailable"
    boundary = UpstreamBoundary.MODEL

    def __init__(self, **fields):
        super().__init__("its own text")
        self.__dict__.update(fields)


class Rude:
    """A value that raises where it is shown."""

    def __repr__(self):
        """Raise."""
        raise RuntimeError("no")


class RudeModel(BaseModel):
    """A model that raises where it is read."""

    def __iter__(self):
        """Raise."""
        raise RuntimeError("no")


ODD_VALUES = {
    "a huge number": 2**70,
    "not a number": float("nan"),
    "bytes": b"\xff",
    "a nested dict": {"a": {"b": [1]}},
    "a date": dt.datetime(2026, 1, 1, tzinfo=dt.UTC),
    "an object": object(),
    "a list": [1],
    "a function": print,
    "what cannot be shown": Rude(),
    "what cannot be read": RudeModel(),
    "true": True,
    "a surrogate": "\ud800",
    "a long text": "x" * 100_000,
}


class TestShape:
    """An exception with a failure's fields is one, whoever defined it."""

    def test_another_packages_failure_is_read_field_by_field(self):
        """Fields, enum members and models of another package are taken; the id is its own."""
        error = UpstreamError(
            event_id="theirs",
            failure_reason="why",
            stage="agent",
            operation="op",
            operation_id="o",
            attempt_id="o.1",
            exception_type="httpx.ReadTimeout",
            http_status=504,
            foreign_error={"exception_type": "a.B", "message": "m"},
            details={"provider_request_id": "r"},
        )
        assert failures_of(error).own.model_dump(mode="json") == {
            "event_id": "theirs",
            "boundary": "model",
            "failure_kind": "provider_unavailable",
            "failure_reason": "why",
            "stage": "agent",
            "operation": "op",
            "operation_id": "o",
            "attempt_id": "o.1",
            "exception_type": "httpx.ReadTimeout",
            "http_status": 504,
            "foreign_error": {"exception_type": "a.B", "message": "m"},
            "details": {"provider_request_id": "r"},
        }

    def test_without_a_reason_its_text_is_the_reason(self):
        """A class that has no field for it says it in its text."""
        assert failures_of(UpstreamError()).own.failure_reason == "its own text"
        assert failures_of(UpstreamError(failure_reason="")).own.failure_reason == ""

    def test_an_empty_text_is_an_absent_field(self, dropped):
        """What another package leaves empty is unknown, and nothing is lost by it."""
        own = failures_of(UpstreamError(stage="", operation="", exception_type="", event_id="")).own
        assert (own.stage, own.operation, own.exception_type) == (None, None, "tests.test_shapes.UpstreamError")
        assert own.event_id == "e1"
        assert dropped == []

    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("failure_kind", None),
            ("failure_kind", ""),
            ("failure_kind", 5),
            ("boundary", None),
            ("boundary", "nowhere"),
            ("boundary", []),
            ("boundary", Rude()),
            ("boundary", FailureStage.AGENT),
        ],
    )
    def test_without_kind_and_boundary_it_is_foreign(self, name, value):
        """An exception that has the fields of something else is not taken for a failure."""
        found = failures_of(UpstreamError(**{name: value}), boundary=AGENT)
        assert [event.boundary for event in found.events] == [AGENT]

    def test_a_kind_that_is_an_enum_member_is_its_text(self):
        """A kind may come from another package's enum of texts; the record holds plain text."""
        kind = enum.StrEnum("Kinds", {"DOWN": "provider_unavailable"}).DOWN
        assert type(failures_of(UpstreamError(failure_kind=kind)).own.failure_kind) is str

    @pytest.mark.parametrize("value", ODD_VALUES.values(), ids=ODD_VALUES)
    @pytest.mark.parametrize(
        "name",
        [
            "failure_reason", "stage", "operation", "operation_id", "attempt_id", "exception_type", "http_status",
            "foreign_error", "details", "event_id", "cause_id",
        ],
    )  # fmt: skip
    def test_an_odd_value_costs_its_own_field_only(self, dropped, name, value):
        """One value that no record can hold leaves the rest of the failure (opentelemetry-python-contrib#3940)."""
        others = {
            "failure_reason": "why",
            "http_status": 500,
            "operation": "op",
            "details": {"provider_request_id": "r"},
        }
        own = failures_of(UpstreamError(**others | {name: value})).own
        expected = {
            "failure_reason": "why",
            "http_status": 500,
            "operation": "op",
            "details": ModelFailureDetails(provider_request_id="r"),
        }
        for field in expected.keys() - {name}:
            assert getattr(own, field) == expected[field]
        own.model_dump_json()
        if name in {"stage", "http_status", "foreign_error", "details"}:
            assert getattr(own, name) is None
            assert dropped == [("invalid_field", 1)]

    def test_details_of_another_boundary_are_left_out(self, dropped):
        """Sandbox facts on a model's failure are no facts about the model."""
        own = failures_of(UpstreamError(details=SandboxFailureDetails(exit_code=1), http_status=500)).own
        assert (own.details, own.http_status) == (None, 500)
        assert dropped == [("invalid_field", 1)]

    def test_an_id_that_is_too_long_still_links(self):
        """A foreign id that no record can point to is shortened, alike in the event and in what points to it."""
        found = failures_of(chained(failure("agent"), UpstreamError(event_id="x" * 500)))
        assert found.own.cause_id == found.events[0].event_id
        assert len(found.own.cause_id) <= limits.ID_LENGTH

    def test_one_id_names_one_record(self):
        """An exception raised again from itself under the same id is the same failure."""
        found = failures_of(chained(UpstreamError(event_id="same"), KeyError("k"), UpstreamError(event_id="same")))
        assert [(event.event_id, event.cause_id) for event in found.events] == [("same", None)]


class HostileError(Exception):
    """An exception whose own code lies or raises wherever it can."""

    @property
    def __dict__(self):
        """Raise."""
        raise RuntimeError

    @property
    def __cause__(self):
        """Raise."""
        raise RuntimeError

    def __getattr__(self, name):
        """Raise."""
        raise RuntimeError(name)

    def __setattr__(self, name, value):
        """Raise."""
        raise RuntimeError(name)

    def __str__(self):
        """Raise."""
        raise AttributeError("request_info is None")

    def __eq__(self, other):
        """Raise."""
        raise RuntimeError

    __hash__ = None


class LyingGroup(ExceptionGroup):
    """A group that hides its members."""

    exceptions = property(lambda _self: 1 / 0)


class TestHostile:
    """The code of an exception's class has no say."""

    def test_an_exception_whose_code_raises_is_recorded(self):
        """Type and a stand-in for the text are recorded, once, and nothing is raised (ray#44878)."""
        error = HostileError()
        own = failures_of(error, boundary=AGENT).own
        assert (own.exception_type, own.failure_reason) == (
            "tests.test_shapes.HostileError",
            "<no text: AttributeError in HostileError.__str__>",
        )
        assert failures_of(error, boundary=AGENT).own is own

    def test_the_members_of_a_lying_group_are_found(self):
        """A group that overrides how its members are read is read all the same."""
        found = failures_of(LyingGroup("g", [ValueError("a")]), boundary=AGENT)
        assert [event.exception_type for event in found.events] == ["ValueError", "tests.test_shapes.LyingGroup"]
