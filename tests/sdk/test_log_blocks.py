"""Blocks of logs within each other, on one span, and ended by another task or thread."""

import asyncio
import functools
import pickle
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context

import pytest
from opentelemetry.trace import StatusCode

from gym_failures import semconv
from gym_failures.errors import FailureError, report_for
from gym_failures.log import FailureLog, current_log
from gym_failures.recording import observe, record_failure
from gym_failures.testing import Telemetry


def test_block_that_another_task_ends_lets_its_exception_through(telemetry: Telemetry) -> None:
    """A block within an async generator may end in another task's context, and the exception leaves it unchanged."""
    raised = KeyError("the program's own")

    async def steps() -> AsyncIterator[None]:
        with FailureLog("agent"):
            yield
            raise raised

    async def main() -> None:
        generator = steps()
        await asyncio.create_task(anext(generator))
        await asyncio.create_task(anext(generator))

    with telemetry.span("work"), pytest.raises(KeyError) as caught:
        asyncio.run(main())
    assert caught.value is raised
    assert telemetry.count() == 1


def test_span_that_was_given_stays(telemetry: Telemetry) -> None:
    """A log that was given a span puts its summary there, whatever span is current where its block begins."""
    with (
        telemetry.span("given") as given,
        telemetry.span("current"),
        pytest.raises(ValueError, match="x"),
        FailureLog("agent", span=given),
    ):
        raise ValueError("x")
    assert telemetry.named("given").status.status_code is StatusCode.ERROR
    assert telemetry.named("current").status.status_code is StatusCode.UNSET


def test_inner_log_without_a_span_of_its_own_decides_nothing_for_the_request(telemetry: Telemetry) -> None:
    """What an inner block failed with and the request survived leaves the request's span as it is."""
    with (
        telemetry.span("server"),
        FailureLog("agent") as outer,
        pytest.raises(ValueError, match="x"),
        FailureLog("agent"),
    ):
        raise ValueError("x")
    server = telemetry.named("server")
    assert outer.report().failure_id is None
    assert server.status.status_code is StatusCode.UNSET
    assert "failure.id" not in (server.attributes or {})


def test_inner_log_with_a_span_of_its_own_gets_its_summary(telemetry: Telemetry) -> None:
    """The span that an inner log stands for tells which failure was its own."""
    with (
        telemetry.span("server"),
        FailureLog("agent"),
        telemetry.span("step"),
        pytest.raises(ValueError, match="x"),
        FailureLog("agent") as inner,
    ):
        raise ValueError("x")
    assert inner.own is not None
    assert (telemetry.named("step").attributes or {})["failure.id"] == inner.own.event_id
    assert telemetry.named("server").status.status_code is StatusCode.UNSET


def test_request_of_nested_logs_fails_once(telemetry: Telemetry) -> None:
    """Logs within each other are one request, which is counted once when an exception leaves them all."""
    with telemetry.span("server"), pytest.raises(ValueError, match="x"):  # noqa: SIM117 - nested on purpose
        with FailureLog("agent"), FailureLog("agent"):
            raise ValueError("x")
    assert telemetry.count(semconv.METRIC_REQUESTS_FAILED) == 1


@pytest.mark.parametrize("traced", [True, False], ids=["in a trace", "without a span"])
def test_failure_of_an_unbound_thread_is_the_same_in_its_request(telemetry: Telemetry, traced: bool) -> None:  # noqa: FBT001 - a case
    """A thread that was not bound has no log; its failure is counted once, and is in the report of who waits for it."""

    def work() -> None:
        assert current_log() is None
        if traced:
            with telemetry.span("thread"), observe("agent"):
                raise ValueError("x")
        with observe("agent"):
            raise ValueError("x")

    with (
        telemetry.span("server"),
        ThreadPoolExecutor(1) as pool,
        pytest.raises(ValueError, match="x"),
        FailureLog("agent") as log,
    ):
        pool.submit(work).result()
    assert telemetry.count() == 1
    assert [event.failure_reason for event in log.report().events.values()] == ["x"]
    assert {event["failure.id"] for event in telemetry.events()} == set(log.report().events)
    assert [event["failure.root"] for event in telemetry.events() if event["failure.origin"] == "local"] == [True]


def test_failure_of_a_thread_in_the_trace_of_its_request_is_on_it_once(telemetry: Telemetry) -> None:
    """A thread that has the request's span, but not its log, has written its failure where the request would."""

    def work() -> None:
        assert current_log() is None
        with observe("agent"):
            raise ValueError("x")

    with telemetry.span("server"), ThreadPoolExecutor(1) as pool:
        context = copy_context()
        with pytest.raises(ValueError, match="x"), FailureLog("agent") as log:
            pool.submit(context.run, work).result()
    assert telemetry.only_event()["failure.origin"] == "local"
    assert set(log.report().events) == {telemetry.only_event()["failure.id"]}
    assert telemetry.count() == 1


def test_failure_of_an_unbound_thread_is_the_cause_of_what_is_raised_from_it(telemetry: Telemetry) -> None:
    """What an unbound thread recorded without a span is local on its request's trace, under whatever exception."""

    def work() -> None:
        with observe("agent"):
            raise ValueError("x")

    with telemetry.span("server"), ThreadPoolExecutor(1) as pool, FailureLog("agent") as log:
        effect = LookupError("y")
        effect.__cause__ = pool.submit(work).exception()
        log.fail(effect)
    below, own = telemetry.events()
    assert own["failure.cause_id"] == below["failure.id"]
    assert [event["failure.origin"] for event in (below, own)] == ["local", "local"]
    assert [telemetry.count(failure_root=root) for root in (True, False)] == [1, 1]


def test_failure_of_another_process_is_remote_though_its_exception_is_the_same(telemetry: Telemetry) -> None:
    """An exception that was recorded before it went through pickle was counted there, and is told of here as remote."""
    error = ValueError("x")
    with telemetry.span("worker"):
        record_failure(error, boundary="agent")
    with telemetry.span("server"), FailureLog("agent") as log:
        for _ in range(2):
            log.observe_failure(pickle.loads(pickle.dumps(error)))  # noqa: S301 - our own
    assert [event["failure.origin"] for event in telemetry.events()] == ["local", "remote"]
    assert telemetry.count() == 1


def test_causes_that_only_a_mark_knows_are_recorded_with_their_effect(telemetry: Telemetry) -> None:
    """A failure that comes out of pickle without the exceptions it was raised from brings their failures with it."""
    effect = FailureError("agent_timeout", boundary="agent")
    effect.__cause__ = FailureError("provider_unavailable", boundary="model")
    ids = set(report_for(effect).events)
    with telemetry.span("server"), FailureLog("agent") as log:
        log.fail(pickle.loads(pickle.dumps(effect)))  # noqa: S301 - our own
    assert set(log.report().events) == ids == {event["failure.id"] for event in telemetry.events()}
    assert len(ids) == 2


def test_log_that_adopted_a_failure_is_told_from_the_next_request(telemetry: Telemetry) -> None:
    """An object recorded where there was no log belongs to the first request that meets it, not to each."""
    shared = ValueError("x")
    record_failure(shared, boundary="agent")
    for _ in range(2):
        with telemetry.span("server"), pytest.raises(ValueError, match="x"), FailureLog("agent"):
            raise shared
    assert telemetry.count() == 2


def test_log_is_entered_once(telemetry: Telemetry) -> None:
    """A log within itself, or one that has ended, is refused with a RuntimeError and keeps what it has."""
    with telemetry.span("rollout"), FailureLog("agent") as log:
        record_failure(ValueError("x"))
        with pytest.raises(RuntimeError, match="entered once"), log:
            pytest.fail("entered within itself")
        assert current_log() is log
        record_failure(ValueError("y"))
    with pytest.raises(RuntimeError, match="entered once"), log:
        pytest.fail("entered again")
    assert [event.failure_reason for event in log.report().events.values()] == ["x", "y"]


def test_log_that_was_closed_or_made_current_is_not_entered(telemetry: Telemetry) -> None:
    """A log that has ended without a block, and one that is current already, are refused as blocks too."""
    closed, current = FailureLog("agent"), FailureLog("agent")
    closed.close()
    with pytest.raises(RuntimeError, match="entered once"), closed:
        pytest.fail("entered after its end")
    with current.activate(), pytest.raises(RuntimeError, match="entered once"), current:
        pytest.fail("entered within itself")
    with telemetry.span("rollout"), current, current.activate():
        record_failure(ValueError("x"))
    assert len(current.report().events) == 1


async def coroutine() -> None:
    """Run when it is awaited."""


def generator() -> Iterator[None]:
    """Run when it is iterated."""
    yield


async def async_generator() -> AsyncIterator[None]:
    """Run when it is iterated."""
    yield


class Awaitable:
    """A callable that runs when its result is awaited."""

    async def __call__(self) -> None:
        """Do nothing."""


@pytest.mark.parametrize(
    "function",
    [coroutine, generator, async_generator, Awaitable(), functools.partial(coroutine)],
    ids=["coroutine", "generator", "async generator", "callable", "partial"],
)
def test_bind_refuses_what_does_not_run_when_it_is_called(function: Callable[[], object]) -> None:
    """A function whose code runs later than its call would run outside of the log: binding it is an error at once."""
    with pytest.raises(TypeError, match="functions that run when they are called"):
        FailureLog("agent").bind(function)
