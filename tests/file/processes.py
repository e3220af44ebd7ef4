"""Servers in processes of their own, and a gate at which their requests are held."""

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

ROOT = Path(__file__).parents[2]
HOST = "127.0.0.1"
ATTEMPTS = 20
"""Failures that a request of the worker survives before it fails for good."""
PATIENCE = 60.0  # seconds until a process that says or does nothing is taken for hung
WORKERS_MAY_BE_SLOW = {"UVICORN_TIMEOUT_WORKER_HEALTHCHECK": f"{PATIENCE:.0f}"}
"""Has uvicorn not take a worker that is still starting for dead, and start another; older ones cannot be told."""
_STARTED = "Application startup complete"
_URL = re.compile(rf"running on http://{re.escape(HOST)}:(\d+)")


class Program(NamedTuple):
    """A program that serves `tests.file.worker`."""

    process: subprocess.Popen[bytes]
    port: int
    log: Path
    """What its processes say."""


@contextmanager
def running(folder: Path, *arguments: str, servers: int = 1, **environment: str) -> Iterator[Program]:
    """Run `python -m` with these arguments until the block ends; it begins when that many processes serve.

    The files of spans are in `folder`, whole when the block has ended.
    """
    log = folder / "log"
    with log.open("wb") as stream:
        process = subprocess.Popen(
            [sys.executable, "-m", *arguments],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=stream,
            env={**os.environ, **WORKERS_MAY_BE_SLOW, **environment, "SPANS": str(folder)},
            start_new_session=True,
        )
    try:
        yield Program(process, _port_of(process, log, servers), log)
    finally:
        _end(process)


def _port_of(process: subprocess.Popen[bytes], log: Path, servers: int) -> int:
    until = time.monotonic() + PATIENCE
    while (text := log.read_text()).count(_STARTED) < servers or not (url := _URL.search(text)):
        assert process.poll() is None, text
        assert time.monotonic() < until, text
        time.sleep(0.02)
    return int(url[1])


def _end(process: subprocess.Popen[bytes]) -> None:
    """End all processes of a program, and wait until none of them holds its standard output."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
    try:
        process.communicate(timeout=PATIENCE)
    except BaseException:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        raise


class Gate:
    """Where a request is held, and with it the process that serves it."""

    def __init__(self) -> None:
        self._held = ExitStack()
        self._listening = self._held.enter_context(socket.create_server((HOST, 0)))
        self._listening.settimeout(PATIENCE)
        self.port: int = self._listening.getsockname()[1]

    def __enter__(self) -> Self:
        """Hold whoever comes."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Let all go."""
        self._held.close()

    def arrival(self) -> int:
        """Wait for one more to come, and return the id of its process."""
        connection, _ = self._listening.accept()
        self._held.enter_context(connection)
        connection.settimeout(PATIENCE)
        return int(connection.makefile().readline())
