"""What a request costs with this package, beside the same request that only OpenTelemetry instruments.

A process of its own serves the same FastAPI app twice, with this package and without: uvicorn with httptools,
OpenTelemetry with its batch processor. Requests come one after another over a connection that is kept, in short rounds
by turns, and what counts is the processor's time of the server, its system calls included: what a user's server pays
for a request. One process serves both, because two processes of the same program differ by more than what is measured.
The ratio is the median of those of ten batches of rounds, with the standard error that they have among each other: on a
busy machine that is more than our share. The budget is judged there, for requests in which nothing fails.

The rows below are the same apps driven message by message, without a server and a socket, so that our share is largest;
and with a request that fails, after which uvicorn closes the connection. They are shown and not judged. Exits with
status 1 when a request costs more than the design allows.
"""

import math
import socket
import statistics
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

from request_server import CASES, HOST, Case

BATCHES: Final = 10
ROUNDS: Final = 30
"""Rounds of either side in one batch."""
CALLS: Final = 20
"""Requests in one round of one side."""
BUDGET: Final = 1.03
OK: Final = 200
SERVER: Final = Path(__file__).with_name("request_server.py")


class Server:
    """The process that serves both apps, and a connection to each of them."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self._connections = [socket.create_connection((HOST, int(port))) for port in self._read().split()]
        for connection in self._connections:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._replies = [connection.makefile("rb") for connection in self._connections]

    def served(self, side: int, case: Case) -> float:
        """Return the processor's seconds that a round of requests over HTTP takes."""
        lines = [f"{case.method} {case.path} HTTP/1.1".encode(), *(b": ".join(header) for header in case.headers)]
        request = b"\r\n".join((*lines, b"", case.body))
        begun = float(self._ask("time"))
        for _ in range(CALLS):
            self._connections[side].sendall(request)
            self._take_reply(side, case)
        return float(self._ask("time")) - begun

    def driven(self, side: int, case: Case) -> float:
        """Return the processor's seconds that a round of requests takes which are handed to the app."""
        return float(self._ask(f"drive {side} {CASES.index(case)} {CALLS}"))

    def _take_reply(self, side: int, case: Case) -> None:
        reply = self._replies[side]
        status = int(reply.readline().split()[1])
        length = 0
        while (line := reply.readline()) != b"\r\n":
            name, _, value = line.partition(b":")
            if name.lower() == b"content-length":
                length = int(value)
        reply.read(length)
        if status != case.status:
            raise RuntimeError(f"{case.name}: status {status}")

    def _ask(self, line: str) -> str:
        assert self._process.stdin is not None  # noqa: S101 - it is a pipe
        print(line, file=self._process.stdin, flush=True)
        return self._read()

    def _read(self) -> str:
        assert self._process.stdout is not None  # noqa: S101 - it is a pipe
        return self._process.stdout.readline()

    def close(self) -> None:
        """Leave the server, which ends with its input."""
        for one in (*self._replies, *self._connections):
            one.close()


def compared(measure: Callable[[int, Case], float], case: Case) -> tuple[float, str]:
    """Return how many times as much a request takes with this package, and a row of the table."""
    batches = []
    for number in range(BATCHES + 1):
        rounds: tuple[list[float], list[float]] = ([], [])
        for place in range(ROUNDS):
            for side in (0, 1) if place % 2 else (1, 0):
                rounds[side].append(measure(side, case))
        if number:  # the first one warms up
            batches.append([statistics.median(times) / CALLS * 1e6 for times in rounds])
    ratios = [ours / bare for bare, ours in batches]
    ratio, error = statistics.median(ratios), statistics.stdev(ratios) / math.sqrt(BATCHES)
    bare, ours = (statistics.median(side) for side in zip(*batches, strict=True))
    return ratio, f"{case.name:<32}{bare:>14.1f}{ours:>11.1f}{ratio:>8.3f} ±{error:.3f}"


def main() -> int:
    """Print the table; return 1 when the budget does not hold."""
    holds = True
    command = [sys.executable, str(SERVER)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:  # noqa: S603 - our own
        server = Server(process)
        print(
            f"{'microseconds, over HTTP':<32}{'OpenTelemetry':>14}{'with ours':>11}{'ratio':>8}         budget",
            flush=True,
        )
        for case in (case for case in CASES if case.status == OK):
            ratio, row = compared(server.served, case)
            print(f"{row}  <= {BUDGET:.2f}  {'holds' if ratio <= BUDGET else 'MISSED'}", flush=True)
            holds = holds and ratio <= BUDGET
        print("without a server")
        for case in CASES:
            print(f"{compared(server.driven, case)[1]}  shown", flush=True)
        server.close()
    return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(main())
