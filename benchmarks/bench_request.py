"""What a request costs with this package, beside the same request that only OpenTelemetry instruments.

Two servers, one with this package and one without, stand beside each other: uvicorn with httptools, a process each, a
FastAPI app, OpenTelemetry with its batch processor. Requests come one after another over a connection that is kept, in
rounds by turns, and each ratio is the median of the rounds' own ratios, in time of the server's processor, its system
calls included: what a user's server pays for a request. The budget is judged there, for requests in which nothing
fails.

The rows below are the same apps driven message by message, without a server and a socket, so that our share is largest;
and with a request that fails, after which uvicorn closes the connection. They are shown and not judged. Exits with
status 1 when a request costs more than the design allows.
"""

import contextlib
import socket
import statistics
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

from request_server import CASES, HOST, Case

ROUNDS: Final = 60
CALLS: Final = 100
"""Requests in one round of one side."""
BUDGET: Final = 1.03
OK: Final = 200
SERVER: Final = Path(__file__).with_name("request_server.py")


class Side:
    """A server of its own, and a connection to it."""

    def __init__(self, side: str, stack: contextlib.ExitStack) -> None:
        self._process = stack.enter_context(
            subprocess.Popen(  # noqa: S603 - our own script
                [sys.executable, str(SERVER), side], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            )
        )
        port = int(self._read())
        self._connection = stack.enter_context(socket.create_connection((HOST, port)))
        self._connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._replies = stack.enter_context(self._connection.makefile("rb"))

    def served(self, case: Case) -> float:
        """Return the processor's seconds that requests over HTTP take."""
        lines = [f"{case.method} {case.path} HTTP/1.1".encode(), *(b": ".join(header) for header in case.headers)]
        request = b"\r\n".join((*lines, b"", case.body))
        begun = float(self._ask("time"))
        for _ in range(CALLS):
            self._connection.sendall(request)
            self._take_reply(case)
        return float(self._ask("time")) - begun

    def driven(self, case: Case) -> float:
        """Return the processor's seconds that requests take which are handed to the app."""
        return float(self._ask(f"drive {CASES.index(case)} {CALLS}"))

    def _take_reply(self, case: Case) -> None:
        status = int(self._replies.readline().split()[1])
        length = 0
        while (line := self._replies.readline()) != b"\r\n":
            name, _, value = line.partition(b":")
            if name.lower() == b"content-length":
                length = int(value)
        self._replies.read(length)
        if status != case.status:
            raise RuntimeError(f"{case.name}: status {status}")

    def _ask(self, line: str) -> str:
        assert self._process.stdin is not None  # noqa: S101 - it is a pipe
        print(line, file=self._process.stdin, flush=True)
        return self._read()

    def _read(self) -> str:
        assert self._process.stdout is not None  # noqa: S101 - it is a pipe
        return self._process.stdout.readline()


def measured(measure: Callable[[Side, Case], float], without: Side, ours: Side, case: Case) -> tuple[float, str]:
    """Return how many times as much a request takes with this package, and a row of the table."""
    for side in (without, ours):
        measure(side, case)  # The first requests warm up.
    times = [(measure(without, case), measure(ours, case)) for _ in range(ROUNDS)]
    bare, mine = (statistics.median(side) / CALLS * 1e6 for side in zip(*times, strict=True))
    ratio = statistics.median(mine / bare for bare, mine in times)
    return ratio, f"{case.name:<32}{bare:>14.1f}{mine:>11.1f}{ratio:>8.3f}"


def main() -> int:
    """Print the table; return 1 when the budget does not hold."""
    holds = True
    with contextlib.ExitStack() as stack:
        without, ours = (Side(side, stack) for side in ("without", "with"))
        print(f"{'microseconds, over HTTP':<32}{'OpenTelemetry':>14}{'with ours':>11}{'ratio':>8}  budget", flush=True)
        for case in (case for case in CASES if case.status == OK):
            ratio, row = measured(Side.served, without, ours, case)
            print(f"{row}  <= {BUDGET:.2f}  {'holds' if ratio <= BUDGET else 'MISSED'}", flush=True)
            holds = holds and ratio <= BUDGET
        print("without a server")
        for case in CASES:
            print(f"{measured(Side.driven, without, ours, case)[1]}  shown", flush=True)
    return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(main())
