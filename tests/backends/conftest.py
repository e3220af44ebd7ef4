"""The running programs that the tests share, and waiting for what they are to show."""

import time

import pytest

from backends.programs import PROGRAMS, MissingProgramError
from backends.stack import Collector, Jaeger, Prometheus
from tests.conftest import give_time, go_without

ARRIVES_WITHIN = 45.0
"""Longest time in which a span or a count reaches the end of its way, in seconds; ours, ten times what is seen."""


def pytest_collection_modifyitems(items):
    """Give each of these tests the time that it needs."""
    give_time(items, "backends", 180)


@pytest.fixture(scope="session", autouse=True)
def programs():
    """Refuse to pass over a missing program in the gate; elsewhere say what is missing and skip."""
    for program in PROGRAMS:
        try:
            program.find()
        except MissingProgramError as missing:
            go_without(str(missing))


@pytest.fixture(scope="session")
def prometheus(tmp_path_factory):
    """Run one Prometheus for all tests; services have names of their own in each."""
    with Prometheus(tmp_path_factory.mktemp("prometheus")) as running:
        yield running


@pytest.fixture(scope="session")
def jaeger(tmp_path_factory, prometheus):
    """Run one Jaeger on disk, as it is shipped."""
    with Jaeger(tmp_path_factory.mktemp("jaeger"), prometheus=prometheus) as running:
        yield running


@pytest.fixture(scope="session")
def gateway(tmp_path_factory, jaeger, prometheus):
    """Run one gateway that keeps a quarter of the healthy traces."""
    with Collector(
        "gateway.yaml",
        tmp_path_factory.mktemp("gateway"),
        to={"JAEGER": jaeger.grpc, "PROMETHEUS": prometheus.write_url},
        settings={"KEEP_PERCENT": "25"},
    ) as running:
        yield running


@pytest.fixture(scope="session")
def agent(tmp_path_factory, gateway):
    """Run one agent in front of the gateway."""
    with Collector("agent.yaml", tmp_path_factory.mktemp("agent"), to={"GATEWAY": gateway.grpc}) as running:
        yield running


@pytest.fixture(scope="session")
def eventually():
    """Give a function that asks until the answer is the expected one, and shows the last answer when it never is."""

    def ask(question, expected, *, within=ARRIVES_WITHIN):
        deadline = time.monotonic() + within
        while (answer := question()) != expected and time.monotonic() < deadline:
            time.sleep(0.2)
        assert answer == expected
        return answer

    return ask
