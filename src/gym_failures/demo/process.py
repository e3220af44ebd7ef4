"""One process of the demo: `python -m gym_failures.demo.process NAME [FD]`.

It reads its settings from the first line of its standard input, and a server serves on the socket FD that it has
inherited until its standard input ends. So no process outlives the one that has started it, however that ends.
"""

import asyncio
import logging
import socket
import sys
import threading
from importlib import import_module

import uvicorn

from gym_failures.demo.settings import COLLECTION, UNSENT, Settings
from gym_failures.demo.telemetry import Telemetry
from gym_failures.demo.wire import WireTap

_UNTRACED = "provider"


class _Server(uvicorn.Server):
    """A server that says when it is ready."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        print("ready", flush=True)  # noqa: T201 - whoever started this process reads it


async def _serve(name: str, settings: Settings, listening: socket.socket) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    threading.Thread(target=_wait_for_the_end, args=(loop, stop), daemon=True).start()
    module = import_module(f"gym_failures.demo.servers.{name}")
    if name == _UNTRACED:
        await module.serve(listening, stop)
        return
    app = WireTap(module.app(settings), settings.file("replies", name))
    server = _Server(
        uvicorn.Config(app, http="httptools", log_config=None, timeout_keep_alive=60, timeout_graceful_shutdown=5)
    )
    serving = asyncio.ensure_future(server.serve([listening]))
    stopping = asyncio.ensure_future(stop.wait())
    await asyncio.wait({serving, stopping}, return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    server.should_exit = True
    await serving


def _wait_for_the_end(loop: asyncio.AbstractEventLoop, stop: asyncio.Event) -> None:
    sys.stdin.read()
    loop.call_soon_threadsafe(stop.set)


def main(name: str, descriptor: str | None = None) -> None:
    """Be the process `name`."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(message)s")
    collection = import_module("gym_failures.demo.collection") if name == COLLECTION else None
    line = sys.stdin.readline()
    if not line:
        return  # Called off before it began.
    settings = Settings.from_line(line)
    telemetry = None if name == _UNTRACED else Telemetry(name, settings)
    try:
        if collection is not None:
            asyncio.run(collection.collect(settings))
        elif descriptor is not None:
            asyncio.run(_serve(name, settings, socket.socket(fileno=int(descriptor))))
    finally:
        all_was_sent = telemetry is None or telemetry.shut_down()
    sys.exit(0 if all_was_sent else UNSENT)


if __name__ == "__main__":
    main(*sys.argv[1:])
