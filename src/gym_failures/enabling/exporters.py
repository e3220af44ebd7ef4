"""What spans and metrics are exported with, as the variables of OpenTelemetry's SDK say."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from gym_failures.guard import warn_once

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

_OTLP: Final = {
    "grpc": "otlp_proto_grpc",
    "http/json": "otlp_json_http",
    "http/protobuf": "otlp_proto_http",
}
"""Names of OTLP's exporters by the protocol."""
_GRPC_PORT: Final = 4317
"""Where OTLP over gRPC is received (opentelemetry-specification, "OTLP/gRPC Default Port"). Whoever names it and says
nothing of the protocol means this one, Python's default for long; elsewhere it is the one that is recommended."""

_PORTS: Final = {"http": 80, "https": 443}
"""Ports of endpoints that name none."""


def chosen(signal: str, environ: Mapping[str, str]) -> list[str] | None:
    """Return the names of the exporters for "traces" or "metrics"; None where no variable names one, or an endpoint."""
    names = environ.get(f"OTEL_{signal.upper()}_EXPORTER", "").strip()
    if names:
        return [name for name in map(str.strip, names.split(",")) if name and name != "none"]
    endpoints = ("OTEL_EXPORTER_OTLP_ENDPOINT", f"OTEL_EXPORTER_OTLP_{signal.upper()}_ENDPOINT")
    return ["otlp"] if any(environ.get(endpoint, "").strip() for endpoint in endpoints) else None


def made(signal: str, names: Iterable[str], environ: Mapping[str, str]) -> Iterator[Any]:
    """Make the exporters of these names; one that is not installed, or cannot be made, is warned about and left out."""
    for name in names:
        known = exporter_name(name, signal, environ)
        exporter = installed(known, signal)
        if exporter is None:
            warn_once(
                f"exporter:{name}", "no package with the exporter %s is installed; %s do not go there", known, signal
            )
            continue
        try:
            make: Callable[[], Any] = exporter.load()
            yield make()
        except Exception as error:  # noqa: BLE001 - whatever it is, the program must run on
            warn_once(f"exporter:{name}", "the exporter %s cannot be made (%s)", known, type(error).__qualname__)


def installed(name: str, signal: str) -> "EntryPoint | None":
    """Return the exporter that is installed under a name; None if there is none."""
    from importlib.metadata import entry_points  # noqa: PLC0415 - who exports nothing does without

    return next(iter(entry_points(group=f"opentelemetry_{signal}_exporter", name=name)), None)


def exporter_name(name: str, signal: str, environ: Mapping[str, str]) -> str:
    """Return the name that an exporter is installed under: OTLP has one for each protocol."""
    return _protocol(signal, environ) if name == "otlp" else name


def delay(variable: str, otherwise: float, environ: Mapping[str, str]) -> float | None:
    """Return how long the SDK is to wait before it sends; None where a variable says it, which the SDK reads itself."""
    return None if environ.get(variable, "").strip() else otherwise


def receivers(environ: Mapping[str, str]) -> set[tuple[str, int]]:
    """Return the hosts and ports of the endpoints that are named; what is none is left to the exporters."""
    return {found for signal in ("", "TRACES_", "METRICS_") if (found := _receiver(signal, environ))}


def _receiver(signal: str, environ: Mapping[str, str]) -> tuple[str, int] | None:
    endpoint = environ.get(f"OTEL_EXPORTER_OTLP_{signal}ENDPOINT", "").strip()
    with suppress(ValueError):
        url = urlsplit(endpoint if "//" in endpoint else f"//{endpoint}")  # for gRPC a host and a port are enough
        port = url.port or _PORTS.get(url.scheme)
        if url.hostname and port:
            return url.hostname, port
    return None


def _protocol(signal: str, environ: Mapping[str, str]) -> str:
    kinds = (f"{signal.upper()}_", "")
    given = [environ.get(f"OTEL_EXPORTER_OTLP_{kind}PROTOCOL", "").strip() for kind in kinds]
    ports = [receiver[1] for kind in kinds if (receiver := _receiver(kind, environ)) is not None]
    protocol = given[0] or given[1] or ("grpc" if ports[:1] == [_GRPC_PORT] else "http/protobuf")
    return _OTLP.get(protocol, protocol)
