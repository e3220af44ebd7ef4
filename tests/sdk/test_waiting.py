"""Requests that hang are told of while they hang: when, with what, and that nothing is counted anew."""

import asyncio

import pytest
from opentelemetry.trace import SpanKind

from gym_failures import kinds, limits, semconv, waiting
from gym_failures.calls import Call
from gym_failures.config import Config
from gym_failures.kinds import FailureBoundary
from gym_failures.log import FailureLog
from gym_failures.operations import operation
from gym_failures.testing import Telemetry

AFTER = 60
"""The threshold of these tests, in seconds of their clock."""


class SteppedLoop(asyncio.SelectorEventLoop):
    """A real event loop whose clock stands still unless a test moves it."""

    now = 1_000.0
    timers = 0

    def time(self):
        """Return the time of this clock, in seconds."""
        return self.now

    def call_at(self, when, callback, *args, **kwargs):
        """Count the timers that are set."""
        self.timers += 1
        return super().call_at(when, callback, *args, **kwargs)

    async def pass_time(self, seconds):
        """Move the clock and let the loop do what is due; it takes a turn to look and one to call."""
        self.now += seconds
        for _ in range(3):
            await asyncio.sleep(0)


def run(main):
    """Run the coroutine function `main`, which is given its loop."""
    loop = SteppedLoop()
    try:
        return loop.run_until_complete(main(loop))
    finally:
        loop.close()


@pytest.fixture
def telemetry():
    """Give spans and metrics in memory; internal errors are raised."""
    with Telemetry(Config(waiting_after=AFTER)) as telemetry:
        yield telemetry


def told(telemetry):
    """Return the short spans so far."""
    return [span for span in telemetry.spans() if span.name == semconv.WAITING_SPAN_NAME]


def ages(telemetry):
    """Return at which ages it was told of requests."""
    return [span.attributes[semconv.WAITING_DURATION] for span in told(telemetry)]


def fail(log):
    """Let an attempt of a call fail in `log`."""
    return log.observe_failure(ConnectionRefusedError("refused"))


def test_a_request_that_hangs_is_told_of_at_doubling_ages(telemetry):
    """The short span comes at the threshold, and again at twice, four and eight times that age."""

    async def main(loop):
        with telemetry.span("request"), FailureLog():
            watched = waiting.begin()
            for _ in range(8 * AFTER):
                await loop.pass_time(1)
            waiting.end(watched)
            await loop.pass_time(100 * AFTER)

    run(main)
    assert ages(telemetry) == [AFTER, 2 * AFTER, 4 * AFTER, 8 * AFTER]


def test_the_short_span_holds_the_attempts_so_far(telemetry):
    """It has ended, is a child of the request's span, and repeats ids that are known, as known from elsewhere."""

    async def main(loop):
        with (
            telemetry.span("request", kind=SpanKind.SERVER) as span,
            FailureLog(FailureBoundary.MODEL, operation="model POST /v1/responses") as log,
            operation() as call,
        ):
            span.set_attribute(semconv.NEMO_GYM_ROLLOUT_ID, "0-1")
            span.set_attribute("http.route", "/v1/responses")
            watched = waiting.begin()
            for _ in range(2):
                call.begin_attempt()
                fail(log)
            await loop.pass_time(AFTER)
            waiting.end(watched)

    run(main)
    (short,) = told(telemetry)
    request = telemetry.named("request")
    assert short.start_time == short.end_time
    assert (short.parent.span_id, short.kind) == (request.context.span_id, SpanKind.INTERNAL)
    assert dict(short.attributes) == {
        "gym.waiting.duration": AFTER,
        "gym.waiting.failures": 2,
        "gym.waiting.operation": "model POST /v1/responses",
        "nemo.gym.rollout.id": "0-1",
    }
    first, second = [dict(event.attributes) for event in short.events]
    assert first["failure.attempt_id"] == second["failure.attempt_id"].removesuffix("2") + "1"
    assert [event["failure.id"] for event in (first, second)] == [
        event.attributes["failure.id"] for event in request.events
    ]
    assert {event["failure.origin"] for event in (first, second)} == {semconv.ORIGIN_REMOTE}


def test_nothing_is_counted_anew(telemetry):
    """Two failures that are told of three times are two failures, in the counter and in the report."""

    async def main(loop):
        with telemetry.span("request"), FailureLog() as log:
            watched = waiting.begin()
            fail(log)
            fail(log)
            for _ in range(4):
                await loop.pass_time(AFTER)
            waiting.end(watched)

    run(main)
    assert len(told(telemetry)) == 3
    assert telemetry.count() == 2
    (report,) = telemetry.reports()
    assert len(report.report.events) == 2
    assert report.report.failure_id is None


def test_what_hangs_is_known_though_its_own_span_never_ends(telemetry):
    """The report of a request whose span was lost has the failures that were told of (specification#373)."""

    async def main(loop):
        span = telemetry.tracer_provider.get_tracer("test").start_span("lost", kind=SpanKind.SERVER)
        log = FailureLog(FailureBoundary.AGENT, span=span)
        with log.activate():
            waiting.begin()
            fail(log)
            await loop.pass_time(AFTER)

    run(main)
    (report,) = telemetry.reports()
    assert [event.failure_kind for event in report.report.events.values()] == [kinds.TRANSPORT_UNREACHABLE]


def test_a_retry_tells_when_the_loop_does_not_get_to_it(telemetry):
    """A retry looks at the clock itself, and the age after that one still doubles."""

    async def main(loop):
        with telemetry.span("request"), FailureLog():
            watched = waiting.begin()
            loop.now += AFTER - 1
            waiting.look()
            loop.now += 2
            waiting.look()
            waiting.look()
            await loop.pass_time(AFTER)
            waiting.end(watched)
            loop.now += 10 * AFTER
            waiting.look()

    run(main)
    assert ages(telemetry) == [AFTER + 1, 2 * AFTER + 1]


def test_each_attempt_of_a_call_is_such_a_retry(telemetry):
    """A client that tries again tells what is due, whether it makes a new call of it or the library does it itself."""

    async def main(loop):
        with telemetry.span("request"), FailureLog(), operation():
            watched = waiting.begin()
            first = Call(FailureBoundary.AGENT, None)
            loop.now += AFTER
            Call(FailureBoundary.AGENT, None)
            loop.now += AFTER
            first.again()
            waiting.end(watched)

    run(main)
    assert ages(telemetry) == [AFTER, 2 * AFTER]


def test_a_request_that_ends_in_time_leaves_nothing(telemetry):
    """Of a thousand short requests no span is made and no timer but one, and none is remembered."""

    async def main(loop):
        for _ in range(1_000):
            with telemetry.span("request"), FailureLog() as log:
                watched = waiting.begin()
                fail(log)
                waiting.end(watched)
        watch = waiting._watches[loop]
        assert (loop.timers, watch._young, watch._old) == (1, {}, [])
        await loop.pass_time(AFTER)
        assert loop.timers == 1

    run(main)
    assert told(telemetry) == []


def test_one_timer_serves_every_request_of_a_loop(telemetry):
    """A hundred hanging requests are each told of in their time, with one timer at a time."""

    async def hang(enough):
        with telemetry.span("request"), FailureLog():
            watched = waiting.begin()
            await enough.wait()
            waiting.end(watched)

    async def main(loop):
        enough = asyncio.Event()
        requests = []
        for _ in range(100):
            requests.append(asyncio.ensure_future(hang(enough)))
            await loop.pass_time(1)
            assert sum(not handle.cancelled() for handle in loop._scheduled) == 1
        for _ in range(2 * AFTER):
            await loop.pass_time(1)
            assert sum(not handle.cancelled() for handle in loop._scheduled) == 1
        enough.set()
        await asyncio.gather(*requests)

    run(main)
    assert ages(telemetry).count(AFTER) == 100
    assert ages(telemetry).count(2 * AFTER) == 100


def test_a_new_request_does_not_wait_for_the_next_time_of_an_old_one(telemetry):
    """After a request that was told of, whether it ended or hangs on, the next one is told of at its own threshold."""

    async def hang(loop, seconds):
        with telemetry.span("request"), FailureLog():
            watched = waiting.begin()
            for _ in range(seconds):
                await loop.pass_time(1)
            waiting.end(watched)

    async def main(loop):
        await hang(loop, 4 * AFTER + 1)
        await hang(loop, AFTER)
        with telemetry.span("request"), FailureLog():
            waiting.begin()
            await loop.pass_time(4 * AFTER)
            await hang(loop, AFTER)

    run(main)
    assert ages(telemetry) == [AFTER, 2 * AFTER, 4 * AFTER, AFTER, 4 * AFTER, AFTER]


def test_what_has_ended_keeps_no_timer(telemetry):
    """When nobody is left who hangs, the next look forgets all that were told of, and nothing rings any more."""

    async def main(loop):
        for seconds in (4 * AFTER, AFTER):
            with telemetry.span("request"), FailureLog():
                watched = waiting.begin()
                for _ in range(seconds):
                    await loop.pass_time(1)
                waiting.end(watched)
        await loop.pass_time(AFTER)
        watch = waiting._watches[loop]
        assert (watch._timer, watch._young, watch._old) == (None, {}, [])

    run(main)
    assert ages(telemetry) == [AFTER, 2 * AFTER, 4 * AFTER, AFTER]


def test_many_that_are_due_at_once_are_told_of_in_turns(telemetry):
    """No turn of the loop tells of more than a bound, the next one comes after a pause, and none is left out."""
    many = 3 * limits.WAITING_AT_ONCE + 1

    async def main(loop):
        held = []
        for _ in range(many):
            with telemetry.span("request"), FailureLog():
                held.append(waiting.begin())
        await loop.pass_time(AFTER)
        found = [len(told(telemetry))]
        waiting.look()
        await loop.pass_time(0)
        assert len(told(telemetry)) == found[0]
        while found[-1] < many:
            await loop.pass_time(limits.WAITING_PAUSE)
            found.append(len(told(telemetry)))
        await loop.pass_time(limits.WAITING_PAUSE)
        assert found == [limits.WAITING_AT_ONCE * turn for turn in (1, 2, 3)] + [many]

    run(main)
    assert ages(telemetry) == sorted(ages(telemetry))
    assert len(ages(telemetry)) == many
    assert ages(telemetry)[-1] == pytest.approx(AFTER + 3 * limits.WAITING_PAUSE)


def test_many_failures_are_told_of_by_the_newest(telemetry):
    """The short span holds as many events as fit one span, and the count of all (opentelemetry-specification#1425)."""

    async def main(loop):
        with telemetry.span("request"), FailureLog() as log:
            watched = waiting.begin()
            for _ in range(2 * limits.LOG_EVENTS):
                fail(log)
            await loop.pass_time(AFTER)
            waiting.end(watched)

    run(main)
    (short,) = told(telemetry)
    assert len(short.events) == limits.EVENTS_PER_SPAN
    assert short.attributes[semconv.WAITING_FAILURES] == 2 * limits.LOG_EVENTS


@pytest.mark.parametrize(
    "config", [Config(waiting_after=0), Config(enabled=False)], ids=["never", "everything switched off"]
)
def test_nobody_is_watched_who_need_not_be(config):
    """With the threshold at 0, or the package switched off, nothing is watched and no timer is set."""

    async def main(loop):
        with Telemetry(config), FailureLog():
            assert waiting.begin() is None
            waiting.look()
            waiting.end(None)
        assert loop.timers == 0

    run(main)


@pytest.mark.usefixtures("telemetry")
def test_outside_of_a_request_nothing_is_watched():
    """Without a request there is nobody to wait for."""

    async def main(loop):
        assert waiting.begin() is None
        assert loop.timers == 0

    run(main)
