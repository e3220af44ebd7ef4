"""A reply's report, raised as the failure that it tells of."""

from types import SimpleNamespace

import pytest

from gym_failures.config import Config
from gym_failures.errors import FailureError
from gym_failures.header import encode_report
from gym_failures.log import FailureLog
from gym_failures.recorder import FailureRecorder, default_recorder, set_default_recorder
from gym_failures.records import FailureBoundary, FailureEvent, FailureReport
from gym_failures.replies import raise_for_failure, report_of

LOCAL, PUBLIC = "http://127.0.0.1:8000/run", "https://api.example.com/run"
ROOT = FailureEvent(event_id="root", failure_kind="provider_quota_exhausted", boundary=FailureBoundary.MODEL)
OWN = FailureEvent(
    event_id="own", failure_kind="agent_run_error", boundary=FailureBoundary.AGENT, cause_id="root", failure_reason="x"
)
REPORT = FailureReport(events={"own": OWN, "root": ROOT}, failure_id="own")
RECOVERED = FailureReport(events={"root": ROOT})


def reply(report: FailureReport | None, url: str = LOCAL) -> SimpleNamespace:
    """Make what all kinds of responses have in common."""
    headers = {} if report is None else {"Gym-Failure-Report": encode_report(report)}
    return SimpleNamespace(headers=headers, url=url)


def test_the_failure_is_raised_from_its_causes():
    """The error is the own failure of the report, and its cause is the exception's cause."""
    with pytest.raises(FailureError, match="agent_run_error at agent: x") as caught:
        raise_for_failure(reply(REPORT))
    assert isinstance(caught.value.__cause__, FailureError)
    assert (caught.value.event_id, caught.value.__cause__.kind) == ("own", "provider_quota_exhausted")


def test_the_raised_failure_is_the_remote_one():
    """Leaving a request, the error makes one new failure, at that boundary, caused by the one that was told of."""
    with pytest.raises(FailureError), FailureLog("collection") as log:
        raise_for_failure(reply(REPORT))
    report = log.report()
    assert report.events[report.failure_id].cause_id == "own"
    assert report.events.keys() == {report.failure_id, "own", "root"}


def test_nothing_is_read_when_the_package_is_off() -> None:
    """Switched off for the process, or in the configuration that is given, a reply reports nothing and none raises."""
    before = default_recorder()
    set_default_recorder(FailureRecorder(Config(enabled=False)))
    try:
        assert report_of(reply(REPORT)) is None
        raise_for_failure(reply(REPORT))
        assert report_of(reply(REPORT), config=Config()) == REPORT
    finally:
        set_default_recorder(before)
    assert report_of(reply(REPORT), config=Config(enabled=False)) is None


SILENT = {
    "no report": reply(None),
    "recovered": reply(RECOVERED),
    "not believed": reply(REPORT, PUBLIC),
    "unreadable": SimpleNamespace(headers={"gym-failure-report": "1.%%%"}, url=LOCAL),
}


@pytest.mark.parametrize("response", SILENT.values(), ids=SILENT.keys())
def test_nothing_is_raised_without_a_failure_that_is_believed(response):
    """No report, one without an own failure, and one from a host that is not believed raise nothing."""
    raise_for_failure(response)


def test_whose_reports_are_believed_can_be_said_for_a_call():
    """A caller that knows its peer says so, and gets the report."""
    believing = Config(accept_from=["api.example.com"])
    assert report_of(reply(REPORT, PUBLIC)) is None
    assert report_of(reply(REPORT, PUBLIC), config=believing) == REPORT
    with pytest.raises(FailureError):
        raise_for_failure(reply(REPORT, PUBLIC), config=believing)
