"""From an exception and its causes to linked failure events."""

import urllib.error

import pytest
from hypothesis import given

from gym_failures.chain import failures_of
from gym_failures.kinds import FailureBoundary, FailureStage
from gym_failures.marks import REMOTE, mark_of
from gym_failures.records import FailureReport, SdkErrorDetails
from gym_failures.repair import repair
from tests.raising import chained, failure, links
from tests.strategies import exceptions

AGENT, ENVIRONMENT, MODEL, RESOURCES = (
    FailureBoundary("agent"),
    FailureBoundary("environment"),
    FailureBoundary("model"),
    FailureBoundary("resources_server"),
)

pytestmark = pytest.mark.usefixtures("counted_ids")


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
            pytest.param((KeyError("k"), RuntimeError("r")), ("RuntimeError", "r", None), id="the one it began with"),
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
        """Type and text of the first known foreign exception, or of the last, up to the next failure."""
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
        assert failures_of(error) == (None, (), (), (), False, False, 0)
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
                chained(RuntimeError("A"), ValueError("B"), KeyError("C")),
                "agent_run_error",
                "A",
                ("KeyError", "'C'"),
                id="all unknown",
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
        """Kind from the outermost that a rule knows; type and reason from the one that was observed.

        Of those that it was raised from, the one that a rule knows, or else the root, stays as its foreign error
        (semantic-conventions#3458).
        """
        own = failures_of(error, boundary=AGENT).own
        assert (own.failure_kind, own.boundary, own.failure_reason) == (kind, AGENT, reason)
        assert own.exception_type == type(error).__name__
        told = own.foreign_error and (own.foreign_error.exception_type, own.foreign_error.message)
        assert told == foreign

    def test_its_status_stays_when_an_exception_below_names_the_kind(self):
        """An answer that was made of a time-out keeps the status that it was to be given."""
        error = chained(urllib.error.HTTPError("http://host", 503, "Busy", None, None), ConnectionResetError())
        own = failures_of(error, boundary=AGENT).own
        assert (own.failure_kind, own.http_status) == ("transport_peer_drop", 503)

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
        crossing = failures_of(failure("model"), boundary=AGENT, operation="x" * 300, operation_id="y" * 200)
        assert {len(event.operation) for event in crossing.events} == {256}


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
