"""The kit for tests: what one test did is nothing to the next."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

import pytest

from gym_failures import semconv
from gym_failures.errors import FailureError, error_from
from gym_failures.header import decode_report
from gym_failures.kinds import FailureBoundary
from gym_failures.log import FailureLog
from gym_failures.recording import observe, record_failure
from gym_failures.records import FailureEvent, FailureReport
from gym_failures.testing import Telemetry


def said_of(error: Exception, block: Callable[[], AbstractContextManager[object]], *, in_a_span: bool) -> object:
    """Return all that a kit of its own gets of an exception that leaves a block."""
    with Telemetry() as telemetry:
        with telemetry.span("work") if in_a_span else nullcontext(), pytest.raises(type(error)), block():
            raise error
        return telemetry.events(), telemetry.counts(), [dict(span.attributes or {}) for span in telemetry.spans()]


@pytest.mark.parametrize("in_a_span", [True, False])
@pytest.mark.parametrize("block", [lambda: observe("agent"), lambda: FailureLog("agent")], ids=["observe", "a log"])
def test_an_exception_of_a_module_is_a_new_failure_in_each_test(
    block: Callable[[], AbstractContextManager[object]], *, in_a_span: bool
) -> None:
    """Ids count up from 1 in each kit, and no record of one before is taken for its own."""
    error = FailureError("judge_failed", boundary="agent")
    first = said_of(error, block, in_a_span=in_a_span)
    assert said_of(error, block, in_a_span=in_a_span) == first
    assert error.event_id is not None


def test_an_exception_of_a_module_is_recorded_in_each_test() -> None:
    """`record_failure` alone, which otherwise takes such an exception for the same for ever, records it too."""
    error = FailureError("judge_failed", boundary="agent")
    for _ in range(2):
        with Telemetry() as telemetry:
            record_failure(error)
            assert telemetry.count(failure_kind="judge_failed", failure_root=True) == 1


def test_what_another_process_reported_stays_that() -> None:
    """An exception that was made of a report outside of the kit is still caused by what the report says."""
    remote = FailureEvent(event_id="r", boundary=FailureBoundary.MODEL, failure_kind="provider_unavailable")
    error = error_from(FailureReport(events={"r": remote}, failure_id="r"))
    assert error is not None
    with Telemetry() as telemetry:
        with telemetry.span("work"), pytest.raises(FailureError), observe("agent"):
            raise error
        assert telemetry.only_event()["failure.cause_id"] == "r"


def test_what_the_package_says_of_itself_is_counted_too() -> None:
    """Refused headers and the like go to the MeterProvider of the recorder in force, and to no other afterwards."""
    with Telemetry() as outer, Telemetry() as telemetry:
        assert decode_report("junk") is None
        assert (telemetry.count(semconv.METRIC_DECODE_ERRORS), outer.count(semconv.METRIC_DECODE_ERRORS)) == (1, 0)
    assert decode_report("junk") is None
    assert (telemetry.count(semconv.METRIC_DECODE_ERRORS), outer.count(semconv.METRIC_DECODE_ERRORS)) == (1, 0)
