"""What every test shares: the Hypothesis profiles, the event loop of async tests, and that the gate skips nothing."""

import itertools
import os
import signal
from collections.abc import Iterable, Iterator
from typing import NoReturn

import pytest
from hypothesis import HealthCheck, settings

from gym_failures.ids import id_source

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as in a shell's background, and in all that is started there
    signal.signal(signal.SIGINT, signal.default_int_handler)

IN_THE_GATE = bool(os.environ.get("CI"))

# No verdict may hang on how busy the machine is: no deadline, and slow generation is no failure.
_TIMELESS = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("dev", _TIMELESS)
# A red gate must be the change's doing, so the gate draws the same examples each time; developing draws new ones.
settings.register_profile("ci", _TIMELESS, derandomize=True, print_blob=True)
settings.load_profile("ci" if IN_THE_GATE else "dev")


def go_without(message: str) -> NoReturn:
    """Refuse to pass over a missing program in the gate; elsewhere say what is missing, and skip."""
    if IN_THE_GATE:
        pytest.fail(message)
    pytest.skip(message)


def give_time(items: Iterable[pytest.Item], folder: str, seconds: int) -> None:
    """Give each test in a folder the time that real programs need on a busy machine, unless it has its own."""
    for item in items:
        if item.path.parent.name == folder and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(seconds))


@pytest.fixture
def anyio_backend() -> str:
    """Run async tests on asyncio, the only loop that the servers of NeMo Gym use."""
    return "asyncio"


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail a run of the gate that skipped a test: what is missing there is a fault, not an excuse."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if IN_THE_GATE and reporter and reporter.stats.get("skipped"):
        reporter.write_line("\nskipped tests fail the gate (CI is set)", red=True)
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.fixture
def counted_ids() -> Iterator[None]:
    """Number the ids that are made, from e1."""
    with id_source(map("e{}".format, itertools.count(1)).__next__):
        yield
