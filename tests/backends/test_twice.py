"""What is delivered twice, as by a sender whose answer was lost: it shows once, and which count takes it for two."""

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from gym_failures import kinds
from tests.backends.fleet import failing, running
from tests.backends.test_counts import COUNTER, OF_SPANS, series
from tests.backends.test_kills import reports, sent

TIMES = 5


def test_a_second_delivery_shows_once(agent, jaeger, prometheus, eventually):
    """All spans arrive twice: reports and searches merge them (jaeger#6389), the servers' counter never saw them twice.

    The gateway's count of spans does take them for two, as its documentation says.
    """
    kept = InMemorySpanExporter()
    with running(agent.http, "twice") as fleet:
        for service in fleet.services:
            service.tracers.add_span_processor(SimpleSpanProcessor(kept))
        rollouts = [fleet.rollout(failing(kinds.SESSION_LOST, reason="gone")) for _ in range(TIMES)]
        fleet.flush()
        again = OTLPSpanExporter(f"{agent.http}/v1/traces")
        assert again.export(kept.get_finished_spans()) is SpanExportResult.SUCCESS
        again.shutdown()
        for way, times in ((OF_SPANS, 2 * TIMES), (COUNTER, TIMES)):
            by_kind = f"sum by (failure_kind) ({series(way, 'twice', failure_boundary='model')})"
            eventually(lambda by_kind=by_kind: prometheus.by("failure_kind", by_kind), {kinds.SESSION_LOST: times})
    eventually(lambda: reports(jaeger, rollouts), sent(rollouts))
    found = [trace["traceID"] for trace in jaeger.find("model-twice", failure_kind=kinds.SESSION_LOST)]
    assert sorted(found) == sorted(sent(rollouts))
