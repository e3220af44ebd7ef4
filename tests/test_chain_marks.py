"""The mark on an exception: one failure, one record, however many observers it passes."""

import pytest

from gym_failures import limits
from gym_failures.chain import Carried, failures_of
from gym_failures.errors import error_from
from gym_failures.kinds import FailureBoundary
from gym_failures.marks import REMOTE, Mark, mark_of
from gym_failures.records import FailureReport
from tests.raising import chained, failure, links, recorded_by

AGENT, ENVIRONMENT, MODEL, SANDBOX = (
    FailureBoundary("agent"),
    FailureBoundary("environment"),
    FailureBoundary("model"),
    FailureBoundary("sandbox"),
)

pytestmark = pytest.mark.usefixtures("counted_ids")


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
        first = failures_of(recorded, boundary=ENVIRONMENT)
        recorded.__cause__.__cause__ = ExceptionGroup("g", [ValueError("v")])
        assert links(failures_of(recorded, boundary=ENVIRONMENT)) == links(first)

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


class SdkError(Exception):
    """An error that a provider's SDK makes of one of its HTTP client."""

    def __init__(self, status_code):
        super().__init__("request was secret")
        self.status_code = status_code
        self.body = {"message": "slow down"}


class TestRetold:
    """An SDK raises errors of its own from those of the client beneath it."""

    def recorded(self, boundary=MODEL):
        """Return a client's error that was recorded at `boundary`."""
        error = SdkError(429)
        recorded_by(failures_of(error, boundary=boundary, owner="log"), "log")
        return error

    def test_the_same_failure_told_again_is_one(self):
        """When both mean the same at the same boundary, the SDK's error is no second failure, then and later."""
        below = self.recorded()
        error = chained(SdkError(429), SdkError(429), below)
        for _ in range(2):
            found = failures_of(error, boundary=MODEL, owner="log")
            assert links(found) == [
                ("provider_quota_exhausted", "model", "tests.test_chain_marks.SdkError", "e1", None)
            ]
            assert found.fresh == ()
        assert mark_of(error) is mark_of(below)

    @pytest.mark.parametrize(
        ("error", "kind", "boundary", "owner"),
        [
            pytest.param(SdkError(401), "provider_unavailable", MODEL, "log", id="another kind"),
            pytest.param(SdkError(429), "provider_quota_exhausted", AGENT, "log", id="another boundary"),
            pytest.param(SdkError(429), "provider_quota_exhausted", MODEL, "other", id="another request"),
            pytest.param(RuntimeError("r"), "provider_unavailable", MODEL, "log", id="an error of the application"),
        ],
    )
    def test_anything_else_is_a_failure_of_its_own(self, error, kind, boundary, owner):
        """What means something else, or was recorded elsewhere, is caused by the client's error."""
        found = failures_of(chained(error, self.recorded()), boundary=boundary, owner=owner)
        assert (found.own.failure_kind, found.own.cause_id) == (kind, "e1")

    def test_an_error_of_the_application_with_the_same_kind_is_its_own(self):
        """The application's own exception says something new, whatever kind it is of."""
        below = ConnectionResetError("gone")
        recorded_by(failures_of(below, boundary=MODEL, owner="log"), "log")
        found = failures_of(chained(ConnectionAbortedError("mine"), below), boundary=MODEL, owner="log")
        assert (found.own.failure_reason, found.own.cause_id) == ("mine", "e1")


class TestCarried:
    """An exception that a client made of a reply stands for what that reply reported."""

    @pytest.mark.parametrize("omitted", [False, True])
    def test_it_is_that_failure(self, omitted):
        """The reported failure is the cause of the observer's, the exception adds none, and what is missing is said."""
        remote = failures_of(failure("model")).own
        reply = Carried(Mark((remote,), REMOTE), omitted)
        error = RuntimeError("500")
        found = failures_of(error, boundary=AGENT, owner="log", carried=lambda one: reply if one is error else None)
        assert [(event.boundary, event.cause_id) for event in found.events] == [(MODEL, None), (AGENT, remote.event_id)]
        assert [mark.events[0] for mark in found.fresh] == [found.own]
        assert found.omitted is omitted

    def test_what_the_exception_says_of_the_reply_is_the_observers(self):
        """Nobody beneath knows with what status it was answered, so that is on the event of who was, with a message."""
        remote = failures_of(failure("model")).own
        carried = Carried(Mark((remote,), REMOTE), omitted=False)
        own = failures_of(SdkError(503), boundary=AGENT, owner="log", carried=lambda _: carried).own
        assert (own.failure_kind, own.http_status, own.failure_reason) == ("agent_run_error", 503, "slow down")
        assert own.cause_id == remote.event_id

    @pytest.mark.parametrize(
        ("error", "owner"),
        [
            pytest.param(failure("model", reason="down"), REMOTE, id="made of the report itself"),
            pytest.param(SdkError(503), "log", id="seen beneath in the same process"),
        ],
    )
    def test_what_the_cause_has_is_not_said_again(self, error, owner):
        """An exception that knows no more than its cause has gives its type, and no text that is there already."""
        below = recorded_by(failures_of(error, boundary=MODEL), owner).own
        own = failures_of(error, boundary=AGENT, owner="log").own
        assert (own.cause_id, own.http_status, own.failure_reason) == (below.event_id, None, "")

    def test_a_mark_counts_more(self):
        """Of an exception that is known already, no reply is looked for."""
        error = failure("model")
        own = failures_of(error).own
        assert failures_of(error, carried=lambda _: pytest.fail("asked")).own is own
