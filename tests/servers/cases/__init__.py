"""Apps of every kind that a server meets, each with the request that shows what it does."""

from tests.servers.cases import bare_apps, fastapi_apps, http_apps, middleware_apps, recording_apps, stream_apps
from tests.servers.cases.table import CASES, Case, Seen, plays

__all__ = [
    "CASES",
    "Case",
    "Seen",
    "bare_apps",
    "fastapi_apps",
    "http_apps",
    "middleware_apps",
    "plays",
    "recording_apps",
    "stream_apps",
]
