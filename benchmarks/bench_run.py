"""Start and end of a server under `gym-failures run`, and without it.

A FastAPI server is started, answers one request that fails, and is told to end; in turn without us, with files, and
with an endpoint at which nobody listens. Exits with status 1 when the start or the end takes longer than is promised.
"""

import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from gym_failures.cli.run import environment

ROUNDS: Final = 9
START_RATIO: Final = 1.05
START_SECONDS: Final = 1.0
"""Most that the start of a server may change: one of the two has to hold."""
END_SECONDS: Final = 0.1
"""Most seconds that the end may take longer while the Collector is away."""

SERVER: Final = """
import socket, aiohttp, fastapi, uvicorn

app = fastapi.FastAPI()


@app.get("/")
async def fail():
    raise ConnectionRefusedError


listening = socket.create_server(("127.0.0.1", 0))
server = uvicorn.Server(uvicorn.Config(app, log_config=None))
startup = server.startup


async def started(sockets=None):
    await startup(sockets)
    print(listening.getsockname()[1], flush=True)


server.startup = started
server.run([listening])
"""


class Took(NamedTuple):
    """What one server took, in seconds."""

    start: float
    end: float


def main() -> int:
    """Print the table; return 1 when a promise does not hold."""
    with tempfile.TemporaryDirectory() as folder, socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))  # Held, so that nobody else comes to listen there.
        away = f"http://127.0.0.1:{closed.getsockname()[1]}"
        plain = {**os.environ, "GYM_FAILURES_BOUNDARY": "model", "NEMO_GYM_CONFIG_PATH": "server"}
        hooked = environment(plain, Path(folder))
        sides = {
            "without us": plain,
            "with files": hooked,
            "Collector away": {**hooked, "OTEL_EXPORTER_OTLP_ENDPOINT": away},
        }
        for side in sides.values():
            serve(side)  # What is read from disk and compiled at the first time.
        rounds = [{name: serve(side) for name, side in sides.items()} for _ in range(ROUNDS)]
    print(f"{'a server':<16}{'start':>8}{'end':>8}   seconds")
    for name in sides:
        start, end = (statistics.median(getattr(one[name], what) for one in rounds) for what in Took._fields)
        print(f"{name:<16}{start:>8.3f}{end:>8.3f}")
    ratio = statistics.median(one["with files"].start / one["without us"].start for one in rounds)
    more = statistics.median(one["with files"].start - one["without us"].start for one in rounds)
    late = statistics.median(one["Collector away"].end - one["with files"].end for one in rounds)
    start_holds = ratio <= START_RATIO or more <= START_SECONDS
    end_holds = late <= END_SECONDS
    print(f"start: {ratio:.3f} <= {START_RATIO} or {more:.3f} <= {START_SECONDS} s  {verdict(start_holds)}")
    print(f"end, Collector away and not: {late * 1e3:.0f} <= {END_SECONDS * 1e3:.0f} ms more  {verdict(end_holds)}")
    return 0 if start_holds and end_holds else 1


def verdict(holds: bool) -> str:  # noqa: FBT001 - it is all there is
    """Return the word for it."""
    return "holds" if holds else "MISSED"


def serve(environ: dict[str, str]) -> Took:
    """Start the server, ask it once, end it by the signal that NeMo Gym sends, and return what that took."""
    begun = time.monotonic()
    with subprocess.Popen(  # noqa: S603 - ours
        [sys.executable, "-c", SERVER], env=environ, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stdout is not None  # noqa: S101 - for the type checker
        port = int(process.stdout.readline())
        started = time.monotonic()
        with suppress(urllib.error.HTTPError):
            urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=30)
        ending = time.monotonic()
        process.send_signal(signal.SIGINT)
        process.wait()
        return Took(started - begun, time.monotonic() - ending)


if __name__ == "__main__":
    sys.exit(main())
