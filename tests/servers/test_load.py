"""Many requests in flight at once: each has its own log, and nobody else's."""

import asyncio
import resource

import pytest
from fastapi import FastAPI

from gym_failures.errors import FailureError
from gym_failures.header import decode_report
from gym_failures.recording import record_failure
from gym_failures.semconv import HEADER_NAME, METRIC_FAILURES, METRIC_REQUESTS_FAILED
from tests.servers.assembling import assemble, dismantle
from tests.servers.serving import HOST, PATIENCE, parse, request

IN_FLIGHT = 500
ENDINGS = ("well", "raised", "recovered", "recovered in a thread")
"""How requests end: every fifth fails, in one of these ways after the other."""


def ending(number):
    """Return how the request of that number ends."""
    return ENDINGS[0] if number % 5 else ENDINGS[1 + number // 5 % 3]


def holding_app():
    """Return an app that answers nobody until all are there."""
    app = FastAPI()
    all_are_there = asyncio.Barrier(IN_FLIGHT)

    @app.get("/{number}")
    async def handle(number: int):
        await all_are_there.wait()
        error = FailureError("verifier_error", boundary="agent", reason=f"request {number}")
        match ending(number):
            case "raised":
                raise error
            case "recovered":
                record_failure(error)
                await asyncio.sleep(0)
            case "recovered in a thread":
                await asyncio.to_thread(record_failure, error)
        return number

    return app


@pytest.fixture
def descriptors():
    """Allow this process both ends of every connection."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = 2 * IN_FLIGHT + 500
    if soft != resource.RLIM_INFINITY:
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, needed), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def ask_all(port):
    """Send all requests, each on a connection of its own, and return the replies in their order."""

    async def ask(number):
        reader, writer = await asyncio.open_connection(HOST, port)
        writer.write(request(path=f"/{number}"))
        received = await reader.read()
        writer.close()
        await writer.wait_closed()
        return parse(received)

    async with asyncio.timeout(PATIENCE):
        return await asyncio.gather(*(ask(number) for number in range(IN_FLIGHT)))


@pytest.mark.usefixtures("descriptors")
def test_nothing_crosses(server, telemetry):
    """With every request in flight at the same time, each reply has its own request's failure or none at all."""
    app = assemble(holding_app(), "last", telemetry, telemetry.tracer_provider)
    server.switch.serve(app)
    try:
        replies = asyncio.run(ask_all(server.serving.port))
        for _ in replies:
            server.switch.left()
    finally:
        dismantle(app)

    own_ids = set()
    for number, reply in enumerate(replies):
        how = ending(number)
        assert reply.status == (500 if how == "raised" else 200)
        values = reply.values(HEADER_NAME)
        assert len(values) == (how != "well")
        if values:
            report = decode_report(values[0])
            assert [event.failure_reason for event in report.events.values()] == [f"request {number}"]
            own_ids |= {report.failure_id} - {None}
            assert (report.failure_id is not None) == (how == "raised")

    failing = [ending(number) for number in range(IN_FLIGHT)]
    assert telemetry.count(METRIC_FAILURES) == IN_FLIGHT - failing.count("well")
    assert telemetry.count(METRIC_REQUESTS_FAILED) == len(own_ids) == failing.count("raised")
    rebuilt = [one.report.failure_id for one in telemetry.reports(by="request")]
    assert {failure_id for failure_id in rebuilt if failure_id is not None} == own_ids
