"""The server's side of HTTP: failures of a request into its log, and the log into the reply.

`FailureMiddleware` wraps any ASGI app, and needs no extra; `instrument_app` puts it into a Starlette or FastAPI app.
"""

from gym_failures.instrumentation.asgi.apps import (
    instrument_all_apps,
    instrument_app,
    is_instrumented,
    leave_app_alone,
    uninstrument_all_apps,
    uninstrument_app,
)
from gym_failures.instrumentation.asgi.middleware import FailureMiddleware

__all__ = [
    "FailureMiddleware",
    "instrument_all_apps",
    "instrument_app",
    "is_instrumented",
    "leave_app_alone",
    "uninstrument_all_apps",
    "uninstrument_app",
]
