"""What every test shares: the Hypothesis profiles and the event loop that async tests run on."""

import os

import pytest
from hypothesis import HealthCheck, settings

# No verdict may hang on how busy the machine is: no deadline, and slow generation is no failure.
_TIMELESS = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("dev", _TIMELESS)
# A red gate must be the change's doing, so the gate draws the same examples each time; developing draws new ones.
settings.register_profile("ci", _TIMELESS, derandomize=True, print_blob=True)
settings.load_profile("ci" if os.environ.get("CI") else "dev")


@pytest.fixture
def anyio_backend() -> str:
    """Run async tests on asyncio, the only loop that the servers of NeMo Gym use."""
    return "asyncio"
