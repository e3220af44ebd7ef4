"""One real program on loopback: started, waited for, killed, started again."""

import itertools
import os
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Final, Self

LOOPBACK = "127.0.0.1"
START_SECONDS = 60.0
"""How long a program may take until it answers; ours, far above what is seen on a busy machine."""
STOP_SECONDS = 20.0
"""How long a program may take to end when it is asked to, before it is killed."""
ASK_EVERY = 0.05
"""Time between two questions to a program that is not ready, in seconds."""
LOG_TAIL = 4_000
"""End of a program's log that an error shows, in characters."""


class ProcessError(Exception):
    """A program did not start or answer; the message ends with the end of its log."""


class Process:
    """A program that answers 200 at `ready` once it is up; its log and its state lie in `folder`.

    As a context manager it runs within the block. `start` after `kill` or `stop` starts it again, on the same ports and
    the same state.
    """

    def __init__(
        self, name: str, command: Sequence[str | Path], *, ready: str, folder: Path, environment: Mapping[str, str]
    ) -> None:
        """Say what to run, in an environment that has `environment` on top of PATH and the like, and nothing else."""
        self.name = name
        self._command = [str(word) for word in command]
        self._ready = ready
        self._environment = environment
        self._running: subprocess.Popen[bytes] | None = None
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.log = folder / f"{name}.log"

    def start(self) -> Self:
        """Start it and return once it answers; raises ProcessError when it ends or stays silent."""
        # An environment of its own: what the caller's shell says to OpenTelemetry is not meant for these programs.
        environment = {key: os.environ[key] for key in ("PATH", "HOME", "TMPDIR", "GOMEMLIMIT") if key in os.environ}
        with self.log.open("ab") as log:
            self._running = subprocess.Popen(
                self._command,
                cwd=self.folder,
                env={**environment, **self._environment},
                stdout=log,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                start_new_session=True,  # Ctrl-C in a terminal is for the one who started us; we end them in order
            )
        deadline = time.monotonic() + START_SECONDS
        while not answers(self._ready):
            if self._running.poll() is not None:
                raise ProcessError(f"{self.name} ended with {self._running.returncode}:\n{self._tail()}")
            if time.monotonic() > deadline:
                self.kill()
                raise ProcessError(f"{self.name} does not answer at {self._ready}:\n{self._tail()}")
            time.sleep(ASK_EVERY)
        return self

    def kill(self) -> None:
        """End it at once, as the kernel or a cluster would: no signal handler, no last write."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """Ask it to end and wait; kill it when it does not."""
        self._end(signal.SIGTERM)

    @property
    def pid(self) -> int | None:
        """Its process id, or None when it does not run."""
        return None if self._running is None else self._running.pid

    def __enter__(self) -> Self:
        """Start it."""
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Stop it."""
        self.stop()

    def _end(self, how: signal.Signals) -> None:
        running, self._running = self._running, None
        if running is None:
            return
        running.send_signal(how)
        try:
            running.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            running.kill()
            running.wait()

    def _tail(self) -> str:
        return self.log.read_text(errors="replace")[-LOG_TAIL:]


def answers(url: str) -> bool:
    """Tell whether something answers 200 at `url`."""
    try:
        with get(url):
            return True
    except OSError:
        return False


def get(url: str, *, seconds: float = 10.0) -> IO[bytes]:
    """Open `url`, on this machine only and past every proxy; raises urllib's HTTPError and OSError."""
    if not url.startswith(f"http://{LOOPBACK}:"):
        raise ValueError(f"not on this machine: {url}")
    opened: IO[bytes] = urllib.request.build_opener(urllib.request.ProxyHandler({})).open(url, timeout=seconds)
    return opened


def free_ports(*usual: int, take_usual: bool = False) -> list[int]:
    """Return a port for each of `usual`, all of them free a moment ago: others, or with `take_usual` those if they are.

    Tests take others, to run beside what a developer has running; a demonstration takes those that people know.
    """
    return [port if take_usual and _is_free(port) else next(filter(_is_free, _PORTS)) for port in usual]


# Below what Linux gives to outgoing connections, which could take a port between our look and a program's start; begun
# elsewhere by every process, and never given twice by one.
_PORTS: Final = itertools.count(12_000 + os.getpid() * 61 % 16_000)


def _is_free(port: int) -> bool:
    with socket.socket() as one:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            one.bind((LOOPBACK, port))
        except OSError:
            return False
    return True
