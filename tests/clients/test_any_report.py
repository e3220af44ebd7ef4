"""Any report, through a real uvicorn server to a real client: the call returns, and the handler ran once."""

import asyncio
from collections.abc import Iterator

import aiohttp
import pytest
from hypothesis import given, settings

from gym_failures import limits
from gym_failures.config import Config
from gym_failures.header import decode_report, encode_report
from gym_failures.instrumentation.aiohttp_client import instrument_aiohttp, uninstrument_aiohttp
from gym_failures.instrumentation.asgi import FailureMiddleware
from gym_failures.log import FailureLog, current_log
from gym_failures.recorder import FailureRecorder
from gym_failures.records import FailureBoundary, FailureEvent, FailureReport
from gym_failures.semconv import HEADER_NAME
from gym_failures.testing import Telemetry
from tests.clients.callers import PATIENCE
from tests.servers.serving import Serving
from tests.strategies import failure_reports


class Server:
    """A server that observes whatever it is told to, and fails."""

    def __init__(self, budget: int) -> None:
        self.config = Config(header_budget=budget, header_reasons="full", span_reasons="full", log_lines="never")
        self.app = FailureMiddleware(self.handle, boundary="agent", recorder=FailureRecorder(self.config))
        self.observed: FailureReport = FailureReport()
        self.relayed: list[tuple[bytes, bytes]] = []
        self.calls = 0

    async def handle(self, scope, receive, send):  # noqa: ARG002 - ASGI
        """Observe, and answer that it went wrong."""
        self.calls += 1
        log = current_log()
        for event in self.observed.events.values():
            log.observe_failure(event)
        await send({"type": "http.response.start", "status": 500, "headers": self.relayed})
        await send({"type": "http.response.body", "body": b"no"})


BUDGETS = {"smallest": limits.HEADER_BUDGET_MIN, "default": limits.HEADER_BUDGET, "largest": limits.HEADER_HARD_LIMIT}


@pytest.fixture(scope="module", params=BUDGETS.values(), ids=BUDGETS.keys())
def serving(request: pytest.FixtureRequest) -> Iterator[tuple[Server, str]]:
    """Serve with each budget, watched by our client."""
    server = Server(request.param)
    with Telemetry() as telemetry, Serving(server.app) as serving:
        instrument_aiohttp(boundary="collection", recorder=telemetry.recorder)
        yield server, serving.url
        uninstrument_aiohttp()


def call(server: Server, url: str) -> FailureReport:
    """Call the server, check what holds for every call, and return what the caller knows then."""
    server.calls = 0

    async def get() -> tuple[int, bytes, list[str]]:
        async with aiohttp.ClientSession() as session, session.get(url) as response:
            return response.status, await response.read(), response.headers.getall(HEADER_NAME)

    with FailureLog() as log:
        status, body, (value,) = asyncio.run(asyncio.wait_for(get(), PATIENCE))
    assert (status, body, server.calls) == (500, b"no", 1)
    assert len(value) <= server.config.header_budget
    assert decode_report(value) is not None
    return log.report()


TEXTS = {
    "nothing": "",
    "ASCII": "x" * limits.REASON_LENGTH,
    "CJK": "".join(chr(0x4E00 + (7 * n) % 20_000) for n in range(limits.REASON_LENGTH)),
    "emoji": "".join(chr(0x1F300 + (7 * n) % 700) for n in range(limits.REASON_LENGTH)),
    "control characters": "a\r\nset-cookie: x\0" * 100,
}


def report_of(count: int, reason: str) -> FailureReport:
    """Make a report of `count` failures, each the cause of the next."""
    events = {
        f"e{n}": FailureEvent(
            event_id=f"e{n}",
            failure_kind="provider_unavailable",
            boundary=FailureBoundary.MODEL,
            failure_reason=reason,
            cause_id=f"e{n - 1}" if n else None,
        )
        for n in range(count)
    }
    return FailureReport(events=events, failure_id=f"e{count - 1}")


@pytest.mark.parametrize("reason", TEXTS.values(), ids=TEXTS.keys())
@pytest.mark.parametrize("count", [1, 8, 128, 1_000])
def test_what_a_server_observes(count: int, reason: str, serving: tuple[Server, str]) -> None:
    """However much a server observes, its header fits, and the caller knows the own failure (aiohttp#2304)."""
    server, url = serving
    server.observed, server.relayed = report_of(count, reason), []
    report = call(server, url)
    assert {"agent_run_error"} <= {event.failure_kind for event in report.events.values()}


@pytest.mark.parametrize("reason", TEXTS.values(), ids=TEXTS.keys())
def test_what_a_server_relays(reason: str, serving: tuple[Server, str]) -> None:
    """A report of 10,000 events that the app puts on its reply itself goes on within the budget, as the cause."""
    server, url = serving
    value = encode_report(report_of(10_000, reason), budget=limits.HEADER_HARD_LIMIT)
    server.observed, server.relayed = FailureReport(), [(HEADER_NAME.encode(), value.encode())]
    report = call(server, url)
    (own,) = (event for event in report.events.values() if event.boundary is FailureBoundary.AGENT)
    assert own.cause_id == "e9999"
    assert report.omitted


@settings(max_examples=25)
@given(observed=failure_reports(max_size=12))
def test_what_nobody_thought_of(observed: FailureReport, serving: tuple[Server, str]) -> None:
    """Any report whatsoever goes through."""
    server, url = serving
    server.observed, server.relayed = observed, []
    call(server, url)
