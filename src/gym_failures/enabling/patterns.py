"""Regular expressions that variables give to OpenTelemetry's instrumentations.

Those compile them with the first request, or anew with each, and a request ends with the error where that fails.
"""

import re
from collections.abc import Mapping
from typing import Final

_CAPTURE: Final = "OTEL_INSTRUMENTATION_HTTP_CAPTURE_HEADERS"
_OF_ALL: Final = (f"{_CAPTURE}_SANITIZE_FIELDS", "OTEL_PYTHON_EXCLUDED_URLS")
VARIABLES: Final = {
    "aiohttp_client": (
        *_OF_ALL,
        f"{_CAPTURE}_CLIENT_REQUEST",
        f"{_CAPTURE}_CLIENT_RESPONSE",
        "OTEL_PYTHON_AIOHTTP_CLIENT_EXCLUDED_URLS",
    ),
    "fastapi": (
        *_OF_ALL,
        f"{_CAPTURE}_SERVER_REQUEST",
        f"{_CAPTURE}_SERVER_RESPONSE",
        "OTEL_PYTHON_FASTAPI_EXCLUDED_URLS",
    ),
}
"""The variables that an instrumentation reads patterns from: lists of them, with commas between."""


def unusable(instrumentation: str, environ: Mapping[str, str]) -> str | None:
    """Return the first variable of an instrumentation whose patterns cannot be compiled; None if all can."""
    return next((name for name in VARIABLES[instrumentation] if not _compile(environ.get(name, ""))), None)


def _compile(patterns: str) -> bool:
    """Tell whether patterns can be compiled, all together as the instrumentations do it."""
    try:
        re.compile("|".join(map(str.strip, patterns.split(","))), re.IGNORECASE)
    except Exception:  # noqa: BLE001 - of too large a number or too deep a nesting it is another than `re.error`
        return False
    return True
