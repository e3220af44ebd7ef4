"""A receiver of OTLP over HTTP, such as a Collector or Jaeger, that takes spans as JSON."""

import http.client
import json
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from typing import Final
from urllib.parse import unquote, urlsplit

from gym_failures import limits
from gym_failures.reading.sources.urls import names_a_host

_PATH: Final = "/v1/traces"
_DEFAULT: Final = "http://localhost:4318"
_AGAIN: Final = frozenset({429, 502, 503, 504})
"""Statuses after which one asks again (opentelemetry-specification, "OpenTelemetry Protocol Specification")."""


class ReceiverError(Exception):
    """Spans were not taken; the text says by whom and why."""


class Receiver:
    """Where spans are sent."""

    def __init__(self, url: str | None, environ: Mapping[str, str]) -> None:
        """Send to `url`; None sends where the variables of OpenTelemetry say, or to the usual port of this machine.

        Raises ReceiverError for what is no URL.
        """
        whole = environ.get("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "").strip()
        base = url or environ.get("OTEL_EXPORTER_OTLP_ENDPOINT", "").strip() or _DEFAULT
        self.url = whole if whole and url is None else base.rstrip("/").removesuffix(_PATH) + _PATH
        try:
            parts = urlsplit(self.url)
        except ValueError as error:
            raise ReceiverError(f"{self.url.removesuffix(_PATH)} is no URL: {error}") from None
        if "@" in parts.netloc:  # not to be shown
            raise ReceiverError("a URL with a user is not taken; say who you are by OTEL_EXPORTER_OTLP_HEADERS")
        if parts.scheme not in {"http", "https"} or not names_a_host(parts):
            raise ReceiverError(f"{self.url.removesuffix(_PATH)} is no URL like {_DEFAULT}")
        said = environ.get("OTEL_EXPORTER_OTLP_TRACES_HEADERS") or environ.get("OTEL_EXPORTER_OTLP_HEADERS", "")
        pairs = (pair.partition("=") for pair in said.split(",") if "=" in pair)
        self._headers = {name.strip(): unquote(value.strip()) for name, _, value in pairs}

    def send(self, document: Mapping[str, object]) -> None:
        """Send one request, and again for as long as the receiver asks for that; raises ReceiverError."""
        body = json.dumps(document).encode()
        for wait in (*limits.SEND_AGAIN, None):
            try:
                request = urllib.request.Request(  # noqa: S310 - http, made sure of above
                    self.url, body, {**self._headers, "Content-Type": "application/json"}
                )
                with urllib.request.urlopen(request, timeout=limits.SEND_SECONDS) as answer:  # noqa: S310 - as above
                    self._check(answer.read())
                    return
            except urllib.error.HTTPError as error:
                error.close()
                if error.code not in _AGAIN or wait is None:
                    raise ReceiverError(f"{self.url} answered {error.code}") from error
                time.sleep(wait)
            except (OSError, ValueError, http.client.HTTPException) as error:
                raise ReceiverError(f"{self.url} took nothing: {getattr(error, 'reason', error)}") from error

    def _check(self, answer: bytes) -> None:
        """Raise ReceiverError where the answer says that not all was taken."""
        try:
            told = json.loads(answer or b"{}")
        except ValueError:
            return  # It was taken, by something that says so in its own way.
        partly = told.get("partialSuccess") if isinstance(told, dict) else None
        if isinstance(partly, dict) and int(partly.get("rejectedSpans") or 0):
            raise ReceiverError(
                f"{self.url} refused {partly['rejectedSpans']} spans: {partly.get('errorMessage', 'no reason given')}"
            )
