"""What spans and metrics are exported with, as the variables of OpenTelemetry's SDK say."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.metadata import entry_points
from typing import Any, Final

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from gym_failures.guard import warn_once

_OTLP: Final = {
    "grpc": "otlp_proto_grpc",
    "http/json": "otlp_json_http",
    "http/protobuf": "otlp_proto_http",
}
"""Names of OTLP's exporters by the protocol."""
_DEFAULT_PROTOCOL: Final = "http/protobuf"
"""What the specification recommends (opentelemetry-specification, "OpenTelemetry Protocol Exporter")."""


def chosen(signal: str, environ: Mapping[str, str]) -> list[str] | None:
    """Return the names of the exporters for "traces" or "metrics"; None where no variable names one, or an endpoint."""
    names = environ.get(f"OTEL_{signal.upper()}_EXPORTER", "").strip()
    if names:
        return [name for name in map(str.strip, names.split(",")) if name and name != "none"]
    endpoints = ("OTEL_EXPORTER_OTLP_ENDPOINT", f"OTEL_EXPORTER_OTLP_{signal.upper()}_ENDPOINT")
    return ["otlp"] if any(environ.get(endpoint, "").strip() for endpoint in endpoints) else None


def made(signal: str, names: Sequence[str], environ: Mapping[str, str]) -> Iterator[Any]:
    """Make the exporters of these names; one that is not installed, or cannot be made, is warned about and left out."""
    for name in names:
        known = _protocol(signal, environ) if name == "otlp" else name
        found = [*entry_points(group=f"opentelemetry_{signal}_exporter", name=known)]
        if not found:
            warn_once(
                f"exporter:{name}", "no package with the exporter %s is installed; %s do not go there", known, signal
            )
            continue
        try:
            make: Callable[[], Any] = found[0].load()
            yield make()
        except Exception as error:  # noqa: BLE001 - whatever it is, the program must run on
            warn_once(f"exporter:{name}", "the exporter %s cannot be made (%s)", known, type(error).__qualname__)


def _protocol(signal: str, environ: Mapping[str, str]) -> str:
    variables = (f"OTEL_EXPORTER_OTLP_{signal.upper()}_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
    protocol = next((environ[one].strip() for one in variables if environ.get(one, "").strip()), _DEFAULT_PROTOCOL)
    return _OTLP.get(protocol, protocol)


class Watched(SpanExporter):
    """Passes spans on, and remembers whether whoever takes them has been there."""

    def __init__(self, exporter: SpanExporter) -> None:
        """Pass on to `exporter`."""
        self._exporter: Final = exporter
        self.answered = False
        """Whether the last batch was taken; False before the first."""

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Export these spans."""
        result = self._exporter.export(spans)
        self.answered = result is SpanExportResult.SUCCESS
        return result

    def shutdown(self) -> None:
        """Shut the exporter down."""
        self._exporter.shutdown()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Flush the exporter."""
        return self._exporter.force_flush(timeout_millis)
