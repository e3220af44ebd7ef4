"""What a user sees who imports something public without the extra that brings what it needs."""

import subprocess
import sys
from importlib.util import find_spec

import pytest

IMPORTS = {
    "the instrumentor": ("instrumentation", "GymFailuresInstrumentor", "instrument", ["opentelemetry.instrumentation"]),
    "aiohttp's instrumentation": ("instrumentation", "instrument_aiohttp", "aiohttp", ["aiohttp"]),
    "httpx's instrumentation": ("instrumentation", "instrument_httpx", "httpx", ["httpx", "httpx2"]),
    "the kit for tests": ("testing", "Telemetry", "sdk", ["opentelemetry.sdk"]),
}
if find_spec("deprecated") is None:  # Older versions of OpenTelemetry's API need it, and it needs wrapt.
    IMPORTS["the instrumentor, without wrapt"] = (*IMPORTS["the instrumentor"][:3], ["wrapt"])


@pytest.mark.parametrize(("module", "name", "extra", "missing"), IMPORTS.values(), ids=IMPORTS)
def test_the_extra_is_named(module, name, extra, missing):
    """What cannot be had without an extra says which one to install, and is an ImportError all the same."""
    code = f"""
import sys
sys.modules |= dict.fromkeys({missing!r})
try:
    from gym_failures.{module} import {name}
    {name}()
except ImportError as error:
    print(type(error).__name__, error.extra, error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.startswith(f"MissingExtraError {extra} ")
    assert done.stdout.endswith(f"which is not installed: pip install 'gym-failures[{extra}]'\n")
