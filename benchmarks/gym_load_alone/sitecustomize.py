"""OpenTelemetry in a server of NeMo Gym, and nothing of this package; for a process that finds this on its path.

What is traced is what `gym-failures run` has OpenTelemetry trace.
"""

import os

if "NEMO_GYM_CONFIG_PATH" in os.environ:  # as each server has it, and no other process
    from opentelemetry import trace
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.instrumentation.aiohttp_client import AioHttpClientInstrumentor
    from opentelemetry.instrumentation.fastapi import FastAPIInstrumentor
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    trace.set_tracer_provider(provider)
    AioHttpClientInstrumentor().instrument()
    FastAPIInstrumentor().instrument(exclude_spans=["receive", "send"])
