"""Whether what spans and counts are sent with is installed; light, because `run` asks it before every command."""

from collections.abc import Iterator, Mapping
from typing import Final

from gym_failures.cli.checkup.finding import Finding, problem
from gym_failures.enabling.exporters import chosen, exporter_name, installed

PORTS: Final = {"http": 4318, "grpc": 4317}
"""The usual port of each protocol (opentelemetry-specification, "OpenTelemetry Protocol Exporter")."""

SIGNALS: Final = {"traces": "spans", "metrics": "counts"}
"""OpenTelemetry's signals, and what of ours each carries."""


def missing_exporters(environ: Mapping[str, str]) -> Iterator[Finding]:
    """Yield which of the exporters that the variables choose are not installed, so that what is for them is lost."""
    for signal in SIGNALS:
        for name in chosen(signal, environ) or ():
            missing = missing_exporter(signal, name, environ)
            if missing is not None:
                yield missing


def missing_exporter(signal: str, name: str, environ: Mapping[str, str]) -> Finding | None:
    """Return what there is to say of an exporter that is not installed; None of one that is."""
    known = exporter_name(name, signal, environ)
    if installed(known, signal):
        return None
    says = f"the exporter {known} is not installed: {SIGNALS[signal]} do not go there"
    return problem(f"OTEL_{signal.upper()}_EXPORTER", says, _package(known))


def _package(exporter: str) -> str:
    if exporter == "otlp_json_file":
        return "pip install 'gym-failures[file]'"
    if exporter == "otlp_proto_http":
        return "pip install 'gym-failures[otlp]'"
    if exporter == "otlp_proto_grpc":
        return f"pip install opentelemetry-exporter-otlp-proto-grpc, or send OTLP over HTTP, to port {PORTS['http']}"
    return f"install the package that brings {exporter}, such as opentelemetry-exporter-{exporter.replace('_', '-')}"
