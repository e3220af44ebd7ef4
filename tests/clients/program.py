"""A program that nobody instrumented: it serves an app that fails, calls it, and prints as JSON what came back."""

import asyncio
import json
import socket
import sys
import threading

import aiohttp
import httpx
import uvicorn
from fastapi import FastAPI

from gym_failures.header import decode_report
from gym_failures.log import FailureLog

app = FastAPI()


@app.get("/")
def fail() -> None:
    """Fail."""
    raise LookupError


async def get(url: str) -> None:
    """Call by aiohttp."""
    async with aiohttp.ClientSession() as session, session.get(url):
        pass


def main() -> dict[str, object]:
    """Serve, call, and return the boundaries that the reply told of, and those that each client observed."""
    listener = socket.create_server(("127.0.0.1", 0))
    url = f"http://127.0.0.1:{listener.getsockname()[1]}/"
    server = uvicorn.Server(uvicorn.Config(app, log_config=None))
    thread = threading.Thread(target=server.run, args=([listener],))
    thread.start()
    report = decode_report(httpx.get(url, timeout=30).headers.get("gym-failure-report"))
    observed = {}
    for name, call in {"aiohttp": lambda: asyncio.run(get(url)), "httpx": lambda: httpx.get(url, timeout=30)}.items():
        with FailureLog("collection") as log:
            call()
        observed[name] = [event.boundary.value for event in log.report().events.values()]
    server.should_exit = True
    thread.join()
    reported = [] if report is None else [event.boundary.value for event in report.events.values()]
    return {"reported": reported, "observed": observed}


if __name__ == "__main__":
    sys.stdout.write(json.dumps(main()))
