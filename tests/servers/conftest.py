"""Telemetry in memory, and one server for the tests of this folder."""

from collections.abc import Iterator

import pytest

from gym_failures.testing import Telemetry
from tests.servers.serving import Serving, Switch


@pytest.fixture
def telemetry(monkeypatch: pytest.MonkeyPatch) -> Iterator[Telemetry]:
    """Give spans and metrics in memory, fixed ids and a stepping clock; internal errors are raised."""
    monkeypatch.setenv("OTEL_SERVICE_NAME", "test")  # Where nothing is traced, only the environment names the service.
    with Telemetry() as telemetry:
        yield telemetry


class Server:
    """A server whose app can be changed from one request to the next."""

    def __init__(self) -> None:
        self.switch = Switch()
        self.serving = Serving(self.switch, lifespan="off")


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """Give one server to all tests; they take turns."""
    server = Server()
    with server.serving:
        yield server
