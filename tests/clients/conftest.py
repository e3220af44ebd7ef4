"""Telemetry in memory for the tests of this folder."""

from collections.abc import Iterator

import pytest

from gym_failures.testing import Telemetry


@pytest.fixture
def telemetry() -> Iterator[Telemetry]:
    """Give spans and metrics in memory, fixed ids and a stepping clock; internal errors are raised."""
    with Telemetry() as telemetry:
        yield telemetry
