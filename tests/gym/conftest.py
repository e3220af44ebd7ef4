"""Runs of the bed that the tests share, and what is missing where there is no NeMo Gym."""

import pytest

from gym_venv import WITH_US, WITHOUT_US, MissingEnvironmentError
from tests.conftest import give_time, go_without
from tests.gym.bed.run import run, run_traced

WAITING_AFTER = 2
"""Age at which a request that hangs is told of, in seconds; the bed gives its episodes not much longer."""


def pytest_collection_modifyitems(items):
    """Give each of these tests the time that a run of the bed needs."""
    give_time(items, "gym", 600)


@pytest.fixture(scope="session", autouse=True)
def environment():
    """Refuse to pass over a missing NeMo Gym in the gate; elsewhere say what is missing and skip."""
    try:
        for needed in (WITH_US, WITHOUT_US):
            needed.python  # noqa: B018 - raises where it is missing
    except MissingEnvironmentError as missing:
        go_without(str(missing))


@pytest.fixture(scope="session")
def plain(tmp_path_factory):
    """Give a run of the bed as NeMo Gym is without this package."""
    return run(tmp_path_factory.mktemp("plain"))


@pytest.fixture(scope="session")
def traced(tmp_path_factory):
    """Give a run of the bed under `gym-failures run`, which sends its metrics to the tests and keeps its spans."""
    return run_traced(tmp_path_factory.mktemp("traced"), GYM_FAILURES_WAITING_AFTER=str(WAITING_AFTER))
