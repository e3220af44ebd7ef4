"""Failures of servers and clients, recorded and carried along without their doing anything.

Each name brings in its own module at its first use: a server needs no client's library, nor a client a server's.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gym_failures.instrumentation.aiohttp_client import (
        instrument_aiohttp,
        instrument_session,
        uninstrument_aiohttp,
    )
    from gym_failures.instrumentation.asgi import FailureMiddleware, instrument_app, uninstrument_app
    from gym_failures.instrumentation.httpx import instrument_httpx, uninstrument_httpx
    from gym_failures.instrumentation.instrumentor import GymFailuresInstrumentor
    from gym_failures.replies import raise_for_failure
else:  # Out of a type checker's sight: a module-level __getattr__ would make every misspelt name look right to it.
    from importlib import import_module

    _HOME = {
        "FailureMiddleware": "gym_failures.instrumentation.asgi",
        "GymFailuresInstrumentor": "gym_failures.instrumentation.instrumentor",
        "instrument_aiohttp": "gym_failures.instrumentation.aiohttp_client",
        "instrument_app": "gym_failures.instrumentation.asgi",
        "instrument_httpx": "gym_failures.instrumentation.httpx",
        "instrument_session": "gym_failures.instrumentation.aiohttp_client",
        "raise_for_failure": "gym_failures.replies",
        "uninstrument_aiohttp": "gym_failures.instrumentation.aiohttp_client",
        "uninstrument_app": "gym_failures.instrumentation.asgi",
        "uninstrument_httpx": "gym_failures.instrumentation.httpx",
    }

    def __getattr__(name: str) -> object:
        """Import `name` from its module and keep it here; an AttributeError says that there is no such name."""
        if name not in _HOME:
            message = f"module {__name__!r} has no attribute {name!r}"
            raise AttributeError(message)
        value = globals()[name] = getattr(import_module(_HOME[name]), name)
        return value

    def __dir__() -> list[str]:
        """List the public names, those not yet imported too."""
        return sorted({*globals(), *_HOME})


__all__ = [
    "FailureMiddleware",
    "GymFailuresInstrumentor",
    "instrument_aiohttp",
    "instrument_app",
    "instrument_httpx",
    "instrument_session",
    "raise_for_failure",
    "uninstrument_aiohttp",
    "uninstrument_app",
    "uninstrument_httpx",
]
