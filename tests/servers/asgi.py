"""ASGI without a server: the messages of one request, as a test hands them in and sees them come out."""

import asyncio
from collections.abc import Iterable
from typing import Any

from gym_failures.header import decode_report
from gym_failures.records import FailureReport
from gym_failures.semconv import HEADER_NAME


class Call:
    """One request to an ASGI app."""

    def __init__(self, app: Any, *, path: str = "/", received: Iterable[dict[str, Any]] = ()) -> None:
        self.app = app
        self.scope: dict[str, Any] = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": "1.1",
            "method": "GET",
            "path": path,
            "raw_path": path.encode(),
            "query_string": b"",
            "root_path": "",
            "scheme": "http",
            "headers": [(b"host", b"test")],
            "client": ("127.0.0.1", 1),
            "server": ("127.0.0.1", 2),
        }
        self.sent: list[dict[str, Any]] = []
        self._received = list(received) or [{"type": "http.request", "body": b"", "more_body": False}]

    async def receive(self) -> dict[str, Any]:
        """Hand out the next message; after the last one, nothing ever comes."""
        if not self._received:
            await asyncio.Event().wait()
        return self._received.pop(0)

    async def send(self, message: dict[str, Any]) -> None:
        """Take a message of the reply."""
        self.sent.append(message)

    async def run(self) -> None:
        """Let the app serve the request."""
        await self.app(self.scope, self.receive, self.send)

    @property
    def report(self) -> FailureReport | None:
        """The report in the reply's header; raises ValueError when there are several."""
        values = [value for name, value in self.sent[0]["headers"] if name == HEADER_NAME.encode()]
        if not values:
            return None
        (value,) = values
        return decode_report(value.decode())


def start(status: int = 200, *headers: tuple[bytes, bytes], **more: Any) -> dict[str, Any]:
    """Return the message that starts a reply."""
    return {"type": "http.response.start", "status": status, "headers": list(headers), **more}


def body(content: bytes, *, more: bool = False) -> dict[str, Any]:
    """Return a message with a part of a reply's body."""
    return {"type": "http.response.body", "body": content, "more_body": more}
