"""Too much at once: spans that are well give way to those that failed, and what was accepted is not lost for it."""

import pytest
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from backends.stack import Collector
from gym_failures import kinds
from tests.backends.fleet import failing, running
from tests.backends.test_counts import COUNTER, series
from tests.backends.test_kills import reports, sent
from tests.backends.test_sampling import accepted

MIB = 1024 * 1024
MESSAGE = 4 * MIB
"""Size of a message of spans that are well, in bytes, all but a few."""
QUEUE = 120_000_000
"""Size of a queue that gets full, in bytes; a file in use is compacted when it is more than 100 MiB."""
LEFT_WAITING = 160 * MIB
"""What is refused before failures are sent, in bytes: more than is taken yet as the garbage in that memory goes."""
FAILED = 5
WELL = "otlp_grpc/gateway"
FAILING = "otlp_grpc/failing"


class Load:
    """Large spans that are well, each a trace of its own, sent to an agent in messages of one."""

    def __init__(self, agent, service):
        """Send to `agent` as `service`."""
        self._kept = InMemorySpanExporter()
        self._tracers = TracerProvider(resource=Resource({"service.name": service}), shutdown_on_exit=False)
        self._tracers.add_span_processor(SimpleSpanProcessor(self._kept))
        self._exporter = OTLPSpanExporter(f"{agent.http}/v1/traces")
        self.accepted = 0

    def send(self, size=MESSAGE):
        """Send one more, of this many bytes and a few, and tell whether it was accepted."""
        self._kept.clear()
        self._tracers.get_tracer("load").start_span("well", attributes={"prompt": "x" * size}).end()
        taken = self._exporter.export(self._kept.get_finished_spans()) is SpanExportResult.SUCCESS
        self.accepted += taken
        return taken


def waiting(agent, exporter):
    """Return how many bytes of spans wait in one of an agent's queues."""
    return agent.metrics(exporter=exporter, data_type="traces").get("otelcol_exporter_queue_size", 0)


@pytest.fixture
def full(tmp_path, jaeger, prometheus):
    """Run an agent and a gateway of little memory, in which spans wait longer than a test lasts."""
    with (
        Collector(
            "gateway.yaml",
            tmp_path,
            to={"JAEGER": jaeger.grpc, "PROMETHEUS": prometheus.write_url},
            settings={"MEMORY_MIB": "300", "KEEP_PERCENT": "0"},
        ) as gateway,
        Collector("agent.yaml", tmp_path, to={"GATEWAY": gateway.grpc}) as agent,
    ):
        yield agent, gateway


def test_failures_pass_a_gateway_that_is_full(full, jaeger, prometheus, eventually):
    """A gateway whose memory is full of spans that are well refuses more of them, and takes failures and counts.

    What it refuses waits on the agent's disk, and is taken once there is room.
    """
    agent, gateway = full
    load = Load(agent, "load-memory")

    def met(fate):
        return gateway.metrics().get(f"otelcol_receiver_{fate}_spans_total", 0)

    while not met("refused"):
        before = met("accepted")
        assert load.send()
        eventually(lambda before=before: met("accepted") > before or met("refused") > 0, expected=True)
    while waiting(agent, WELL) < LEFT_WAITING:
        assert load.send()
    with running(agent.http, "full") as fleet:
        rollouts = [fleet.rollout(failing(kinds.PROVIDER_UNAVAILABLE)) for _ in range(FAILED)]
    eventually(lambda: reports(jaeger, rollouts), sent(rollouts))
    counts = f"sum by (failure_kind) ({series(COUNTER, 'full', failure_boundary='model')})"
    eventually(lambda: prometheus.by("failure_kind", counts), {kinds.PROVIDER_UNAVAILABLE: FAILED})
    assert waiting(agent, WELL) > MESSAGE
    gateway.kill()
    gateway.start()
    eventually(lambda: waiting(agent, WELL), 0, within=90)
    assert agent.metrics()["otelcol_exporter_sent_spans_total"] == accepted(agent)


def test_a_full_queue_refuses_and_shrinks_again(tmp_path, jaeger, prometheus, eventually, monkeypatch):
    """A queue on disk takes as many bytes as it is given; failures have one of their own; all accepted is delivered.

    Its file stays below twice that, and shrinks when the queue has drained.
    """
    gateway = Collector(
        "gateway.yaml",
        tmp_path,
        to={"JAEGER": jaeger.grpc, "PROMETHEUS": prometheus.write_url},
        settings={"KEEP_PERCENT": "100"},
    )
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "5")  # how long an SDK tries again when it is refused, in seconds
    settings = {"QUEUE_BYTES": str(QUEUE)}
    with Collector("agent.yaml", tmp_path, to={"GATEWAY": gateway.grpc}, settings=settings) as agent:
        file = tmp_path / "agent-queue" / "exporter_otlp_grpc_gateway_traces"
        load = Load(agent, "load-disk")
        assert not all(load.send() for _ in range(QUEUE // MESSAGE + 1))
        assert QUEUE - 2 * MESSAGE < load.accepted * MESSAGE <= QUEUE
        rest = Load(agent, "load-rest")
        for size in (QUEUE // 100, QUEUE // 10_000, 100):
            while rest.send(size):
                pass
        with running(agent.http, "brimful") as fleet:
            rollouts = [fleet.rollout(failing(kinds.PROVIDER_UNAVAILABLE)) for _ in range(FAILED)]
        assert waiting(agent, FAILING) > 0
        assert file.stat().st_size < 2 * QUEUE
        with gateway:
            eventually(lambda: len(jaeger.find("load-disk")), load.accepted)
            eventually(lambda: reports(jaeger, rollouts), sent(rollouts))
            # A file learns of the room in it when it is written to, as it always is in use.
            eventually(lambda: rest.send(1) and file.stat().st_size < QUEUE // 2, expected=True)
