"""A run of the demo, from the start of its processes to their end."""

import asyncio
import json
import signal
import socket
import sys
import time
from collections.abc import Callable, Coroutine, Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

from gym_failures.demo import DemoError
from gym_failures.demo.children import Child, children
from gym_failures.demo.settings import COLLECTION, SERVERS, UNSENT, Settings, prepare

_MORTAL: Final = ("sandbox", -signal.SIGKILL)
"""The server that is killed in the run, and the status that this leaves."""

_T = TypeVar("_T")


class Ended(NamedTuple):
    """A rollout that has ended."""

    rollout: str
    fault: str
    failed: bool


class Run(NamedTuple):
    """A run that has ended."""

    rollouts: list[Ended]
    seconds: float
    """From the start of the first rollout to the end of the last one."""
    unsent: list[str]
    """The processes that could not send all they had to the endpoint; the files have it."""


def run(folder: Path, *, seed: int = 0, otlp: str | None = None, on_end: Callable[[Ended], None]) -> Run:
    """Run the demo and leave what it exported in `folder`; calls `on_end` whenever a rollout has ended.

    `seed` decides the order of the rollouts. `otlp` is the base of an endpoint to send to as well; None sends nowhere.
    Raises DemoError when a process ends that should not, and OSError for a folder that cannot be written to.
    """
    if sys.platform == "win32":
        raise DemoError("the demo hands sockets to other processes in a way that Windows does not have")
    prepare(folder)
    return asyncio.run(_run(folder, seed, otlp, on_end))


async def _run(folder: Path, seed: int, otlp: str | None, on_end: Callable[[Ended], None]) -> Run:
    with ExitStack() as stack:
        sockets: dict[str, socket.socket | None] = {name: stack.enter_context(_listening()) for name in SERVERS}
        urls = {name: f"http://127.0.0.1:{sock.getsockname()[1]}" for name, sock in sockets.items() if sock is not None}
        settings = Settings(str(folder), urls, seed, otlp)
        async with children(settings, {**sockets, COLLECTION: None}) as started:
            servers = [started[name] for name in SERVERS]
            for server in servers:
                server.begin()
            for server in servers:
                if not await server.line():
                    await server.ended()
                    raise server.failed()
            begun = time.monotonic()
            started[COLLECTION].begin()
            rollouts = await _while_alive(servers, _collected(started[COLLECTION], on_end))
            seconds = time.monotonic() - begun
    return Run(rollouts, seconds, [name for name, process in started.items() if process.status == UNSENT])


def _listening() -> socket.socket:
    """Return a socket that listens already, so that no call is refused, however long its server takes to start."""
    return socket.create_server(("127.0.0.1", 0))


async def _collected(client: Child, on_end: Callable[[Ended], None]) -> list[Ended]:
    """Return how the rollouts ended, when all have."""
    rollouts: list[Ended] = []
    while line := await client.line():
        rollouts.append(Ended(**json.loads(line)))
        on_end(rollouts[-1])
    if await client.ended() not in {0, UNSENT}:
        raise client.failed()
    return rollouts


async def _while_alive(servers: Iterable[Child], work: Coroutine[Any, Any, _T]) -> _T:
    """Return the result of `work`; raises DemoError when a server ends in the meantime that should not."""
    working = asyncio.ensure_future(work)
    watching = {asyncio.ensure_future(server.ended()): server for server in servers}
    try:
        while not working.done():
            await asyncio.wait({working, *watching}, return_when=asyncio.FIRST_COMPLETED)
            for ended in [future for future in watching if future.done()]:
                server = watching.pop(ended)
                if (server.name, ended.result()) != _MORTAL:
                    raise server.failed()
        return working.result()
    finally:
        for future in (working, *watching):
            future.cancel()
