"""Whether there is anything to send to."""

import os
import urllib.error
import urllib.request
from typing import Final
from urllib.parse import urlsplit

from opentelemetry.util.re import parse_env_headers

from gym_failures.demo import DemoError

_PATIENCE: Final = 5.0
"""How long an endpoint may take to answer, in seconds."""


def check_endpoint(url: str) -> str:
    """Return the base of the OTLP endpoint at `url`, after it has taken an empty request; raises DemoError otherwise.

    Exporters report what they cannot send in the logs of their processes, where nobody would look for it.
    """
    base = url.rstrip("/")
    if urlsplit(base).scheme not in {"http", "https"}:
        raise DemoError(f"{url} is no URL of an OTLP endpoint, such as http://localhost:4318")
    headers = parse_env_headers(os.environ.get("OTEL_EXPORTER_OTLP_HEADERS", ""), liberal=True)
    request = urllib.request.Request(  # noqa: S310 - its scheme is checked
        f"{base}/v1/traces", b'{"resourceSpans":[]}', {**headers, "content-type": "application/json"}
    )
    try:
        with urllib.request.urlopen(request, timeout=_PATIENCE):  # noqa: S310 - as above
            return base
    except urllib.error.HTTPError as error:
        raise DemoError(f"{request.full_url} answers {error.code}: it takes no traces") from None
    except OSError as error:
        raise DemoError(f"nothing to send to at {request.full_url}: {getattr(error, 'reason', error)}") from None
