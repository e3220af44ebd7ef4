"""What one sender sends amiss stops no other, by either way in: an agent and a gateway, or a laptop's Collector."""

import re
import threading
import time
from contextlib import ExitStack
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import MetricExportResult, PeriodicExportingMetricReader
from opentelemetry.sdk.metrics.view import ExponentialBucketHistogramAggregation, View
from opentelemetry.sdk.resources import Resource

from backends.processes import LOOPBACK
from backends.programs import CONFIG
from backends.stack import Collector, Prometheus
from gym_failures import kinds
from tests.backends.fleet import failing, running
from tests.backends.test_counts_killed import A_MINUTE_NS, ever_counted, expected, fail, one_sample

ROLLOUTS = 3
SENDERS = 12
"""More than any exporter here has consumers, so that each could be held up."""


@pytest.fixture(scope="module", params=["an agent and a gateway", "an all-in-one"])
def way_in(request, tmp_path_factory):
    """Give the Collector that is sent to, the one that writes to Prometheus, and a Prometheus of their own."""
    folder = tmp_path_factory.mktemp("senders")
    with Prometheus(folder) as prometheus:
        to = {"JAEGER": f"{LOOPBACK}:9", "PROMETHEUS": prometheus.write_url}
        if request.param == "an all-in-one":
            with Collector("all-in-one.yaml", folder, to=to) as laptop:
                yield laptop, laptop, prometheus
            return
        with (
            Collector("gateway.yaml", folder, to=to) as gateway,
            Collector("agent.yaml", folder, to={"GATEWAY": gateway.grpc}) as agent,
        ):
            yield agent, gateway, prometheus


def send_ahead(collector):
    """Count with a clock that is two hours ahead; return how many samples that were."""
    exporter = OTLPMetricExporter(f"{collector.http}/v1/metrics")
    sample = one_sample("ahead", time.time_ns() + 120 * A_MINUTE_NS)
    assert exporter.export(sample) is MetricExportResult.SUCCESS
    return 1


def send_exponential(collector):
    """Send exponential histograms, as an SDK does that is told to make no others; return how many."""
    for number in range(SENDERS):
        exporter = OTLPMetricExporter(f"{collector.http}/v1/metrics")
        provider = MeterProvider(
            [PeriodicExportingMetricReader(exporter)],
            resource=Resource({"service.name": f"exponential-{number}"}),
            shutdown_on_exit=False,
            views=[View(instrument_name="*", aggregation=ExponentialBucketHistogramAggregation())],
        )
        provider.get_meter("senders").create_histogram("http.server.request.duration").record(1.0)
        provider.shutdown()
    return SENDERS


AMISS = {"too_old": send_ahead, "exponential": send_exponential}
"""What is sent, by the filter that drops it."""


@pytest.mark.parametrize("dropped_by", AMISS)
def test_what_prometheus_would_refuse_stops_no_other(dropped_by, way_in, eventually):
    """A sample of the future, and histograms that Prometheus is not set to take, are dropped and counted alone."""
    collector, last, prometheus = way_in
    series = f'gym_failures_total{{service_name=~".*-{dropped_by}"}}'
    with running(collector.http, dropped_by) as fleet:
        fail(fleet, ROLLOUTS)
        eventually(lambda: ever_counted(prometheus, series), expected(ROLLOUTS))
        sent = AMISS[dropped_by](collector)
        name = f"filter/{dropped_by}"
        eventually(lambda: last.metrics(filter=name)["otelcol_processor_filter_datapoints_filtered_total"], sent)
        fail(fleet, ROLLOUTS)
        eventually(lambda: ever_counted(prometheus, series), expected(2 * ROLLOUTS))


PROCESSES = {
    "hosts": ({"host.name": "one", "process.pid": 1}, {"host.name": "two", "process.pid": 1}),
    "lives": tuple(
        {"host.name": "one", "process.pid": 1, "process.creation.time": f"2026-01-01T00:0{minute}:00Z"}
        for minute in range(2)
    ),
}
"""Processes of one id, by what they differ in."""


@pytest.mark.parametrize("differing", PROCESSES)
def test_one_process_id_can_be_two_processes(differing, way_in, eventually):
    """Processes that have one id, as the first of every container has, count beside each other."""
    collector, _, prometheus = way_in
    one, other = PROCESSES[differing]
    with (
        running(collector.http, differing, process=one) as first,
        running(collector.http, differing, process=other) as second,
    ):
        fail(first, 3)
        fail(second, 5)
        total = f'sum(gym_failures_total{{service_name="model-{differing}"}})'
        eventually(lambda: prometheus.query(total), [({}, 8)])


def test_the_detectors_of_the_page_give_an_identity(monkeypatch):
    """With the detectors that the page names an SDK tells what the agent makes an id of."""
    (named,) = re.findall(r"OTEL_EXPERIMENTAL_RESOURCE_DETECTORS=([\w,]+)", (CONFIG / "README.md").read_text())
    monkeypatch.setenv("OTEL_EXPERIMENTAL_RESOURCE_DETECTORS", named)
    assert {"host.name", "process.pid"} <= Resource.create().attributes.keys()


@pytest.fixture
def answering():
    """Give what makes a server that answers every write with one status, and the address for writes to it."""
    with ExitStack() as ends:

        def start(status):
            class Server(BaseHTTPRequestHandler):
                def do_POST(self):
                    self.rfile.read(int(self.headers["Content-Length"]))
                    self.send_response(status)
                    self.end_headers()

                def log_message(self, *_):
                    pass

            server = ends.enter_context(ThreadingHTTPServer((LOOPBACK, 0), Server))
            threading.Thread(target=server.serve_forever).start()
            ends.callback(server.shutdown)
            return f"http://{LOOPBACK}:{server.server_port}/api/v1/write"

        yield start


LOST, KEPT = "otelcol_exporter_send_failed_metric_points_total", "otelcol_exporter_queue_size"
FATES = {
    HTTPStatus.NOT_FOUND: LOST,
    HTTPStatus.UNAUTHORIZED: LOST,
    HTTPStatus.TOO_MANY_REQUESTS: LOST,
    HTTPStatus.SERVICE_UNAVAILABLE: KEPT,
}


@pytest.mark.parametrize("status", FATES, ids=lambda status: status.phrase)
def test_only_what_may_be_taken_later_is_kept(status, answering, tmp_path, eventually):
    """An agent keeps what was answered with 5xx; any other answer is final, and the loss is counted (contrib#31924)."""
    to = {"JAEGER": f"{LOOPBACK}:9", "PROMETHEUS": answering(status)}
    with (
        Collector("gateway.yaml", tmp_path, to=to) as gateway,
        Collector("agent.yaml", tmp_path, to={"GATEWAY": gateway.grpc}) as agent,
        running(agent.http, "answered") as fleet,
    ):
        fleet.rollout(failing(kinds.CANCELLED))
        fleet.flush()
        eventually(lambda: gateway.metrics().get(LOST, 0) > 0, expected=True)
        eventually(lambda: agent.metrics().get(FATES[status], 0) > 0, expected=True)
        assert (agent.metrics().get(LOST, 0) > 0) == (FATES[status] == LOST)
