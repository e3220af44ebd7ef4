"""Apps put together as a user would: with or without OpenTelemetry, with or without this package, in either order."""

import importlib.util
from typing import Any

from fastapi import FastAPI
from opentelemetry.instrumentation.asgi import OpenTelemetryMiddleware
from opentelemetry.instrumentation.fastapi import FastAPIInstrumentor
from starlette.applications import Starlette

from gym_failures.instrumentation import FailureMiddleware, instrument_app, uninstrument_app
from gym_failures.testing import Telemetry

MODES = ("bare", "first", "last")
"""Without OpenTelemetry, or with it instrumented before or after this package."""

NATIVE = ("native",) if importlib.util.find_spec("fastapi.telemetry") is not None else ()
"""Where this FastAPI traces by itself, a mode of FastAPI apps."""


def assemble(app: Any, mode: str, telemetry: Telemetry | None, provider: Any) -> Any:
    """Return `app` with OpenTelemetry as `mode` says, and with this package where there is `telemetry` for it."""
    if not isinstance(app, Starlette):
        ours = app if telemetry is None else FailureMiddleware(app, boundary="agent", recorder=telemetry.recorder)
        return ours if mode == "bare" else OpenTelemetryMiddleware(ours, tracer_provider=provider)
    if mode == "first":
        trace(app, provider)
    if mode == "native":
        app._telemetry["tracer_provider"] = provider  # What its argument `telemetry` sets.
    if telemetry is not None:
        instrument_app(app, boundary="agent", recorder=telemetry.recorder)
    if mode == "last":
        trace(app, provider)
    return app


def trace(app: Starlette, provider: Any) -> None:
    """Let OpenTelemetry instrument the app."""
    if isinstance(app, FastAPI):
        FastAPIInstrumentor.instrument_app(app, tracer_provider=provider)
    else:
        app.add_middleware(OpenTelemetryMiddleware, tracer_provider=provider)


def dismantle(app: Any) -> None:
    """Take out what reaches beyond the app, such as OpenTelemetry's change to every background task."""
    if isinstance(app, FastAPI) and getattr(app, "_is_instrumented_by_opentelemetry", False):
        FastAPIInstrumentor.uninstrument_app(app)
    if isinstance(app, Starlette):
        uninstrument_app(app)
