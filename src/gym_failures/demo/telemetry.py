"""OpenTelemetry in one process of the demo: the SDK, and where it exports to."""

from typing import TYPE_CHECKING

from opentelemetry import metrics, trace
from opentelemetry.exporter.otlp.json.file.trace_exporter import FileSpanExporter
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor

from gym_failures.demo.settings import Settings

if TYPE_CHECKING:
    from opentelemetry.sdk.metrics.export import MetricReader

    from gym_failures.demo.sender import Sender


class Telemetry:
    """The providers of this process, made global."""

    def __init__(self, name: str, settings: Settings) -> None:
        """Export the spans of the service `name` to its file at once, and all signals to the endpoint if one is set."""
        resource = Resource.create({"service.name": name})
        self._tracers = TracerProvider(resource=resource)
        # At once, so that a process that is killed has written what it knew.
        self._tracers.add_span_processor(SimpleSpanProcessor(FileSpanExporter(settings.file("spans", name))))
        readers: list[MetricReader] = []
        self._sender: Sender | None = None
        if settings.otlp is not None:
            from gym_failures.demo import sender  # noqa: PLC0415 - costs a third of a second

            self._sender = sender.Sender(settings.otlp)
            self._tracers.add_span_processor(self._sender.spans)
            readers.append(self._sender.metrics)
        self._meters = MeterProvider(readers, resource=resource)
        trace.set_tracer_provider(self._tracers)
        metrics.set_meter_provider(self._meters)

    def shut_down(self) -> bool:
        """Send what has not been sent yet; returns whether all spans were taken. Metrics are not: Jaeger takes none."""
        self._tracers.shutdown()
        self._meters.shutdown()
        return self._sender is None or self._sender.all_were_taken


def send_now() -> None:
    """Send what this process has not sent yet, and wait until it is sent."""
    for provider in (trace.get_tracer_provider(), metrics.get_meter_provider()):
        if isinstance(provider, TracerProvider | MeterProvider):
            provider.force_flush()
