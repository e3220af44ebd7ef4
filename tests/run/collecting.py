"""What takes OTLP over HTTP in place of a Collector, and keeps it."""

from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.answering import answering


class Taken:
    """What has been sent."""

    def __init__(self) -> None:
        self.spans: list[str] = []
        """Names of spans."""
        self.metrics: set[str] = set()
        """Names of metrics."""
        self.endpoint = ""

    def take(self, path: str, body: bytes) -> None:
        """Keep the names in what has come."""
        if path == "/v1/traces":
            for part in ExportTraceServiceRequest.FromString(body).resource_spans:
                self.spans.extend(span.name for scope in part.scope_spans for span in scope.spans)
        elif path == "/v1/metrics":
            for part in ExportMetricsServiceRequest.FromString(body).resource_metrics:
                self.metrics.update(metric.name for scope in part.scope_metrics for metric in scope.metrics)


@contextmanager
def collecting() -> Iterator[Taken]:
    """Take what comes until the block ends."""
    taken = Taken()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            taken.take(self.path, self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

    with answering(Handler) as taken.endpoint:
        yield taken
