"""16,000 requests in flight against one server, of which one in twenty fails; no report may reach another request.

The server is a uvicorn process of its own, with a FastAPI app that OpenTelemetry instruments. It holds every request
until all have arrived, and then lets them go at once. Each that fails has a reason of its own, and so has each failure
that a request observes and survives. Beside it, in the same run, the same server without this package: the difference
in resident memory is what one request in flight costs. Exits with status 1 when a reply carries anything but its own
failures, when the counters say something else, or when the memory is over the budget.
"""

import asyncio
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

from load_server import BACKLOG, HOST, KIND, ONE_IN, allow_descriptors

from gym_failures import semconv
from gym_failures.header import decode_report

REQUESTS: Final = 16_000
BUDGET_BYTES: Final = 2_048
"""Most memory of ours, a request in flight."""
WARM_UP: Final = 400
SERVER: Final = Path(__file__).with_name("load_server.py")
SIDES: Final = ("without", "with")


def main() -> int:
    """Print the table; return 1 when a reply is wrong or the budget does not hold."""
    allow_descriptors()
    runs = {side: asyncio.run(load(side)) for side in SIDES}
    print(f"{REQUESTS:,} in flight{'':<10}" + "".join(f"{side:>12}" for side in SIDES))
    for name in ("bytes a request in flight", "replies", "status 500", "with a report", "crossed or wrong", "counted"):
        print(f"{name:<26}" + "".join(f"{runs[side].row(name):>12,}" for side in SIDES))
    share = runs["with"].bytes_each - runs["without"].bytes_each
    failing = REQUESTS // ONE_IN
    checks = {
        "every failing request has its own report": runs["with"].reports == failing,
        "no reply carries another request's failure": not any(run.wrong for run in runs.values()),
        "every failure is counted once": runs["with"].counted == failing,
        "replies are the same on both sides": runs["with"].statuses == runs["without"].statuses,
        f"ours a request: {share:,} bytes, at most {BUDGET_BYTES:,}": share <= BUDGET_BYTES,
    }
    for name, holds in checks.items():
        print(f"{name:<50}{'holds' if holds else 'MISSED'}")
    return 0 if all(checks.values()) else 1


class Run(NamedTuple):
    """What one server did."""

    bytes_each: int
    """Resident memory that one request in flight takes."""
    statuses: Counter[int]
    reports: int
    wrong: int
    """Replies with anything but their own failure."""
    counted: int

    def row(self, name: str) -> int:
        """Return the number that the table shows under `name`."""
        return {
            "bytes a request in flight": self.bytes_each,
            "replies": self.statuses.total(),
            "status 500": self.statuses[500],
            "with a report": self.reports,
            "crossed or wrong": self.wrong,
            "counted": self.counted,
        }[name]


class Exchange(asyncio.Protocol):
    """One request on a connection of its own, and all that comes back."""

    def __init__(self, path: str) -> None:
        self._request = f"GET {path} HTTP/1.1\r\nhost: {HOST}\r\nconnection: close\r\n\r\n".encode()
        self._received = b""
        self.reply: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send the request."""
        transport.write(self._request)  # type: ignore[attr-defined]

    def data_received(self, data: bytes) -> None:
        """Keep a part of the reply."""
        self._received += data

    def connection_lost(self, exc: Exception | None) -> None:
        """Give the reply, which ends with the connection."""
        if exc is None:
            self.reply.set_result(self._received)
        else:
            self.reply.set_exception(exc)


async def load(side: str) -> Run:
    """Hold all requests in a new server, let them go, and look at every reply."""
    with served(side) as port:
        await held(port, range(1, WARM_UP + 1))
        before = json.loads(body_of(await ask(port, "/state/0")))
        full, replies = await held(port, range(1, REQUESTS + 1))
        after = json.loads(body_of(await ask(port, "/state/0")))
    checked = [verdict(number, reply, ours=side == "with") for number, reply in enumerate(replies, 1)]
    return Run(
        bytes_each=(full["memory"] - before["memory"]) // REQUESTS,
        statuses=Counter(status_of(reply) for reply in replies),
        reports=sum(report for report, _ in checked),
        wrong=sum(not right for _, right in checked),
        counted=after["counted"] - before["counted"],
    )


async def held(port: int, numbers: range) -> tuple[dict[str, int], list[bytes]]:
    """Return how the server stands with all those requests in flight, and then their replies."""
    connecting = asyncio.Semaphore(BACKLOG)  # More at a time could be refused.

    async def begin(number: int) -> asyncio.Future[bytes]:
        async with connecting:
            return await connect(port, f"/held/{number}")

    replies = await asyncio.gather(*(begin(number) for number in numbers))
    state = json.loads(body_of(await ask(port, f"/state/{len(numbers)}")))
    await ask(port, "/release")
    return state, await asyncio.gather(*replies)


async def connect(port: int, path: str) -> asyncio.Future[bytes]:
    """Send a request, and return what will be its reply."""
    loop = asyncio.get_running_loop()
    _, exchange = await loop.create_connection(lambda: Exchange(path), HOST, port)
    return exchange.reply


async def ask(port: int, path: str) -> bytes:
    """Send a request and return its reply."""
    return await (await connect(port, path))


def status_of(reply: bytes) -> int:
    """Return the status in a reply's first line."""
    return int(reply.split(b" ", 2)[1])


def body_of(reply: bytes) -> bytes:
    """Return what follows a reply's headers."""
    return reply.partition(b"\r\n\r\n")[2]


def verdict(number: int, reply: bytes, *, ours: bool) -> tuple[bool, bool]:
    """Return whether a reply carries a report, and whether it is the one that this request must have, or none."""
    head = reply.partition(b"\r\n\r\n")[0].decode("latin-1").split("\r\n")
    prefix = f"{semconv.HEADER_NAME}: "
    values = [line.removeprefix(prefix) for line in head if line.startswith(prefix)]
    reports = [decode_report(value) for value in values]
    found: list[Any] = [
        (event.failure_kind, event.failure_reason, event.event_id == report.failure_id)
        for report in reports
        if report is not None
        for event in report.events.values()
    ]
    fails = ours and number % ONE_IN == 0
    expected = [(KIND, f"request {number}", number % (2 * ONE_IN) == 0)] if fails else []
    return bool(values), found == expected


@contextmanager
def served(side: str) -> Iterator[int]:
    """Give the port of a new server process within the block."""
    command = [sys.executable, str(SERVER), side]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:  # noqa: S603 - our own script
        try:
            assert server.stdout is not None  # noqa: S101 - it is a pipe
            yield int(server.stdout.readline())
        finally:
            server.kill()


if __name__ == "__main__":
    sys.exit(main())
