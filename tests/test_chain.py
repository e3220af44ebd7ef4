"""From exceptions to linked failure events."""

import datetime as dt
import enum
import itertools

import pytest
from hypothesis import given

from gym_failures import limits, selfmetrics
from gym_failures.chain import Failures, failures_of
from gym_failures.errors import error_from
from gym_failures.exceptions import FailureError
from gym_failures.ids import id_source
from gym_failures.kinds import FailureBoundary, FailureStage
from gym_failures.marks import REMOTE, mark_of
from gym_failures.records import FailureReport, ModelFailureDetails, SandboxFailureDetails, SdkErrorDetails
from gym_failures.repair import repair
from tests.strategies import exceptions

AGENT, ENVIRONMENT, MODEL, RESOURCES, SANDBOX = (
    FailureBoundary(name) for name in ("agent", "environment", "model", "resources_server", "sandbox")
)


@pytest.fixture(autouse=True)
def counted_ids():
    """Number the events as they are made, from e1."""
    with id_source(map("e{}".format, itertools.count(1)).__next__):
        yield


@pytest.fixture
def dropped(monkeypatch):
    """Collect what is counted as dropped."""
    items: list[tuple] = []
    monkeypatch.setattr(selfmetrics, "dropped", lambda *item: items.append(item))
    return items


def chained(*errors):
    """Return the first of `errors`, each raised from the next."""
    for effect, cause in itertools.pairwise(errors):
        effect.__cause__ = cause
    return errors[0]


def failure(boundary="model", kind="provider_unavailable", **fields):
    """Make a failure that nobody has recorded."""
    return FailureError(kind, boundary=boundary, **fields)


def links(found: Failures):
    """Return what is told of each event: kind, boundary, type, id and cause."""
    return [
        (event.failure_kind, event.boundary.value, event.exception_type, event.event_id, event.cause_id)
        for event in found.events
    ]


def recorded_by(found: Failures, owner):
    """Do what a log does with the events that nobody has recorded."""
    for mark in found.fresh:
        mark.owner = owner
    return found


class TestLinks:
    """Only an explicit cause links two failures."""

    def test_each_failure_is_a_record_caused_by_the_next(self):
        """A from B from C is three records, each linked to the one it was raised from (semantic-conventions#3458)."""
        found = failures_of(chained(failure("agent", "agent_run_error"), failure("model"), failure("sandbox")))
        assert links(found) == [
            ("provider_unavailable", "sandbox", "gym_failures.exceptions.FailureError", "e1", None),
            ("provider_unavailable", "model", "gym_failures.exceptions.FailureError", "e2", "e1"),
            ("agent_run_error", "agent", "gym_failures.exceptions.FailureError", "e3", "e2"),
        ]
        assert found.own is found.events[-1]
        assert (found.omitted, found.shared) == (False, False)

    @pytest.mark.parametrize("suppressed", [False, True], ids=["implicit context", "from None"])
    def test_an_exception_raised_while_another_is_handled_is_not_linked(self, suppressed):
        """`raise X` within `except Y`, and `raise X from None`, do not say that Y caused X."""
        effect = failure("agent", "agent_run_error")
        effect.__context__ = failure("model")
        effect.__suppress_context__ = suppressed
        assert [event.cause_id for event in failures_of(effect).events] == [None]

    def test_foreign_exceptions_in_between_do_not_break_the_chain(self):
        """What was raised from something raised from a failure is linked to that failure."""
        found = failures_of(chained(failure("agent"), KeyError("k"), RuntimeError("r"), failure("model")))
        assert [(event.event_id, event.cause_id) for event in found.events] == [("e1", None), ("e2", "e1")]

    @pytest.mark.parametrize(
        ("below", "expected"),
        [
            pytest.param((KeyError("k"),), ("KeyError", "'k'", None), id="the only one"),
            pytest.param((KeyError("k"), RuntimeError("r")), ("KeyError", "'k'", None), id="the nearest"),
            pytest.param(
                (KeyError("k"), ConnectionResetError("gone"), ConnectionRefusedError("no")),
                ("ConnectionResetError", "gone", None),
                id="the first that is known",
            ),
            pytest.param(
                (KeyError("k"), failure("sandbox"), ConnectionResetError("gone")),
                ("KeyError", "'k'", None),
                id="not beyond a failure",
            ),
        ],
    )
    def test_the_exception_that_a_failure_was_raised_from_is_its_foreign_error(self, below, expected):
        """Type and text of the first known foreign exception, or of the nearest, up to the next failure."""
        foreign = failures_of(chained(failure("agent"), *below)).own.foreign_error
        assert (foreign.exception_type, foreign.message, foreign.http_status) == expected

    def test_a_foreign_error_that_a_failure_names_itself_stays(self):
        """What an adapter chose is not replaced by what we find."""
        chosen = SdkErrorDetails(exception_type="some.Error", message="chosen", http_status=401)
        assert failures_of(chained(failure(foreign_error=chosen), KeyError("k"))).own.foreign_error == chosen


class TestForeign:
    """An exception that is no failure becomes one where it is observed."""

    def test_without_a_boundary_there_is_no_failure(self):
        """Nothing is invented: a foreign exception alone gives no event, and no mark."""
        error = KeyError("k")
        assert failures_of(error) == (None, (), (), False, False)
        assert error.__dict__ == {}

    def test_without_a_boundary_the_failure_below_is_the_own(self):
        """A foreign exception raised from a failure stands for that failure."""
        found = failures_of(chained(KeyError("k"), failure("model")))
        assert found.own.boundary is MODEL

    @pytest.mark.parametrize(
        ("error", "kind", "reason", "foreign"),
        [
            pytest.param(KeyError("k"), "agent_run_error", "'k'", None, id="unknown"),
            pytest.param(TimeoutError("late"), "agent_timeout", "late", None, id="known"),
            pytest.param(
                chained(RuntimeError("model call failed"), ConnectionResetError("gone")),
                "transport_peer_drop",
                "model call failed",
                ("ConnectionResetError", "gone"),
                id="known below",
            ),
            pytest.param(
                chained(RuntimeError("r"), KeyError("k")),
                "agent_run_error",
                "r",
                ("KeyError", "'k'"),
                id="unknown below",
            ),
            pytest.param(
                chained(TimeoutError("late"), ConnectionResetError("gone")),
                "agent_timeout",
                "late",
                None,
                id="the outermost known",
            ),
            pytest.param(
                chained(RuntimeError(), OSError(111, "refused")),
                "transport_unreachable",
                "[Errno 111] refused",
                ("ConnectionRefusedError", "[Errno 111] refused"),
                id="no text of its own",
            ),
        ],
    )
    def test_the_first_known_exception_names_the_kind(self, error, kind, reason, foreign):
        """Kind from the outermost that a rule knows; type and reason from the one that was observed."""
        own = failures_of(error, boundary=AGENT).own
        assert (own.failure_kind, own.boundary, own.failure_reason) == (kind, AGENT, reason)
        assert own.exception_type == type(error).__name__
        told = own.foreign_error and (own.foreign_error.exception_type, own.foreign_error.message)
        assert told == foreign

    def test_raised_from_a_failure_it_is_caused_by_it(self):
        """A foreign exception above a failure is a failure of the observer's boundary, caused by that one."""
        found = failures_of(chained(RuntimeError("r"), failure("model")), boundary=AGENT)
        assert links(found) == [
            ("provider_unavailable", "model", "gym_failures.exceptions.FailureError", "e1", None),
            ("agent_run_error", "agent", "RuntimeError", "e2", "e1"),
        ]

    def test_at_verification_it_is_the_verifiers_error(self):
        """The stage is on the event and chooses the kind of what is not known."""
        own = failures_of(KeyError("k"), boundary=RESOURCES, stage=FailureStage.VERIFICATION).own
        assert (own.failure_kind, own.stage) == ("verifier_error", FailureStage.VERIFICATION)


class TestContext:
    """What the observer knows completes the events that are made here."""

    def test_the_observers_fields_are_on_every_new_event(self):
        """Operation, its ids and stage say where all of this was seen."""
        context = {"operation": "env POST /run", "operation_id": "op", "attempt_id": "op.1", "stage": FailureStage.SEED}
        found = failures_of(chained(RuntimeError("r"), failure("model")), boundary=AGENT, **context)
        for event in found.events:
            assert {name: getattr(event, name) for name in context} == context

    def test_the_failures_own_fields_win(self):
        """What the code that raised it said is kept."""
        error = failure(operation="ours", operation_id="a", attempt_id="a.2", stage="verification")
        own = failures_of(error, operation="theirs", operation_id="b", attempt_id="b.1", stage=FailureStage.SEED).own
        assert (own.operation, own.operation_id, own.attempt_id) == ("ours", "a", "a.2")
        assert own.stage is FailureStage.VERIFICATION

    def test_fields_that_no_record_can_hold_are_made_to_fit(self):
        """A long route or id costs its end, not the failure."""
        own = failures_of(
            KeyError("k"), boundary=AGENT, operation="x" * 300 + "\ud800", operation_id="y" * 200, attempt_id=""
        ).own
        assert (len(own.operation), len(own.operation_id), len(own.attempt_id)) == (256, 128, 33)


class TestMarks:
    """An exception remembers the failure that was made of it."""

    def test_observed_again_at_the_same_boundary_it_is_the_same_failure(self):
        """However many spans an exception leaves, it is one event (opentelemetry-python-contrib#5068, logfire#915)."""
        error = KeyError("k")
        first = recorded_by(failures_of(error, boundary=AGENT, owner="log"), "log")
        second = failures_of(error, boundary=AGENT, owner="log")
        assert second.own is first.own
        assert (second.events, second.fresh) == (first.events, ())

    def test_reported_before_it_is_recorded_it_is_still_to_be_recorded(self):
        """A report marks the exception, but only a record counts: the mark stays fresh until a log has it."""
        error = KeyError("k")
        reported = failures_of(error, boundary=AGENT)
        assert failures_of(error, boundary=AGENT, owner="log").fresh == reported.fresh != ()

    def test_each_boundary_that_it_crosses_adds_one_failure(self):
        """The inner failure is the cause of the outer, through any number of boundaries."""
        error = failure("sandbox", "provider_oom_killed")
        for boundary in (ENVIRONMENT, AGENT):
            found = recorded_by(failures_of(error, boundary=boundary, owner="log"), "log")
        assert [(event.failure_kind, event.boundary, event.cause_id) for event in found.events] == [
            ("provider_oom_killed", SANDBOX, None),
            ("environment_server_failed", ENVIRONMENT, "e1"),
            ("agent_run_error", AGENT, "e2"),
        ]

    def test_a_failure_from_elsewhere_is_the_cause_even_at_the_same_boundary(self):
        """An agent that called another agent failed itself, because of that one."""
        remote = failures_of(failure("agent", "agent_timeout")).own
        error = error_from(FailureReport(events={remote.event_id: remote}, failure_id=remote.event_id))
        found = failures_of(error, boundary=AGENT, owner="log")
        assert [(event.failure_kind, event.cause_id) for event in found.events] == [
            ("agent_timeout", None),
            ("agent_run_error", remote.event_id),
        ]
        assert not found.shared

    @pytest.mark.parametrize("boundary", [MODEL, AGENT])
    def test_an_exception_of_another_request_is_a_new_failure_caused_by_the_first(self, boundary):
        """One exception object that two requests meet keeps the mark of the first, and the second has its own event."""
        error = failure("model")
        first = recorded_by(failures_of(error, boundary=MODEL, owner="one"), "one")
        mark = mark_of(error)
        second = failures_of(error, boundary=boundary, owner="two")
        assert second.shared
        assert second.own.event_id != first.own.event_id == second.own.cause_id
        assert second.own.boundary is boundary
        assert mark_of(error) is mark

    def test_below_a_recorded_failure_nothing_new_is_made(self):
        """A record does not change, so what is put below it later adds nothing."""
        recorded = chained(failure("environment"), failure("model"))
        first = failures_of(recorded)
        recorded.__cause__.__cause__ = ExceptionGroup("g", [ValueError("v")])
        assert links(failures_of(recorded)) == links(first)

    def test_a_bound_is_no_omission_where_the_mark_knows_the_rest(self):
        """Of a recorded exception the whole chain is known, however long it is."""
        long = [failure() for _ in range(limits.CHAIN_LINKS)]
        inner = recorded_by(failures_of(chained(*long), owner="log"), "log")
        outer = chained(failure("agent"), long[0])
        found = failures_of(outer, owner="log")
        assert len(found.events) == len(inner.events) + 1 == limits.CHAIN_LINKS + 1
        assert not found.omitted

    @pytest.mark.parametrize("garbage", [None, (), "text", {"events": 1}, object()])
    def test_what_is_no_mark_of_ours_is_ignored(self, garbage):
        """Another program's attribute of the same name does no harm."""
        error = KeyError("k")
        error._gym_failure = garbage
        assert failures_of(error, boundary=AGENT).own.event_id == "e1"


class TestGroups:
    """Each leaf of an exception group is a failure."""

    def test_every_leaf_of_nested_groups_is_recorded(self):
        """Leaves two groups deep, of a group that was raised from something, are all there.

        Trackers lost them (sentry-python#3913, bugsnag-python#336).
        """
        inner = ExceptionGroup("inner", [KeyError("b"), chained(failure("sandbox"), OSError("disk"))])
        error = chained(ExceptionGroup("outer", [ValueError("a"), inner]), failure("model"))
        found = failures_of(error, boundary=AGENT)
        assert links(found) == [
            ("provider_unavailable", "model", "gym_failures.exceptions.FailureError", "e1", None),
            ("agent_run_error", "agent", "ValueError", "e2", None),
            ("agent_run_error", "agent", "KeyError", "e3", None),
            ("provider_unavailable", "sandbox", "gym_failures.exceptions.FailureError", "e4", None),
            ("agent_run_error", "agent", "ExceptionGroup", "e5", "e1"),
        ]

    def test_without_a_cause_of_its_own_the_first_leaf_is_the_cause(self):
        """A group that was raised from nothing is linked to what failed in it first."""
        found = failures_of(ExceptionGroup("g", [ValueError("a"), KeyError("b")]), boundary=AGENT)
        assert [(event.exception_type, event.cause_id) for event in found.events] == [
            ("ValueError", None),
            ("KeyError", None),
            ("ExceptionGroup", "e1"),
        ]

    def test_foreign_leaves_belong_to_the_failure_above_them(self):
        """Leaves below a failure are failures of its boundary, not of the observer's."""
        found = failures_of(chained(failure("sandbox"), ExceptionGroup("g", [OSError("disk")])), boundary=AGENT)
        assert [(event.boundary, event.cause_id) for event in found.events] == [
            (SANDBOX, None),
            (SANDBOX, "e1"),
            (AGENT, "e2"),
        ]

    def test_without_any_boundary_only_failures_among_the_leaves_count(self):
        """Nothing is invented for foreign leaves."""
        found = failures_of(ExceptionGroup("g", [KeyError("k"), failure("model"), failure("sandbox")]))
        assert [event.boundary for event in found.events] == [SANDBOX, MODEL]
        assert found.own.boundary is MODEL

    @pytest.mark.parametrize(
        ("leaves", "kind"),
        [
            pytest.param([TimeoutError(), TimeoutError()], "agent_timeout", id="all alike"),
            pytest.param(
                [TimeoutError(), ExceptionGroup("h", [TimeoutError()])], "agent_timeout", id="all alike, nested"
            ),
            pytest.param([TimeoutError(), ValueError()], "agent_run_error", id="different"),
            pytest.param([failure("model"), failure("model")], "agent_run_error", id="alike, of another boundary"),
            pytest.param([failure("agent", "agent_command_not_allowed")], "agent_command_not_allowed", id="a failure"),
        ],
    )
    def test_a_group_has_the_kind_of_its_leaves_if_they_agree(self, leaves, kind):
        """Leaves that failed alike at one boundary name the kind of their group, and of what was raised from it."""
        assert failures_of(ExceptionGroup("g", leaves), boundary=AGENT).own.failure_kind == kind
        wrapped = chained(RuntimeError("r"), ExceptionGroup("g", leaves))
        assert failures_of(wrapped, boundary=AGENT).own.failure_kind == kind

    def test_a_group_observed_again_still_has_its_leaves(self):
        """A report that is asked for after the record names the same events."""
        error = ExceptionGroup("g", [ValueError("a"), ExceptionGroup("h", [KeyError("b"), failure("model")])])
        first = recorded_by(failures_of(error, boundary=AGENT, owner="log"), "log")
        second = failures_of(error, boundary=AGENT, owner="log")
        assert {event.event_id for event in second.events} == {event.event_id for event in first.events}
        assert second.fresh == ()

    def test_one_exception_in_two_groups_is_one_failure(self):
        """A leaf that is met twice keeps its first event."""
        leaf = ValueError("a")
        found = failures_of(ExceptionGroup("g", [leaf, ExceptionGroup("h", [leaf])]), boundary=AGENT)
        assert [event.exception_type for event in found.events] == ["ValueError", "ExceptionGroup"]


def nested(depth):
    """Return groups within groups, and one leaf in the last."""
    error = ValueError("leaf")
    for _ in range(depth):
        error = ExceptionGroup("g", [error])
    return error


class TestBounds:
    """Any number of causes, members and levels costs a bounded amount, and what is cut is said."""

    @pytest.mark.parametrize(
        ("error", "events", "omitted"),
        [
            pytest.param(lambda: chained(*(failure() for _ in range(64))), 64, False, id="as many links as allowed"),
            pytest.param(lambda: chained(*(failure() for _ in range(65))), 64, True, id="a link too many"),
            pytest.param(lambda: chained(*(failure() for _ in range(10_000))), 64, True, id="far too many links"),
            pytest.param(lambda: ExceptionGroup("g", [ValueError()] * 64), 2, False, id="one leaf many times"),
            pytest.param(
                lambda: ExceptionGroup("g", [ValueError() for _ in range(64)]), 65, False, id="as many as allowed"
            ),
            pytest.param(
                lambda: ExceptionGroup("g", [ValueError() for _ in range(65)]), 65, True, id="a leaf too many"
            ),
            pytest.param(lambda: nested(8), 2, False, id="as deep as allowed"),
            pytest.param(lambda: nested(9), 1, True, id="a level too many"),
            pytest.param(lambda: nested(500), 1, True, id="far too deep"),
        ],
    )
    def test_what_is_beyond_a_bound_is_omitted(self, error, events, omitted):
        """64 links, 64 members, 8 levels: more is cut, and `omitted` says so."""
        found = failures_of(error(), boundary=MODEL)
        assert (len(found.events), found.omitted) == (events, omitted)

    def test_cycles_end(self):
        """Causes that go round are followed once, and nothing is missing then (sentry-python#3913)."""
        one, two = failure("agent"), failure("model")
        chained(one, two, one)
        found = failures_of(one)
        assert [(event.boundary, event.cause_id) for event in found.events] == [(MODEL, None), (AGENT, "e1")]
        assert not found.omitted

    def test_an_exception_that_is_its_own_cause_ends(self):
        """The shortest cycle is one too."""
        error = failure()
        error.__cause__ = error
        assert [event.cause_id for event in failures_of(error).events] == [None]

    def test_a_group_that_caused_its_own_member_ends(self):
        """A cycle through the members of a group is followed once."""
        leaf = ValueError("a")
        group = ExceptionGroup("g", [leaf])
        leaf.__cause__ = group
        found = failures_of(group, boundary=AGENT)
        assert [(event.exception_type, event.cause_id) for event in found.events] == [
            ("ValueError", None),
            ("ExceptionGroup", "e1"),
        ]
        assert not found.omitted


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


ODD_VALUES = {
    "a huge number": 2**70,
    "not a number": float("nan"),
    "bytes": b"\xff",
    "a nested dict": {"a": {"b": [1]}},
    "a date": dt.datetime(2026, 1, 1, tzinfo=dt.UTC),
    "an object": object(),
    "a list": [1],
    "a function": print,
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

    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("failure_kind", None),
            ("failure_kind", ""),
            ("failure_kind", 5),
            ("boundary", None),
            ("boundary", "nowhere"),
            ("boundary", []),
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
            "tests.test_chain.HostileError",
            "<no text: AttributeError in HostileError.__str__>",
        )
        assert failures_of(error, boundary=AGENT).own is own

    def test_the_members_of_a_lying_group_are_found(self):
        """A group that overrides how its members are read is read all the same."""
        found = failures_of(LyingGroup("g", [ValueError("a")]), boundary=AGENT)
        assert [event.exception_type for event in found.events] == ["ValueError", "tests.test_chain.LyingGroup"]


@given(exceptions())
def test_any_exceptions_make_a_legal_report_and_stay_as_they_were(error):
    """Causes, groups and cycles of any kind give events that hang together, alike each time, within the bounds."""
    before = (error.args, error.__cause__, error.__context__, error.__traceback__, str(error))
    first = failures_of(error, boundary=ENVIRONMENT)
    second = failures_of(error, boundary=ENVIRONMENT)
    assert (error.args, error.__cause__, error.__context__, error.__traceback__, str(error)) == before
    assert second.own is first.own
    assert first.own.boundary is ENVIRONMENT
    events = {event.event_id: event for event in first.events}
    assert len(events) == len(first.events)
    repaired = repair(events, failure_id=first.own.event_id, omitted=first.omitted)
    assert (repaired.missing, repaired.circular) == ((), ())
    FailureReport.model_validate(repaired.report.model_dump())
    assert [mark.events[0].event_id for mark in first.fresh] == [event.event_id for event in first.events]
    assert mark_of(error).owner != REMOTE
