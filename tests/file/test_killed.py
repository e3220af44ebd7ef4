"""A server that is killed in the middle of a request: what it had seen is in its log, since its open spans are lost."""

import json
import os
import signal
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import aiohttp
import anyio
import pytest
from opentelemetry import propagate, trace
from opentelemetry.sdk.environment_variables import (
    OTEL_BSP_MAX_QUEUE_SIZE,
    OTEL_BSP_SCHEDULE_DELAY,
    OTEL_METRIC_EXPORT_INTERVAL,
)
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import ConsoleMetricExporter, PeriodicExportingMetricReader
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from gym_failures import semconv
from gym_failures.header import decode_report
from gym_failures.instrumentation.aiohttp_client import instrument_session
from gym_failures.reading import read_files, read_reports
from gym_failures.testing import Telemetry
from tests.file.processes import ATTEMPTS, HOST, ROOT, Gate, running
from tests.servers.serving import ask, request

pytestmark = pytest.mark.timeout(200)  # an interpreter starts on a machine that may be busy


@pytest.fixture
def server(tmp_path):
    """Give a server that writes a line of its log for every failure."""
    serving = ("uvicorn", "tests.file.worker:app", "--port", "0")
    with running(tmp_path, *serving, GYM_FAILURES_LOG_LINES="always") as server:
        yield server


@pytest.fixture
def telemetry():
    """Give the telemetry of the caller, which is this process."""
    with Telemetry() as telemetry:
        yield telemetry


def lines(server):
    """Return the lines of failures in the log of a server."""
    return [json.loads(line) for line in server.log.read_text().splitlines() if line.startswith("{")]


async def call(server, telemetry, path):
    """Call the server as an instrumented caller does, within a span of its own; whatever comes of it is recorded."""
    async with aiohttp.ClientSession() as session:
        instrument_session(session, boundary="collection", recorder=telemetry.recorder)
        with telemetry.span("call", kind=trace.SpanKind.CLIENT), suppress(aiohttp.ClientError):
            headers = {}
            propagate.inject(headers)
            await session.post(f"http://{HOST}:{server.port}{path}", headers=headers)  # aiohttp tries GET twice


def test_a_killed_server_has_left_a_line_of_every_failure(server, telemetry, tmp_path):
    """A killed server's open span is lost; the lines of its failures are not (opentelemetry-specification#373).

    The caller, who got no reply, has a failure of its own.
    """
    with ThreadPoolExecutor() as caller, Gate() as gate:
        called = caller.submit(anyio.run, call, server, telemetry, f"/fail?gate={gate.port}")
        os.kill(gate.arrival(), signal.SIGKILL)
    called.result()
    server.process.wait()

    (file,) = tmp_path.glob("*.jsonl")
    assert read_reports(file) == []
    found = lines(server)
    assert [line[semconv.FAILURE_REASON] for line in found] == [f"attempt {number}" for number in range(ATTEMPTS)]
    (seen,) = telemetry.reports()
    assert {line["trace_id"] for line in found} == {seen.trace_id}
    (own,) = seen.report.events.values()
    assert (own.failure_kind, own.boundary.value) == ("transport_peer_drop", "collection")
    assert own.event_id not in {line[semconv.FAILURE_ID] for line in found}
    (read,) = both = read_files([file, server.log], by="request")
    assert (read.trace_id, read.key, read.failed, both.skips) == (seen.trace_id, found[0]["span_id"], True, 0)
    assert read.report.events.keys() == {line[semconv.FAILURE_ID] for line in found}


def test_spans_that_wait_for_their_batch_are_lost_with_a_killed_server(tmp_path):
    """A server that answered and was killed before its batch was due has left lines and no span."""
    serving = ("uvicorn", "tests.file.worker:app", "--port", "0")
    never = {OTEL_BSP_SCHEDULE_DELAY: "3600000"}
    with running(tmp_path, *serving, GYM_FAILURES_LOG_LINES="always", **never) as server:
        (told,) = ask(server.port, request("POST", "/fail")).values(semconv.HEADER_NAME)
        os.kill(server.process.pid, signal.SIGKILL)
        server.process.wait()

        (file,) = tmp_path.glob("*.jsonl")
        assert read_reports(file) == []
        assert {line[semconv.FAILURE_ID] for line in lines(server)} >= decode_report(told).events.keys()


def test_what_a_killed_server_can_lose_is_what_the_sdk_holds_back():
    """The page on limits names the delays and the queue that the SDK has when nobody sets them."""
    page = (ROOT / "docs" / "explanation" / "limits.md").read_text()
    delay, queued = BatchSpanProcessor._default_schedule_delay_millis(), BatchSpanProcessor._default_max_queue_size()
    reader = PeriodicExportingMetricReader(ConsoleMetricExporter())
    MeterProvider([reader], shutdown_on_exit=False).shutdown()
    interval = reader._export_interval_millis
    assert f"the last {delay / 1000:.0f} seconds (`{OTEL_BSP_SCHEDULE_DELAY}`)" in page
    assert f"{queued:,} at most\n  (`{OTEL_BSP_MAX_QUEUE_SIZE}`)" in page
    assert f"every {interval / 1000:.0f} seconds (`{OTEL_METRIC_EXPORT_INTERVAL}`)" in page


def test_a_failure_has_one_id_wherever_it_is_told(server, tmp_path):
    """Where a failure is in a line, on a span and in a reply, its id is the same, and so is its span."""
    (told,) = ask(server.port, request("POST", "/fail")).values(semconv.HEADER_NAME)
    os.kill(server.process.pid, signal.SIGTERM)
    server.process.wait()

    (file,) = tmp_path.glob("*.jsonl")
    (read,) = read_reports(file, by="request")
    found = lines(server)
    assert {line[semconv.FAILURE_ID] for line in found} == read.report.events.keys()
    assert len(found) == len(read.report.events) == ATTEMPTS + 2
    assert {(line["trace_id"], line["span_id"]) for line in found} == {(read.trace_id, read.span.span_id)}
    assert decode_report(told).failure_id == read.report.failure_id
    (both,) = read_files([file, server.log], by="request")
    assert (both.report, both.services, both.span.name) == (read.report, read.services, read.span.name)
