"""Where spans and counts go, and whether anybody takes them there."""

import http.client
import os
import socket
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from http import HTTPStatus
from pathlib import Path
from urllib.parse import urlsplit

from gym_failures import limits
from gym_failures.cli.checkup.exporting import PORTS, SIGNALS, missing_exporter
from gym_failures.cli.checkup.finding import Finding, ok, problem, warning
from gym_failures.config import Config, ConfigError
from gym_failures.enabling.exporters import chosen, exporter_name


def destinations(environ: Mapping[str, str]) -> Iterator[Finding]:
    """Yield where each signal goes, what of that is not installed, and which receivers do not answer."""
    listens: dict[tuple[str, int], bool] = {}
    for signal, what in SIGNALS.items():
        names = chosen(signal, environ)
        if names is None:
            yield from _nowhere(signal, environ)
            continue
        if not names:
            finding = problem if signal == "traces" else warning
            yield finding(f"OTEL_{signal.upper()}_EXPORTER", f"is none: {what} go nowhere", "set it to otlp")
        for name in names:
            missing = missing_exporter(signal, name, environ)
            if missing is not None:
                yield missing
            elif name.startswith("otlp") and "file" not in name:
                yield from _receiver(signal, environ, listens)
            else:
                yield ok(f"OTEL_{signal.upper()}_EXPORTER", f"{what} go to {name}")


def _nowhere(signal: str, environ: Mapping[str, str]) -> Iterator[Finding]:
    if signal == "metrics":
        yield warning(
            "OTEL_METRICS_EXPORTER",
            "nothing says where counts go: there is no metric by failure_kind",
            "set OTEL_EXPORTER_OTLP_ENDPOINT to a Collector, or count stored spans with `gym-failures count`",
        )
        return
    try:
        folder = Path(Config.from_env(environ).traces)
    except ConfigError:
        return  # told of as a setting
    nearest = next(one for one in (folder.absolute(), *folder.absolute().parents) if one.exists())
    if os.access(nearest, os.W_OK) and nearest.is_dir():
        yield ok("OTEL_TRACES_EXPORTER", f"nothing says where spans go: `gym-failures run` writes them to {folder}")
    else:
        yield problem(
            str(folder), "spans would be written there, and cannot be", "set GYM_FAILURES_TRACES to a folder of yours"
        )


def _receiver(signal: str, environ: Mapping[str, str], listens: dict[tuple[str, int], bool]) -> Iterator[Finding]:
    protocol = "grpc" if exporter_name("otlp", signal, environ).endswith("grpc") else "http"
    variables = (f"OTEL_EXPORTER_OTLP_{signal.upper()}_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
    variable = next((one for one in variables if environ.get(one, "").strip()), variables[1])
    url = environ.get(variable, "").strip() or f"http://localhost:{PORTS[protocol]}"
    place = _place(url, protocol)
    if place is None:
        yield problem(variable, "is no URL", f"set it to one like http://localhost:{PORTS[protocol]}")
        return
    host, port = place
    other = {"http": "grpc", "grpc": "http"}[protocol]
    if port == PORTS[other]:
        yield warning(
            variable,
            f"has port {port}, which usually takes OTLP over {other}, and this speaks {protocol}",
            f"use port {PORTS[protocol]}, or set OTEL_EXPORTER_OTLP_PROTOCOL",
        )
    if place not in listens:
        try:
            with socket.create_connection(place, timeout=limits.DOCTOR_SECONDS):
                yield ok(variable, f"somebody listens at {host} port {port}")
            listens[place] = True
        except OSError as error:
            why = error.strerror or str(error)
            yield problem(
                variable, f"nobody can be reached at {host} port {port}: {why}", "start a Collector or Jaeger there"
            )
            listens[place] = False
    if protocol == "http" and listens[place]:
        whole = url if signal.upper() in variable else f"{url.rstrip('/')}/v1/{signal}"
        if _answer(whole) == HTTPStatus.NOT_FOUND:
            yield _refused(signal, whole)


def _refused(signal: str, url: str) -> Finding:
    if signal == "metrics":
        fix = "set OTEL_METRICS_EXPORTER=none, as for a Jaeger alone, or name a Collector"
        return warning("OTEL_METRICS_EXPORTER", f"counts are not taken at {url}", fix)
    return problem("OTEL_TRACES_EXPORTER", f"spans are not taken at {url}", "name what takes OTLP over HTTP")


def _answer(url: str) -> int | None:
    """Return the status with which a request to take nothing is answered; None where there is no answer."""
    request = urllib.request.Request(url, b"", {"Content-Type": "application/x-protobuf"})  # noqa: S310 - http
    try:
        with urllib.request.urlopen(request, timeout=limits.DOCTOR_SECONDS) as answer:  # noqa: S310 - as above
            return int(answer.status)
    except urllib.error.HTTPError as error:
        error.close()
        return error.code
    except (OSError, ValueError, http.client.HTTPException):
        return None


def _place(url: str, protocol: str) -> tuple[str, int] | None:
    """Return the host and the port of an endpoint; None for what is none."""
    try:
        parts = urlsplit(url if "//" in url else f"//{url}")
        port = parts.port or {"http": 80, "https": 443}.get(parts.scheme, PORTS[protocol])
    except ValueError:
        return None
    if not parts.hostname or (protocol == "http" and parts.scheme not in {"http", "https"}):
        return None
    return parts.hostname, port
