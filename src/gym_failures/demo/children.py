"""The processes of a run, seen from the one that starts them."""

import asyncio
import contextlib
import socket
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Final

from gym_failures.demo import DemoError
from gym_failures.demo.settings import Settings, environment

_LAST_LINES: Final = 15
"""Lines of a log that are shown of a process that has failed."""
_PATIENCE: Final = 10.0
"""How long a process is given to end before it is killed, in seconds."""


class Child:
    """A process of the run."""

    def __init__(self, name: str, settings: Settings, process: asyncio.subprocess.Process) -> None:
        """Take a process that has been started."""
        self.name: Final = name
        self._settings = settings
        self._process = process

    def begin(self) -> None:
        """Let it do its work, for which it waits."""
        if self._process.stdin is not None:
            self._process.stdin.write(self._settings.to_line().encode())

    async def line(self) -> str:
        """Return the next line that it prints; empty when it has ended."""
        return "" if self._process.stdout is None else (await self._process.stdout.readline()).decode()

    async def ended(self) -> int:
        """Wait for its end and return its status, negative for a signal."""
        return await self._process.wait()

    @property
    def status(self) -> int | None:
        """With what it has ended, as `ended` tells; None while it runs."""
        return self._process.returncode

    async def end(self) -> None:
        """Have it end, and wait for it."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        try:
            await asyncio.wait_for(self._process.wait(), _PATIENCE)
        except TimeoutError:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
            await self._process.wait()

    def failed(self) -> DemoError:
        """Return the error to raise when it has ended and should not have."""
        log = self._settings.file("logs", self.name)
        last = log.read_text(encoding="utf-8", errors="replace").splitlines()[-_LAST_LINES:]
        return DemoError("\n".join([f"the process {self.name} ended; the end of {log}:", *last]))


@asynccontextmanager
async def children(settings: Settings, sockets: Mapping[str, socket.socket | None]) -> AsyncIterator[dict[str, Child]]:
    """Start a process for each name, with a socket to serve on if it is a server; all of them end with the block."""
    started: dict[str, Child] = {}
    try:
        for name, listening in sockets.items():
            started[name] = await _start(name, settings, listening)
        yield started
    finally:
        await asyncio.gather(*(one.end() for one in started.values()))


async def _start(name: str, settings: Settings, listening: socket.socket | None) -> Child:
    inherited = () if listening is None else (listening.fileno(),)
    with settings.file("logs", name).open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "gym_failures.demo.process", name, *map(str, inherited),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=log,
            env=environment(),
            pass_fds=inherited,
            start_new_session=True,  # An interrupt from the keyboard is for the command, which then ends this.
        )  # fmt: skip
    return Child(name, settings, process)
