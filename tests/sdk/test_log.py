"""The log of one request: what is new, what is its own failure, and what stays when there is too much."""

import asyncio
import contextvars
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from opentelemetry.trace import SpanKind, StatusCode

from gym_failures import limits, semconv
from gym_failures.errors import FailureError, error_from
from gym_failures.kinds import FailureBoundary
from gym_failures.log import FailureLog, current_log
from gym_failures.operations import operation
from gym_failures.recording import observe, record_failure
from gym_failures.records import FailureEvent, FailureReport
from gym_failures.testing import Telemetry


def remote(number: int, cause: int | None = None, **fields: object) -> FailureEvent:
    """Make an event as another process would send it."""
    return FailureEvent(
        **{
            "event_id": f"remote-{number}",
            "failure_kind": "provider_quota_exhausted",
            "boundary": FailureBoundary.MODEL,
            "cause_id": None if cause is None else f"remote-{cause}",
            **fields,
        }
    )


def reported(*events: FailureEvent, own: int | None = None) -> FailureReport:
    """Make the report that another process would send."""
    return FailureReport(
        events={event.event_id: event for event in events}, failure_id=None if own is None else f"remote-{own}"
    )


def test_exception_that_leaves_is_the_own_failure(telemetry: Telemetry) -> None:
    """An exception that leaves the block is the report's own failure, on the span that was current at entry."""
    with telemetry.span("rollout"), pytest.raises(ValueError, match="x"), FailureLog() as log:
        raise ValueError("x")
    report = log.report()
    assert report.failure_id is not None
    own = report.events[report.failure_id]
    assert (own.failure_kind, own.boundary) == ("agent_request_failed", FailureBoundary.COLLECTION)
    span = telemetry.named("rollout")
    assert (span.attributes or {})["failure.id"] == report.failure_id
    assert span.status.status_code is StatusCode.ERROR
    assert telemetry.count(semconv.METRIC_REQUESTS_FAILED, failure_kind="agent_request_failed") == 1


def test_recovered_failure_is_reported_without_an_own_one(telemetry: Telemetry) -> None:
    """A failure that was dealt with is in the report, which has no own failure, and the span is no ERROR."""
    with telemetry.span("rollout"), FailureLog() as log:
        record_failure(ConnectionResetError("gone"), boundary="agent")
    report = log.report()
    assert report.failure_id is None
    assert [event.failure_kind for event in report.events.values()] == ["transport_peer_drop"]
    assert telemetry.named("rollout").status.status_code is StatusCode.UNSET
    assert telemetry.count(semconv.METRIC_REQUESTS_FAILED) == 0


def test_fail_makes_a_failure_of_a_reply_that_answers_200(telemetry: Telemetry) -> None:
    """`fail` says which failure is the request's own, whatever the status; the first call counts."""
    with telemetry.span("server"):
        log = FailureLog("resources_server")
        with log.activate():
            first = log.fail(FailureError("judge_failed", boundary="resources_server"))
            log.fail(FailureError("verifier_error", boundary="resources_server"))
            assert log.settle(status=200) is first
    assert log.report().failure_id == (first and first.event_id)
    assert telemetry.named("server").status.status_code is StatusCode.ERROR


def test_server_error_status_is_a_new_failure_caused_by_the_relayed_one(telemetry: Telemetry) -> None:
    """A status of 500 or more without an exception is a new local event, caused by the relayed report's own failure."""
    with telemetry.span("server"):
        log = FailureLog("environment")
        with log.activate():
            relayed = log.observe_reply(reported(remote(1), own=1))
            assert relayed is not None
            own = log.settle(status=500, relayed_id=relayed.failure_id)
    assert own is not None
    assert (own.failure_kind, own.http_status, own.cause_id) == ("environment_server_failed", 500, "remote-1")
    assert telemetry.count() == 1


@pytest.mark.parametrize("status", [200, 204, 400, 404, 422, 499])
def test_status_below_500_is_no_server_failure(telemetry: Telemetry, status: int) -> None:
    """A client error is no failure of the server, and leaves its span alone."""
    with telemetry.span("server"):
        assert FailureLog("agent").settle(status=status) is None
    assert telemetry.events() == []
    assert telemetry.named("server").status.status_code is StatusCode.UNSET


def test_own_failure_is_decided_once(telemetry: Telemetry) -> None:
    """After the own failure is decided, nothing changes it, and the request is counted once."""
    with telemetry.span("server"):
        log = FailureLog("agent")
        first = log.settle(ValueError("x"))
        second = log.settle(KeyError("y"), status=500)
    assert first is second
    assert telemetry.count(semconv.METRIC_REQUESTS_FAILED) == 1


def test_reply_is_recorded_as_remote_and_not_counted(telemetry: Telemetry) -> None:
    """What a reply reports is on the client's span with origin remote, without a root flag, and is not counted."""
    with telemetry.span("client", kind=SpanKind.CLIENT):
        FailureLog("agent").observe_reply(reported(remote(1), remote(2, cause=1), own=2))
    first, second = telemetry.events()
    assert [found["failure.origin"] for found in (first, second)] == ["remote", "remote"]
    assert "failure.root" not in first
    assert second["failure.cause_id"] == "remote-1"
    assert telemetry.count() == 0


def test_error_of_a_reply_is_the_cause_of_the_next_servers_failure(telemetry: Telemetry) -> None:
    """An error rebuilt from a reply and raised on becomes the cause of this server's failure, whatever its boundary."""
    report = reported(remote(1), remote(2, cause=1, boundary=FailureBoundary.AGENT), own=2)
    error = error_from(report)
    assert error is not None
    with telemetry.span("server"):
        log = FailureLog("agent")
        log.observe_reply(report)
        own = log.settle(error)
    assert own is not None
    assert own.cause_id == "remote-2"
    assert own.event_id not in report.events
    assert telemetry.count() == 1


def test_same_report_through_five_hops_is_one_event_a_process(telemetry: Telemetry) -> None:
    """A report that arrives again adds nothing: an id names one immutable record."""
    with telemetry.span("client"):
        log = FailureLog("agent")
        for _ in range(5):
            log.observe_reply(reported(remote(1), own=1))
    assert len(telemetry.events()) == 1


def test_attempts_name_their_operation(telemetry: Telemetry) -> None:
    """Failed attempts of one call share its operation id and number themselves, and both stay in the report."""
    with telemetry.span("server"):
        log = FailureLog("model")
        with log.activate(), operation() as call:
            for _ in range(2):
                call.begin_attempt()
                record_failure(ConnectionResetError("gone"))
            with operation() as inner:
                assert inner is call
    events = list(log.report().events.values())
    assert [event.operation_id for event in events] == [call.operation_id] * 2
    assert [event.attempt_id for event in events] == [f"{call.operation_id}.{n}" for n in (1, 2)]


def test_of_many_attempts_the_first_and_the_last_stay(telemetry: Telemetry) -> None:
    """Of 100 failed attempts a log keeps the first 8 and the last 8 and says how many it left out."""
    with telemetry.span("server"):
        log = FailureLog("model")
        with log.activate(), operation() as call:
            for _ in range(100):
                call.begin_attempt()
                record_failure(ConnectionResetError("gone"))
    report = log.report()
    kept = [int((event.attempt_id or "").rpartition(".")[2]) for event in report.events.values()]
    assert kept == [*range(1, 9), *range(93, 101)]
    assert report.omitted
    assert log.dropped == 84
    assert telemetry.count() == 100
    assert len(telemetry.events()) == 100


def test_full_log_keeps_the_own_failure_and_its_chain(telemetry: Telemetry) -> None:
    """A log holds at most 512 events; the own failure with its causes stays when 10,000 others come."""
    with telemetry.span("server"):
        log = FailureLog("agent")
        own = log.fail(FailureError("agent_run_error", boundary="agent"))
        log.observe_reply(reported(*(remote(number) for number in range(10_000))))
        chained = FailureError("judge_failed", boundary="agent")
        chained.__cause__ = FailureError("provider_unavailable", boundary="model")
        log.observe_failure(chained)
    report = log.report()
    assert own is not None
    assert len(report.events) == limits.LOG_EVENTS
    assert report.failure_id == own.event_id
    assert {"judge_failed", "provider_unavailable"} <= {event.failure_kind for event in report.events.values()}
    assert report.omitted
    assert log.dropped == 10_003 - limits.LOG_EVENTS


def test_causes_beyond_a_bound_are_counted(telemetry: Telemetry) -> None:
    """Of 100 failures raised from each other the log says how many it has not, and only the first is a root."""
    error: FailureError | None = None
    for index in range(100):
        effect = FailureError("judge_failed", boundary="agent", reason=str(index))
        effect.__cause__, error = error, effect
    assert error is not None
    with pytest.raises(FailureError), telemetry.span("rollout"), FailureLog("agent") as log:
        raise error
    assert (log.omitted, log.dropped) == (True, 100 - limits.CHAIN_LINKS)
    assert telemetry.count(semconv.METRIC_DROPPED, reason="causes") == 100 - limits.CHAIN_LINKS
    assert (telemetry.named("rollout").attributes or {})["failure.omitted"] is True
    assert telemetry.count(failure_root=True) == 1
    (rebuilt,) = telemetry.reports()
    assert rebuilt.root is not None
    assert (rebuilt.root.failure_reason, rebuilt.report.omitted, rebuilt.missing_causes) == ("0", True, ())


def test_after_the_header_a_failure_is_late(telemetry: Telemetry) -> None:
    """What is recorded after the reply's header was written is marked late; what came before is not."""
    with telemetry.span("server"):
        log = FailureLog("agent")
        log.observe_failure(ValueError("before"))
        log.seal()
        log.observe_failure(ValueError("after"))
    before, after = telemetry.events()
    assert "failure.late" not in before
    assert after["failure.late"] is True


def test_after_the_end_a_failure_goes_on_a_span_of_its_own(telemetry: Telemetry) -> None:
    """After the request a failure is kept by no log and goes on a short span of the request's trace (contrib#1952)."""
    with telemetry.span("server"):
        log = FailureLog("agent")
    log.seal()
    log.close()
    with telemetry.span("another request"):
        log.observe_failure(ValueError("late"))
    assert log.report().events == {}
    short = telemetry.named(semconv.OVERFLOW_SPAN_NAME)
    assert len(short.events) == 1
    assert telemetry.named("another request").events == ()
    server = telemetry.named("server").context
    assert server is not None
    assert short.links[0].context.span_id == server.span_id
    assert telemetry.count() == 1


def test_after_the_end_a_failure_is_one_however_many_observe_it(telemetry: Telemetry) -> None:
    """An exception that leaves three nested observers after the request is one event and one count (logfire#915)."""
    with telemetry.span("server"), FailureLog("agent") as log:
        pass
    with pytest.raises(LookupError), log.activate(), observe("agent"), observe("agent"), observe("agent"):
        raise LookupError from error_from(reported(remote(1), own=1))
    assert [event["failure.origin"] for event in telemetry.events()] == ["remote", "local"]
    assert telemetry.count() == 1


def test_after_the_end_a_finished_failure_is_recorded_once(telemetry: Telemetry) -> None:
    """A log that has ended keeps nothing, and still knows the last failures that it wrote."""
    log = FailureLog("agent")
    log.close()
    many = [remote(number) for number in range(limits.LOG_EVENTS)]
    for event in (*many, *many):
        log.observe_failure(event)
    assert telemetry.count() == limits.LOG_EVENTS
    assert log.report().events == {}


@pytest.mark.parametrize("others", [600, 3000])
@pytest.mark.parametrize("make", [ValueError, lambda: remote(0)], ids=["exception", "finished"])
def test_what_a_full_log_left_out_is_the_same_failure_when_it_comes_again(
    telemetry: Telemetry, make: Callable[[], ValueError | FailureEvent], others: int
) -> None:
    """A failure that had to go and turns out to be the request's own is kept again, and is written once.

    Of finished failures, which remember nothing, the log knows again the last that it left out.
    """
    with telemetry.span("server"):
        log, first = FailureLog("agent"), make()
        event = log.observe_failure(first)
        for number in range(1, others):
            log.observe_failure(remote(number))
        assert event is not None
        assert event.event_id not in log.report().events
        known = isinstance(first, ValueError) or others == 600
        assert log.fail(first) == event
        log.settle()
    assert log.report().failure_id == event.event_id
    found = [one for one in telemetry.events() if one["failure.id"] == event.event_id]
    assert {one["failure.origin"] for one in found} == {"local"}
    assert telemetry.count() == others + (not known)


def test_own_failure_that_had_to_go_before_it_had_a_span_has_one(telemetry: Telemetry) -> None:
    """An own failure for which no short span was left, and which the full log left out, is on a span all the same."""
    errors = [ValueError(str(number)) for number in range(limits.LOG_SHORT_SPANS + 3 * limits.LOG_EVENTS)]
    own = errors[limits.LOG_SHORT_SPANS + limits.LOG_EVENTS // 2]
    with telemetry.span("server"), FailureLog("agent") as log:
        for error in errors:
            log.observe_failure(error)
        log.fail(own)
    assert log.own is not None
    assert [one["failure.id"] for one in telemetry.events()].count(log.own.event_id) == 1
    assert telemetry.count() == len(errors)


def test_inner_log_hands_its_events_outward(telemetry: Telemetry) -> None:
    """At the end of an inner log the outer one has its events, each written once, and no own failure of them."""
    with telemetry.span("rollout"), FailureLog() as outer:
        with pytest.raises(ValueError, match="x"), FailureLog("harness") as inner:
            raise ValueError("x")
        assert set(outer.report().events) == set(inner.report().events)
        assert outer.own is None
    assert len(telemetry.events()) == 1
    assert telemetry.count() == 1


def test_exception_from_an_inner_log_is_known_to_the_outer_one(telemetry: Telemetry) -> None:
    """An exception that crosses two nested logs of one boundary is one event."""
    with telemetry.span("rollout"), pytest.raises(ValueError, match="x"):  # noqa: SIM117 - nested on purpose
        with FailureLog() as outer, FailureLog() as inner:
            raise ValueError("x")
    assert outer.report() == inner.report()
    assert telemetry.count() == 1


def test_threads_and_tasks_write_into_the_log_of_their_request(telemetry: Telemetry) -> None:
    """A bound function in an executor and a task started earlier write into the request's log (starlette#1081)."""

    async def main() -> FailureLog:
        with telemetry.span("server"), FailureLog("agent") as log:
            started = asyncio.Event()

            async def task() -> None:
                await started.wait()
                record_failure(ValueError("task"))

            running = asyncio.create_task(task())
            started.set()
            await running
            with ThreadPoolExecutor(1) as pool:
                pool.submit(log.bind(record_failure), ValueError("thread")).result()
                pool.submit(contextvars.copy_context().run, record_failure, ValueError("copied")).result()
            assert current_log() is log
        return log

    log = asyncio.run(main())
    reasons = {event.failure_reason for event in log.report().events.values()}
    assert reasons == {"task", "thread", "copied"}
    assert {event["failure.reason"] for event in telemetry.events()} == reasons
    assert current_log() is None


def test_many_threads_lose_nothing(telemetry: Telemetry) -> None:
    """Eight threads recording into one log at once lose no failure and write none twice."""
    with telemetry.span("server"), FailureLog("agent") as log, ThreadPoolExecutor(8) as pool:
        for _ in pool.map(log.bind(record_failure), (ValueError(str(number)) for number in range(400))):
            pass
    assert len(log.report().events) == 400
    assert len(telemetry.events()) == 400
    assert telemetry.count() == 400


def test_summary_goes_on_the_requests_span_not_on_an_inner_one(telemetry: Telemetry) -> None:
    """A failure that an inner block saw and the request survived does not make the request's span an ERROR."""
    with telemetry.span("server"), FailureLog("agent"):
        with telemetry.span("inner"), pytest.raises(ValueError, match="x"), observe("agent"):
            raise ValueError("x")
        with pytest.raises(ValueError, match="y"), observe("agent"):
            raise ValueError("y")
    assert telemetry.named("inner").status.status_code is StatusCode.ERROR
    server = telemetry.named("server")
    assert server.status.status_code is StatusCode.UNSET
    assert "failure.id" not in (server.attributes or {})


def test_omitted_of_a_reply_is_said_on_the_span(telemetry: Telemetry) -> None:
    """When the report that arrived had left something out, so does this one, and the span says it."""
    with telemetry.span("server"):
        log = FailureLog("agent")
        log.observe_reply(FailureReport(omitted=True))
        log.settle(status=200)
    assert log.report().omitted
    assert (telemetry.named("server").attributes or {})["failure.omitted"] is True


def test_hostile_reply_gives_a_legal_report(telemetry: Telemetry) -> None:
    """Replies whose links form a circle together, or reuse an id, still give a legal report."""
    with telemetry.span("server"):
        log = FailureLog("agent")
        log.observe_reply(reported(remote(1), remote(2, cause=1)))
        log.observe_reply(reported(remote(2), remote(1, cause=2)))
        log.observe_failure(remote(3, cause=4, failure_reason="cause unknown"))
    report = FailureReport.model_validate(log.report().model_dump())
    assert report.events["remote-2"].cause_id == "remote-1"
    assert report.events["remote-1"].cause_id is None
    assert report.events["remote-3"].cause_id is None
    assert report.omitted
