"""What is installed, and what that is enough for."""

import platform
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import Final

from gym_failures import __version__
from gym_failures.cli.checkup.finding import Finding, ok, problem, warning

_NEEDED: Final = (
    ("opentelemetry.sdk", "sdk", "no process makes spans or counts failures"),
    ("opentelemetry.instrumentation.fastapi", "gym", "servers make no spans of their requests"),
    (
        "opentelemetry.instrumentation.aiohttp_client",
        "gym",
        "calls do not carry a trace on to the next server",
    ),
    ("wrapt", "instrument", "nothing can be instrumented without a change of code"),
)
"""A module, the extra that brings it, and what is so without it."""


def packages() -> Iterator[Finding]:
    """Yield which versions there are, and what is missing."""
    sdk = _version("opentelemetry-sdk")
    versions = [f"gym-failures {__version__}", f"Python {platform.python_version()}"]
    versions += [f"opentelemetry-sdk {sdk}"] if sdk else []
    yield ok("versions", ", ".join(versions))
    for module, extra, without in _NEEDED:
        if not is_there(module):
            finding = problem if extra == "sdk" else warning
            yield finding(module, f"is not installed: {without}", f"pip install 'gym-failures[{extra}]'")


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def is_there(module: str) -> bool:
    """Tell whether a module is installed, without importing it; packages that it is in are imported."""
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # so is what it is in
        return False
