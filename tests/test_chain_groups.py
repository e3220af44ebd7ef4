"""Exception groups, and the bounds of what is followed."""

import pytest

from gym_failures.chain import failures_of
from gym_failures.kinds import FailureBoundary
from tests.raising import chained, failure, links, recorded_by

AGENT, MODEL, SANDBOX = (FailureBoundary("agent"), FailureBoundary("model"), FailureBoundary("sandbox"))

pytestmark = pytest.mark.usefixtures("counted_ids")


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

    def test_what_two_leaves_were_raised_from_counts_for_both(self):
        """Members that share a cause are each known by it, and each linked to it."""
        foreign = ConnectionResetError("gone")
        group = ExceptionGroup("g", [chained(KeyError("a"), foreign), chained(KeyError("b"), foreign)])
        found = failures_of(group, boundary=AGENT)
        assert [event.failure_kind for event in found.events] == ["transport_peer_drop"] * 3
        cause = failure("model")
        group = ExceptionGroup("g", [chained(KeyError("a"), cause), chained(KeyError("b"), cause)])
        model, *leaves, _ = failures_of(group, boundary=AGENT).events
        assert [event.cause_id for event in leaves] == [model.event_id] * 2

    def test_what_is_known_counts_more_than_the_leaves(self):
        """An exception that a rule knows names the kind, also when it was raised from a group."""
        error = chained(TimeoutError("late"), ExceptionGroup("g", [ConnectionResetError("gone")]))
        assert failures_of(error, boundary=AGENT).own.failure_kind == "agent_timeout"

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
        ("error", "events", "dropped"),
        [
            pytest.param(lambda: chained(*(failure() for _ in range(64))), 64, 0, id="as many links as allowed"),
            pytest.param(lambda: chained(*(failure() for _ in range(65))), 64, 1, id="a link too many"),
            pytest.param(lambda: chained(*(failure() for _ in range(10_000))), 64, 9_936, id="far too many links"),
            pytest.param(lambda: ExceptionGroup("g", [ValueError()] * 64), 2, 0, id="one leaf many times"),
            pytest.param(
                lambda: ExceptionGroup("g", [ValueError() for _ in range(64)]), 65, 0, id="as many as allowed"
            ),
            pytest.param(lambda: ExceptionGroup("g", [ValueError() for _ in range(65)]), 65, 1, id="a leaf too many"),
            pytest.param(lambda: ExceptionGroup("g", [nested(1) for _ in range(10)]), 11, 0, id="many on one level"),
            pytest.param(lambda: nested(8), 2, 0, id="as deep as allowed"),
            pytest.param(lambda: nested(9), 1, 1, id="a level too many"),
            pytest.param(lambda: nested(500), 1, 1, id="far too deep"),
        ],
    )
    def test_what_is_beyond_a_bound_is_omitted_and_counted(self, error, events, dropped):
        """64 links, 64 members, 8 levels: more is cut, and said with a count (durabletask-python#99)."""
        found = failures_of(error(), boundary=MODEL)
        assert (len(found.events), found.dropped, found.omitted) == (events, dropped, dropped > 0)

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
