"""Tail sampling keeps every trace that failed, whole, and a share of the others."""

import urllib.error

import pytest
from opentelemetry.context import Context
from opentelemetry.trace import SpanKind, format_trace_id

from backends.stack import Collector
from gym_failures import kinds
from gym_failures.log import FailureLog
from tests.backends.fleet import failing, running
from tests.backends.test_search import SPANS_OF_A_ROLLOUT, spans_of, trace_ids

HEALTHY = 400
FAILED = 40


def spans_kept(jaeger, trace_id):
    """Return how many spans of a trace Jaeger has."""
    try:
        return len(spans_of(jaeger.trace(trace_id)))
    except urllib.error.HTTPError as error:
        if error.code == 404:
            return 0
        raise


def accepted(gateway):
    """Return how many spans a gateway has accepted."""
    return gateway.metrics().get("otelcol_receiver_accepted_spans_total", 0)


def refused(gateway):
    """Return how many traces a gateway has given up."""
    return gateway.metrics().get("otelcol_processor_tail_sampling_global_count_traces_sampled_total", 0)


def test_failing_traces_are_kept_whole_and_a_share_of_the_others(agent, gateway, jaeger, eventually):
    """With a quarter to keep, all failing traces arrive with all their spans, and about a quarter of the rest."""
    before = accepted(gateway)
    with running(agent.http, "kept") as fleet:
        failed = {fleet.rollout(failing(kinds.TRANSPORT_TIMEOUT)).trace_id for _ in range(FAILED)}
        healthy = {fleet.rollout().trace_id for _ in range(HEALTHY)}
        fleet.flush()
    eventually(lambda: accepted(gateway) - before, (FAILED + HEALTHY) * SPANS_OF_A_ROLLOUT)

    def kept():
        return trace_ids(jaeger.find("collection-kept"))

    # Binomial(400, 0.25) lies outside of 55 to 150 once in a hundred million runs.
    eventually(lambda: failed <= kept() and len(kept() & healthy) >= 55, expected=True)
    eventually(lambda: gateway.metrics()["otelcol_exporter_queue_size"], 0)
    eventually(lambda: {spans_kept(jaeger, trace_id) for trace_id in kept()}, {SPANS_OF_A_ROLLOUT})
    assert len(kept() & healthy) <= 150


def slow_trace(fleet, until):
    """Send the early spans of a trace, call `until`, then let its request fail; return its id."""
    service = fleet.bottom
    tracer = service.tracers.get_tracer("slow")
    with tracer.start_as_current_span("POST /run", kind=SpanKind.SERVER) as span:
        log = FailureLog("agent", recorder=service.recorder, span=span)
        for step in range(3):
            tracer.start_span(f"step {step}").end()
        fleet.flush()
        until()
        with log.activate():
            log.settle(TimeoutError("too late"))
    fleet.flush()
    return format_trace_id(span.get_span_context().trace_id)


@pytest.fixture
def strict(tmp_path, jaeger, prometheus, request):
    """Run a gateway that keeps no healthy trace, and waits for a failure as long as the test says."""
    with Collector(
        "gateway.yaml",
        tmp_path,
        to={"JAEGER": jaeger.grpc, "PROMETHEUS": prometheus.write_url},
        settings={"KEEP_PERCENT": "0", **request.param},
    ) as running_:
        yield running_


@pytest.mark.parametrize("strict", [{}], ids=["as shipped"], indirect=True)
def test_a_failure_that_comes_late_keeps_what_was_sent_before_it(strict, jaeger, eventually):
    """The first spans of a trace are held back until its failure comes, and are kept then."""
    with running(strict.http, "late") as fleet:
        trace_id = slow_trace(fleet, until=lambda: eventually(lambda: accepted(strict), 3))
        eventually(lambda: spans_kept(jaeger, trace_id), 4)


WAITS = 3


@pytest.mark.parametrize("strict", [{"TRACE_WAIT": "1s"}], ids=["one second"], indirect=True)
def test_a_failure_that_comes_after_the_wait_is_kept_all_the_same(strict, jaeger, eventually):
    """A trace that fails several waits after it was given up is kept from its failure on: none is lost to sampling."""
    with running(strict.http, "hasty") as fleet:
        tracer = fleet.top.tracers.get_tracer("healthy")

        def wait_again_and_again():
            eventually(lambda: accepted(strict), 3)
            for others in range(WAITS):
                eventually(lambda others=others: refused(strict) > others, expected=True)
                tracer.start_span("healthy", context=Context()).end()  # a trace of its own
                fleet.flush()

        trace_id = slow_trace(fleet, until=wait_again_and_again)
        eventually(lambda: spans_kept(jaeger, trace_id), 1)
        assert trace_ids(jaeger.find("model-hasty", failure_kind=kinds.AGENT_TIMEOUT)) == {trace_id}
