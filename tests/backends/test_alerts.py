"""Alerts on the way of failures: the real programs have the series that they read, and each mishap raises its own."""

import re
import resource
import time

import pytest
import yaml
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.metrics.export import AggregationTemporality
from opentelemetry.sdk.trace import SpanLimits, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor

from backends.programs import CONFIG
from backends.stack import Collector, Prometheus
from gym_failures import kinds, semconv
from tests.backends.fleet import failing, running
from tests.backends.test_counts_killed import A_MINUTE_NS, one_sample

SERIES = 2_000
"""Series that a gateway keeps of one service."""
HELD, HEALTHY = 5, 50
"""Traces that the gateway has room for, and those that are sent to it."""
DISK = 2**17
"""Bytes that a file of a queue may have on a disk that is full, which is what it begins with."""
RULES = [
    rule
    for file in ("rules.yml", "alerts.yml")
    for group in yaml.safe_load((CONFIG / "prometheus" / file).read_text())["groups"]
    for rule in group["rules"]
]
ALERTS = {rule["alert"] for rule in RULES if "alert" in rule}
OF_PROGRAMS = sorted({name for rule in RULES for name in re.findall(r"\botelcol_\w+|\bup\b", rule["expr"])})
RAISED = {
    "GymCollectorDown",
    "GymCollectorDropping",
    "GymCollectorExportFailing",
    "GymCollectorRefusing",
    "GymCollectorStuck",
    "GymCountsOverflow",
    "GymCountsTooLate",
    "GymCountsUntranslated",
    "GymTracesGivenUpEarly",
}
"""Alerts that the mishaps below raise. The queue that fills is `promtool`'s: it needs more than a test would send."""


@pytest.fixture(scope="module")
def troubled(tmp_path_factory, jaeger):
    """Give a Prometheus that watches Collectors on which all that can be refused, dropped or late is."""
    folders = iter([tmp_path_factory.mktemp(name) for name in ("prometheus", "small", "deaf", "full", "gone", "lost")])
    with (
        Prometheus(next(folders)) as prometheus,
        Collector(
            "gateway.yaml",
            next(folders),
            to={"JAEGER": jaeger.grpc, "PROMETHEUS": prometheus.write_url},
            settings={"TRACES_HELD": str(HELD), "TRACE_WAIT": "2s", "KEEP_PERCENT": "0"},
        ) as small,
        # Where nobody takes OTLP: an answer that is final.
        Collector("agent.yaml", next(folders), to={"GATEWAY": jaeger.query_grpc}) as deaf,
        Collector("agent.yaml", next(folders), to={"GATEWAY": small.grpc}) as full,
        # Where nobody is: no answer.
        Collector("agent.yaml", next(folders), to={"GATEWAY": "127.0.0.1:9"}) as gone,
        Collector(
            "gateway.yaml",
            next(folders),
            to={"JAEGER": jaeger.grpc, "PROMETHEUS": prometheus.url},  # no place to write to
        ) as lost,
    ):
        targets = [collector.telemetry for collector in (small, deaf, full, gone, lost)]
        prometheus.scrape(collectors=[*targets, "127.0.0.1:9"], jaeger=jaeger.targets)
        for collector in (small, deaf, full, gone, lost):
            with running(collector.http, "troubled") as fleet:
                fleet.rollout(failing(kinds.PROVIDER_UNAVAILABLE))
                for _ in range(HEALTHY if collector is small else 0):
                    fleet.rollout()
        resource.prlimit(full.pid, resource.RLIMIT_FSIZE, (DISK, DISK))
        send(small, one_sample("old", time.time_ns() - 60 * A_MINUTE_NS))
        send(small, one_sample("delta", time.time_ns(), temporality=AggregationTemporality.DELTA))
        send_kinds(small, SERIES + 1)
        send(full, one_sample("new", time.time_ns(), description="long" * DISK), seconds=5)
        with running(full.http, "troubled") as fleet:
            fleet.rollout(rollout_id="long" * DISK)
        yield prometheus


def send(collector, sample, *, seconds=30):
    """Send a sample, whatever becomes of it; one that is refused is sent again for as many seconds."""
    OTLPMetricExporter(f"{collector.http}/v1/metrics", timeout=seconds).export(sample)


def send_kinds(collector, number):
    """Send a span with failures of as many kinds of one server's own."""
    tracers = TracerProvider(span_limits=SpanLimits(max_events=number), shutdown_on_exit=False)
    tracers.add_span_processor(SimpleSpanProcessor(OTLPSpanExporter(f"{collector.http}/v1/traces")))
    with tracers.get_tracer("kinds").start_as_current_span("POST /run") as span:
        for kind in range(number):
            span.add_event(
                semconv.EVENT_NAME, {semconv.FAILURE_KIND: f"tool:k{kind}", semconv.FAILURE_BOUNDARY: "model"}
            )
    tracers.shutdown()


@pytest.mark.parametrize("metric", OF_PROGRAMS)
def test_what_the_programs_tell_of_themselves(metric, troubled, eventually):
    """Every series of a Collector, of Jaeger or of Prometheus that a rule reads is one that they have."""
    eventually(lambda: bool(troubled.query(metric)), expected=True)


def test_each_mishap_raises_its_alert(troubled, eventually):
    """What is refused, dropped, stuck or late in a real Collector fires the alert that names it, if no wait is set."""

    def raised():
        return {
            rule["name"]
            for group in troubled.rules()
            for rule in group["rules"]
            if rule["type"] == "alerting"
            if any(alert["state"] == "firing" or rule["duration"] for alert in rule["alerts"])
        }

    eventually(lambda: RAISED - raised(), set())


def test_every_alert_is_explained():
    """The page on alerts tells of each alert, and of no other."""
    page = (CONFIG.parent / "docs" / "how-to" / "respond-to-alerts.md").read_text()
    assert re.findall(r"^\| `(\w+)`", page, re.MULTILINE) == [rule["alert"] for rule in RULES if "alert" in rule]


def test_all_containers_are_watched():
    """Prometheus scrapes each Collector and Jaeger of the containers, at the ports where they tell of themselves."""
    services = yaml.safe_load((CONFIG / "compose.yaml").read_text())["services"]
    told = set()
    for name in ("agent", "gateway", "jaeger"):
        file = (CONFIG / f"{name}.yaml").read_text()
        for variable, default in re.findall(r"\$\{env:(\w+_TELEMETRY_PORT):-(\d+)\}", file):
            told.add(f"{name}:{services[name]['environment'].get(variable, default)}")
    told.add(services["jaeger"]["environment"]["GYM_JAEGER_METRICS"].replace("0.0.0.0", "jaeger"))  # noqa: S104 - in its container
    watched = [
        target
        for path in (CONFIG / "prometheus" / "compose-targets").glob("*.yml")
        for group in yaml.safe_load(path.read_text())
        for target in group["targets"]
    ]
    assert sorted(watched) == sorted(told)
