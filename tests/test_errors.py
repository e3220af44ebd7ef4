"""Failures as exceptions, exceptions as reports, and reports as exceptions."""

import copy
import pickle
import subprocess
import sys
import traceback

import pytest
from hypothesis import given

from gym_failures import exceptions as package_exceptions
from gym_failures import limits
from gym_failures.attributes import AttributesError
from gym_failures.config import ConfigError
from gym_failures.errors import FailureError, GymFailuresError, error_from, report_for
from gym_failures.kinds import FailureBoundary, FailureStage
from gym_failures.marks import mark_of
from gym_failures.records import FailureEvent, FailureReport, ModelFailureDetails, SdkErrorDetails
from gym_failures.repair import chain_ids
from tests.strategies import exceptions, failure_reports

FIELDS = {
    "stage": FailureStage.VERIFICATION,
    "operation": "env POST /run",
    "operation_id": "op",
    "attempt_id": "op.1",
    "exception_type": "httpx.ReadTimeout",
    "http_status": 503,
    "foreign_error": SdkErrorDetails(exception_type="a.B", message="m"),
    "details": ModelFailureDetails(provider_request_id="r"),
}


def test_the_errors_of_the_package_have_one_base():
    """Wrong use can be caught as one thing, and is a ValueError too; a failure of the program is something else."""
    for error in (ConfigError, AttributesError):
        assert issubclass(error, GymFailuresError)
        assert issubclass(error, ValueError)
        assert error.__name__ in package_exceptions.__doc__
    assert not issubclass(FailureError, GymFailuresError)
    assert issubclass(FailureError, Exception)


class TestFailureError:
    """A failure that a program raises."""

    def test_has_the_fields_of_a_record(self):
        """What is given is on the error, and in its record; the boundary may be its member or its name."""
        error = FailureError("provider_unavailable", boundary="model", reason="why", **FIELDS)
        assert (error.kind, error.failure_kind) == ("provider_unavailable", "provider_unavailable")
        assert (error.reason, error.failure_reason) == ("why", "why")
        assert error.boundary is FailureBoundary.MODEL
        own = report_for(error).events[error.event_id]
        for name, value in FIELDS.items():
            assert getattr(error, name) == getattr(own, name) == value

    def test_says_kind_boundary_and_reason(self):
        """Its text is one line for people, its repr is code."""
        error = FailureError("judge_failed", boundary=FailureBoundary.RESOURCES_SERVER, reason="no answer")
        assert str(error) == "judge_failed at resources_server: no answer"
        assert repr(error) == "FailureError('judge_failed', boundary='resources_server', reason='no answer')"
        assert error.args == ("judge_failed",)
        bare = FailureError("judge_failed", boundary="agent")
        assert str(bare) == "judge_failed at agent"
        assert repr(bare) == "FailureError('judge_failed', boundary='agent')"

    @pytest.mark.parametrize(
        ("fields", "name"),
        [
            ({"kind": None}, "kind"),
            ({"kind": 5}, "kind"),
            ({"boundary": "nowhere"}, "boundary"),
            ({"boundary": None}, "boundary"),
            ({"boundary": FailureStage.AGENT}, "boundary"),
            ({"reason": None}, "reason"),
            ({"reason": 5}, "reason"),
            ({"stage": "later"}, "stage"),
            ({"operation": "x" * 257}, "operation"),
            ({"operation_id": "x" * 129}, "operation_id"),
            ({"attempt_id": 1}, "attempt_id"),
            ({"exception_type": "x" * 257}, "exception_type"),
            ({"http_status": 99}, "http_status"),
            ({"http_status": 2**70}, "http_status"),
            ({"foreign_error": "text"}, "foreign_error"),
            ({"details": {"unknown": 1}}, "details.unknown"),
            ({"boundary": "agent", "details": ModelFailureDetails()}, "details"),
        ],
    )
    def test_a_wrong_argument_is_named(self, fields, name):
        """What no record can hold is a ValueError at once, with the name of the argument and without its value."""
        given = {"kind": "judge_failed", "boundary": "model"} | fields
        with pytest.raises(ValueError, match=f"^{name}: ") as caught:
            FailureError(given.pop("kind"), **given)
        assert "xxx" not in str(caught.value)

    def test_a_reason_of_any_text_is_taken(self):
        """The reason depends on what went wrong, so no length and no character of it hides the failure."""
        error = FailureError("judge_failed", boundary="agent", reason="\ud800" + "x" * 5000)
        assert len(error.reason) == limits.REASON_LENGTH
        assert error.reason.startswith("\ufffdxxx")

    def test_gets_its_id_when_it_is_first_reported(self):
        """It is no record at birth; from its first report on, its id stays."""
        error = FailureError("judge_failed", boundary="agent")
        assert error.event_id is None
        first = report_for(error)
        assert error.event_id == first.failure_id
        assert report_for(error) == first

    def test_one_made_at_module_level_can_be_raised_again(self):
        """Raised and reported twice it is one failure; nothing of the first time is in the way."""
        for _ in range(2):
            with pytest.raises(FailureError) as caught:
                raise CONSTANT
            assert caught.value is CONSTANT
            assert list(report_for(CONSTANT).events) == [CONSTANT.event_id]


CONSTANT = FailureError("session_lost", boundary="resources_server")


class JudgeDownError(FailureError):
    """A program's own failure, with other arguments than its base."""

    def __init__(self, judge):
        super().__init__("judge_failed", boundary="resources_server", reason=f"{judge} is down")
        self.judge = judge


COPIES = {
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    **{
        f"pickle {protocol}": lambda error, protocol=protocol: pickle.loads(pickle.dumps(error, protocol))  # noqa: S301 - our own
        for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1)
    },
}


@pytest.mark.parametrize("duplicate", COPIES.values(), ids=COPIES)
class TestCopies:
    """A failure goes through copy and pickle, as between the processes of a pool."""

    def test_keeps_its_fields(self, duplicate):
        """All fields, arguments and notes are there, and the text is the same."""
        error = FailureError("provider_unavailable", boundary="model", reason="why", **FIELDS)
        error.add_note("a note")
        other = duplicate(error)
        assert type(other) is FailureError
        assert other.__dict__ == error.__dict__
        assert (str(other), repr(other), other.args) == (str(error), repr(error), error.args)
        assert other.__notes__ == ["a note"]

    def test_keeps_its_failure_and_causes(self, duplicate):
        """A copy is the same failure, caused by the same ones, though its `__cause__` stays behind."""
        error = FailureError("agent_run_error", boundary="agent")
        error.__cause__ = FailureError("provider_unavailable", boundary="model")
        report = report_for(error)
        assert report_for(duplicate(error)) == report

    def test_works_for_a_programs_own_class(self, duplicate):
        """A subclass needs no code for it, whatever its arguments are."""
        other = duplicate(JudgeDownError("judge-1"))
        assert (type(other), other.judge, other.reason) == (JudgeDownError, "judge-1", "judge-1 is down")

    def test_a_marked_foreign_exception_keeps_its_failure(self, duplicate):
        """The mark on any exception travels with it."""
        error = KeyError("k")
        report = report_for(error, boundary="agent")
        assert report_for(duplicate(error), boundary="agent") == report


class TestReportFor:
    """The report of an exception."""

    def test_holds_the_failure_and_what_caused_it(self):
        """Own failure, causes and foreign error of an exception, linked."""
        try:
            try:
                try:
                    raise ConnectionRefusedError(111, "refused")
                except OSError as error:
                    raise FailureError("provider_unavailable", boundary="model") from error
            except FailureError as error:
                raise RuntimeError("the run broke") from error
        except RuntimeError as error:
            report = report_for(error, boundary="agent")
        own = report.events[report.failure_id]
        cause = report.events[own.cause_id]
        assert (own.failure_kind, own.boundary, own.exception_type) == (
            "agent_run_error",
            FailureBoundary.AGENT,
            "RuntimeError",
        )
        assert (cause.failure_kind, cause.boundary, cause.cause_id) == (
            "provider_unavailable",
            FailureBoundary.MODEL,
            None,
        )
        assert cause.foreign_error.exception_type == "ConnectionRefusedError"
        assert (len(report.events), report.omitted) == (2, False)

    def test_is_empty_where_there_is_no_failure(self):
        """An exception that is none, at no boundary, has an empty report."""
        assert report_for(KeyError("k")) == FailureReport()

    def test_takes_names_for_boundary_and_stage(self):
        """Members and names of boundary and stage do alike."""
        report = report_for(KeyError("k"), boundary="resources_server", stage="verification")
        assert report.events[report.failure_id].failure_kind == "verifier_error"

    @pytest.mark.parametrize("wrong", [{"boundary": "nowhere"}, {"boundary": "agent", "stage": "later"}])
    def test_refuses_a_place_that_does_not_exist(self, wrong):
        """A wrong boundary or stage is the caller's mistake."""
        with pytest.raises(ValueError, match=next(reversed(wrong.values()))):
            report_for(KeyError("k"), **wrong)

    def test_says_when_causes_were_cut(self):
        """Of a chain too long to report, the report is legal and says that something is missing, but not the root."""
        root = error = FailureError("provider_oom_killed", boundary="sandbox")
        for _ in range(limits.CHAIN_LINKS + 1):
            outer = FailureError("agent_run_error", boundary="agent")
            outer.__cause__, error = error, outer
        report = report_for(error)
        assert (len(report.events), report.omitted) == (limits.CHAIN_LINKS, True)
        assert chain_ids(report.events, report.failure_id)[-1] == root.event_id

    @given(exceptions())
    def test_is_always_legal(self, error):
        """Whatever exceptions hang together how, the report validates, and says the same when asked again."""
        report = report_for(error, boundary="environment")
        assert FailureReport.model_validate(report.model_dump()) == report
        assert report_for(error, boundary="environment") == report


def own_chain(report):
    """Return what of a report belongs to its own failure."""
    ids = chain_ids(report.events, report.failure_id)
    return FailureReport(events={event_id: report.events[event_id] for event_id in ids}, failure_id=report.failure_id)


class TestErrorFrom:
    """A report as an exception to raise."""

    @given(failure_reports())
    def test_is_the_own_failure_with_its_causes(self, report):
        """The exception has the fields of the own failure, and each cause is the `__cause__` of its effect."""
        error = error_from(report)
        for event_id in chain_ids(report.events, report.failure_id):
            event = report.events[event_id]
            assert error.event_id == event_id
            for name in ("failure_kind", "boundary", "failure_reason", *FIELDS):
                assert getattr(error, name) == getattr(event, name)
            error = error.__cause__
        assert error is None

    @given(failure_reports())
    def test_and_back_is_the_own_chain(self, report):
        """The report of that exception is the part of the report that it was made of."""
        if report.failure_id is not None:
            assert report_for(error_from(report)) == own_chain(report)

    def test_is_none_where_nothing_failed(self):
        """A report of what was recovered from has no failure to raise."""
        event = FailureEvent(event_id="e", boundary="model", failure_kind="cancelled")
        assert error_from(FailureReport(events={"e": event})) is None
        assert error_from(FailureReport()) is None

    def test_raised_at_another_boundary_it_is_the_cause(self):
        """Who gets a failure from elsewhere and fails has a failure of its own, caused by that one."""
        remote = report_for(FailureError("provider_unavailable", boundary="model"))
        report = report_for(error_from(remote), boundary="agent")
        own = report.events[report.failure_id]
        assert (own.boundary, own.cause_id) == (FailureBoundary.AGENT, remote.failure_id)

    def test_a_chain_of_any_length_keeps_both_its_ends(self):
        """10,000 causes become 10,000 exceptions; what each knows of the rest is bounded, and the root is in it."""
        events = {
            f"e{index}": FailureEvent(
                event_id=f"e{index}",
                boundary="agent",
                failure_kind="agent_run_error",
                cause_id=f"e{index + 1}" if index < 9_999 else None,
            )
            for index in range(10_000)
        }
        error = error_from(FailureReport(events=events, failure_id="e0"))
        known = report_for(error)
        assert (known.failure_id, known.omitted) == ("e0", True)
        assert len(known.events) <= limits.LOG_EVENTS + limits.CHAIN_LINKS
        assert known.events.keys() >= {"e1", "e2", "e9999"}
        length = 0
        while error is not None:
            assert len(mark_of(error).events) <= limits.LOG_EVENTS
            error, length = error.__cause__, length + 1
        assert length == 10_000

    def test_can_be_printed(self):
        """A traceback shows the root cause first, as Python does for any chain."""
        error = FailureError("agent_run_error", boundary="agent", reason="outer")
        error.__cause__ = FailureError("provider_unavailable", boundary="model", reason="root")
        text = "".join(traceback.format_exception(error_from(report_for(error))))
        assert text.index("provider_unavailable at model: root") < text.index("agent_run_error at agent: outer")


def test_no_traceback_is_kept_alive():
    """Reports and marks hold records only: no frame of the program lives longer for them."""
    code = """
import gc, weakref
from gym_failures.errors import FailureError, report_for

class Big: pass

def work():
    big = Big()
    seen.append(weakref.ref(big))
    raise FailureError("agent_run_error", boundary="agent")

seen = []
try:
    work()
except FailureError as error:
    report = report_for(error, boundary="environment")
gc.collect()
assert seen[0]() is None
assert len(report.events) == 2
"""
    subprocess.run([sys.executable, "-c", code], check=True)
