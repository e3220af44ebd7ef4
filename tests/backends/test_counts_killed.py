"""kill -9 on the way of the counts: what reached an agent is counted, also of processes that live no more."""

import time

import pytest
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Metric,
    MetricExportResult,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope

from backends.stack import Collector, Prometheus
from gym_failures import kinds
from tests.backends.fleet import KINDS_OF_A_ROLLOUT, failing, running

ROLLOUTS = 10
A_MINUTE_NS = 60 * 10**9
PROGRAMS = ("prometheus", "gateway", "agent")


@pytest.fixture
def programs(tmp_path, jaeger):
    """Run a Prometheus, a gateway and an agent that this test alone kills."""
    with (
        Prometheus(tmp_path) as prometheus,
        Collector("gateway.yaml", tmp_path, to={"JAEGER": jaeger.grpc, "PROMETHEUS": prometheus.write_url}) as gateway,
        Collector("agent.yaml", tmp_path, to={"GATEWAY": gateway.grpc}) as agent,
    ):
        yield prometheus, gateway, agent


def fail(fleet, times):
    """Let rollouts fail and send what that counts to."""
    for _ in range(times):
        fleet.rollout(failing(kinds.PROVIDER_UNAVAILABLE))
    fleet.flush()


def expected(rollouts):
    """Return the counts by kind that rollouts come to."""
    return dict.fromkeys((kinds.PROVIDER_UNAVAILABLE, *KINDS_OF_A_ROLLOUT), rollouts)


def ever_counted(prometheus, series):
    """Return the counts by kind of every process that ever counted, whether it still runs or not."""
    return prometheus.by("failure_kind", f"sum by (failure_kind) (max_over_time({series}[1h]))")


def points_met(collector):
    """Return how many data points a Collector was offered, whatever it did with them."""
    return sum(
        value
        for name, value in collector.metrics().items()
        if name.startswith("otelcol_receiver_") and name.endswith("_metric_points_total")
    )


@pytest.mark.parametrize("killed", [PROGRAMS[:1], PROGRAMS[:2], PROGRAMS], ids=" and ".join)
def test_the_counts_of_ended_processes_wait_for_prometheus(killed, programs, eventually):
    """What a process counted last waits on the agent's disk until Prometheus has it, whatever is killed meanwhile."""
    prometheus, gateway, _ = programs
    victims = programs[: len(killed)]
    prometheus.kill()
    with running(programs[2].http, "ended") as fleet:
        fail(fleet, ROLLOUTS)
    eventually(lambda: points_met(gateway) > 0, expected=True)
    for program in victims[1:]:
        program.kill()
    for program in victims:
        program.start()
    eventually(lambda: ever_counted(prometheus, "gym_failures_total"), expected(ROLLOUTS))


@pytest.mark.parametrize("victim", PROGRAMS)
def test_the_counts_of_living_processes_catch_up(victim, programs, eventually):
    """A counter goes on from where it was: after a kill its next export tells all that was counted meanwhile."""
    prometheus = programs[0]
    program = programs[PROGRAMS.index(victim)]
    with running(programs[2].http, "ended") as fleet:
        fail(fleet, ROLLOUTS)
        program.kill()
        fail(fleet, ROLLOUTS)
        program.start()
        eventually(lambda: ever_counted(prometheus, "gym_failures_total"), expected(2 * ROLLOUTS))


def test_the_count_of_spans_begins_anew_with_the_gateway(programs, eventually):
    """What the gateway counted of spans and sent stays; the gateway that comes after it counts from 0 beside that."""
    prometheus, gateway, agent = programs
    spans = 'gym_failures_span_events_total{failure_origin="local"}'
    with running(agent.http, "ended") as fleet:
        fail(fleet, ROLLOUTS)
        eventually(lambda: ever_counted(prometheus, spans), expected(ROLLOUTS))
        gateway.kill()
        gateway.start()
        fail(fleet, ROLLOUTS)
        eventually(lambda: ever_counted(prometheus, spans), expected(2 * ROLLOUTS))
        per_gateway = f"count by (collector_instance_id) (last_over_time({spans}[1h]))"
        assert len(prometheus.query(per_gateway)) == 2


def test_a_count_that_comes_too_late_stops_no_other(programs, eventually):
    """A sample that Prometheus would not take is dropped and counted; a younger one arrives, and so does the rest."""
    prometheus, gateway, agent = programs
    exporter = OTLPMetricExporter(f"{agent.http}/v1/metrics")
    with running(agent.http, "ended") as fleet:
        fail(fleet, ROLLOUTS)
        eventually(lambda: ever_counted(prometheus, "gym_failures_total"), expected(ROLLOUTS))
        for name, minutes in (("late", 50), ("too_late", 24 * 60)):
            sample = one_sample(name, time.time_ns() - minutes * A_MINUTE_NS)
            assert exporter.export(sample) is MetricExportResult.SUCCESS
        fail(fleet, ROLLOUTS)
        eventually(lambda: ever_counted(prometheus, "gym_failures_total"), expected(2 * ROLLOUTS))
    eventually(lambda: agent.metrics()["otelcol_exporter_queue_size"], 0)
    prometheus.scrape(collectors=[gateway.telemetry])
    dropped = 'sum(otelcol_processor_filter_datapoints_filtered_total{filter="filter/too_old"})'
    eventually(lambda: prometheus.query(dropped), [({}, 1)])
    arrived = 'count by (service_name) (last_over_time({__name__=~"(too_)?late_total"}[2d]))'
    assert prometheus.query(arrived) == [({"service_name": "late"}, 1)]


def one_sample(name, time_ns, description="", temporality=AggregationTemporality.CUMULATIVE):
    """Return one sample of a counter that nothing else counts, of a time in nanoseconds since the epoch."""
    point = NumberDataPoint(attributes={}, start_time_unix_nano=time_ns, time_unix_nano=time_ns, value=1)
    counter = Sum([point], temporality, is_monotonic=True)
    metric = Metric(name, description, unit="1", data=counter)
    scope = ScopeMetrics(InstrumentationScope("late"), [metric], "")
    return MetricsData([ResourceMetrics(Resource({"service.name": name}), [scope], "")])
