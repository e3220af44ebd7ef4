"""What sends the signals of one process to an OTLP endpoint."""

from collections.abc import Sequence
from typing import Final

from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExportResult


class Sender:
    """Sends over HTTP, in batches, and remembers whether all spans were taken."""

    def __init__(self, endpoint: str) -> None:
        """Send to the endpoint of this base."""
        self._exporter = _Exporter(endpoint=f"{endpoint}/v1/traces")
        self.spans: Final = BatchSpanProcessor(self._exporter)
        """Hands over the spans."""
        self.metrics: Final = PeriodicExportingMetricReader(OTLPMetricExporter(endpoint=f"{endpoint}/v1/metrics"))
        """Hands over the metrics."""

    @property
    def all_were_taken(self) -> bool:
        """Whether the endpoint has taken every batch of spans so far. Metrics do not matter: Jaeger takes none."""
        return self._exporter.refused == 0


class _Exporter(OTLPSpanExporter):
    refused = 0

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        result = super().export(spans)
        self.refused += result is not SpanExportResult.SUCCESS
        return result
