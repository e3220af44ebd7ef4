"""A hop that is away for long: what piled up meanwhile arrives whole, however large its batches have become."""

import pytest
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode, format_trace_id

from backends.stack import Collector, Jaeger
from gym_failures import kinds, semconv
from gym_failures.errors import FailureError
from gym_failures.ids import new_id
from gym_failures.limits import REASON_LENGTH
from gym_failures.records import FailureEvent
from tests.backends.fleet import KINDS_OF_A_ROLLOUT, running
from tests.backends.test_sampling import spans_kept
from tests.backends.test_search import spans_of, texts, trace_ids

ROLLOUTS = 120
ATTEMPTS = 24
MIB = 1024 * 1024
GRPC_TAKES = 4 * MIB
"""Largest message that a gRPC server takes when it is not told otherwise, in bytes."""
SDK_KEEPS = 128
"""Attributes, and events, that a span has at most when an SDK is not told otherwise."""
LONG = "z" * 20_000
OWN = {"collection": KINDS_OF_A_ROLLOUT[0], "agent": KINDS_OF_A_ROLLOUT[1], "model": kinds.PROVIDER_UNAVAILABLE}
"""Kind of each service's own failure."""


def fail_at_length(log):
    """Fail after some attempts, each with the longest reason that there is."""
    reason = "x" * REASON_LENGTH
    for _ in range(ATTEMPTS):
        log.observe_failure(
            FailureEvent(
                event_id=new_id(), boundary="model", failure_kind=kinds.TRANSPORT_TIMEOUT, failure_reason=reason
            )
        )
    raise FailureError(kinds.PROVIDER_UNAVAILABLE, boundary="model", reason=reason)


@pytest.fixture(params=["gateway behind an agent", "jaeger behind a gateway", "jaeger behind an all-in-one"])
def outage(request, tmp_path, prometheus):
    """Give the Jaeger at the end, the program that is to be away, and the Collector in front of that."""
    with Jaeger(tmp_path, storage="ephemeral") as jaeger:
        to = {"JAEGER": jaeger.grpc, "PROMETHEUS": prometheus.write_url}
        if request.param == "jaeger behind an all-in-one":
            with Collector("all-in-one.yaml", tmp_path, to=to) as laptop:
                yield jaeger, jaeger, laptop
            return
        with Collector("gateway.yaml", tmp_path, to=to) as gateway:
            if request.param == "jaeger behind a gateway":
                yield jaeger, jaeger, gateway
                return
            with Collector("agent.yaml", tmp_path, to={"GATEWAY": gateway.grpc}) as agent:
                yield jaeger, gateway, agent


def test_large_batches_of_failures_arrive(outage, eventually):
    """Far more bytes than one message holds wait for a hop that is away, and it refuses none of them afterwards."""
    jaeger, away, collector = outage
    away.kill()
    with running(collector.http, "long", insist=True) as fleet:
        failed = {fleet.rollout(fail_at_length).trace_id for _ in range(ROLLOUTS)}
        fleet.flush()
        assert queued_bytes(collector) > ROLLOUTS * ATTEMPTS * REASON_LENGTH > GRPC_TAKES
        away.start()
        for hop, kind in OWN.items():
            eventually(lambda hop=hop, kind=kind: trace_ids(jaeger.find(f"{hop}-long", failure_kind=kind)), failed)


def test_the_largest_message_passes_every_hop(agent, jaeger, eventually):
    """A message just under what an agent takes gets to Jaeger's disk: no hop or storage refuses what the last accepted.

    Badger takes no value of more than 65,000 bytes and no span with 9.6 MiB of them, gRPC by default no 4 MiB.
    """
    kept = InMemorySpanExporter()
    provider = TracerProvider(resource=Resource({"service.name": "large"}), shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(kept))
    tracer = provider.get_tracer("large")
    with tracer.start_as_current_span("POST /run") as root:
        for number in range(2):
            span = tracer.start_span("step", attributes={"step": number, "prompt": "x" * MIB, "tokens": [7] * 40_000})
            span.add_event(semconv.EVENT_NAME, {semconv.FAILURE_KIND: kinds.JUDGE_FAILED, "said": "y" * 100_000})
            span.end()
        crowded = tracer.start_span("crowded", attributes={f"text {number}": LONG for number in range(SDK_KEEPS)})
        for _ in range(SDK_KEEPS):
            crowded.add_event("exception", dict.fromkeys(("message", "stack", "code", "hint"), LONG))
        crowded.end()
    exporter = OTLPSpanExporter(f"{agent.http}/v1/traces")
    assert exporter.export(kept.get_finished_spans()) is SpanExportResult.SUCCESS
    exporter.shutdown()
    trace_id = format_trace_id(root.get_span_context().trace_id)
    eventually(lambda: spans_kept(jaeger, trace_id), 4)
    assert trace_ids(jaeger.find("large", failure_kind=kinds.JUDGE_FAILED)) == {trace_id}
    prompts = {texts(span).get("prompt", "") for span in spans_of(jaeger.trace(trace_id))}
    assert {prompt.lstrip("x") for prompt in prompts} == {"", "…"}


TOO_LONG = "k" * 100_000
TOO_LONG_IN = {
    "the text of a status": lambda span: span.set_status(StatusCode.ERROR, TOO_LONG),
    "the name of a span": lambda span: span.update_name(TOO_LONG),
    "the name of an event": lambda span: span.add_event(TOO_LONG),
    "the key of a span's attribute": lambda span: span.set_attribute(TOO_LONG, 1),
    "the key of an event's attribute": lambda span: span.add_event("e", {TOO_LONG: 1}),
    "the key of a resource's attribute": lambda _: None,
    "the name of a scope": lambda _: None,
    "the version of a scope": lambda _: None,
}


@pytest.mark.parametrize("field", TOO_LONG_IN)
def test_no_field_is_too_long_for_the_storage(field, agent, gateway, jaeger, eventually):
    """A span is stored, and its failure with it, whichever of its texts is longer than Badger takes."""
    name = field.replace(" ", "-")
    resource = {"service.name": name, **({TOO_LONG: 1} if "resource" in field else {})}
    provider = TracerProvider(resource=Resource(resource), shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(OTLPSpanExporter(f"{agent.http}/v1/traces")))
    tracer = provider.get_tracer(
        TOO_LONG if "name of a scope" in field else "long", TOO_LONG if "version of a scope" in field else ""
    )
    with tracer.start_as_current_span("POST /run") as span:
        span.add_event(semconv.EVENT_NAME, {semconv.FAILURE_KIND: kinds.JUDGE_FAILED})
        TOO_LONG_IN[field](span)
    provider.shutdown()
    trace_id = format_trace_id(span.get_span_context().trace_id)
    eventually(lambda: trace_ids(jaeger.find(name, failure_kind=kinds.JUDGE_FAILED)), {trace_id})
    eventually(lambda: queued_bytes(gateway), 0)


def queued_bytes(collector):
    """Return how many bytes wait in a Collector's queues."""
    return collector.metrics()["otelcol_exporter_queue_size"]
