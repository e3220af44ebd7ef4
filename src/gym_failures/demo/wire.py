"""What the servers of the demo sent, seen from outside of them: one line for each reply to a traced request."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple, TextIO

from gym_failures.header import decode_reports
from gym_failures.instrumentation.asgi.scope import App, Message, Receive, Scope, Send, header_value, is_report
from gym_failures.records import FailureReport
from gym_failures.streams import CommentReader

_TRACEPARENT: Final = b"traceparent"


class Reply(NamedTuple):
    """One reply."""

    caller: str
    """Id of the span that made the call; the server's span is its child."""
    report: FailureReport | None
    """What the reply brought, in its header or, where its stream broke, in the stream's last comment."""


class WireTap:
    """Write down the report of each reply of an ASGI app that someone waited for; put it outside of everything else."""

    def __init__(self, app: App, path: Path) -> None:
        """Watch `app` and write to the file at `path`."""
        self._app = app
        self._file: TextIO = path.open("w", encoding="utf-8")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one scope."""
        caller = _caller_of(scope) if scope["type"] == "http" else None
        if caller is None:
            await self._app(scope, receive, send)
            return
        header: FailureReport | None = None
        body = CommentReader()
        started = gone = False

        async def watched_receive() -> Message:
            nonlocal gone
            message = await receive()
            gone = gone or message["type"] == "http.disconnect"
            return message

        async def watched_send(message: Message) -> None:
            nonlocal header, started
            if message["type"] == "http.response.start":
                started = not gone
                header = decode_reports([value for name, value in message["headers"] if is_report(name)])
            elif message["type"] == "http.response.body":
                body.feed(message.get("body", b""))
            await send(message)

        try:
            await self._app(scope, watched_receive, watched_send)
        finally:
            if started:
                self._write(caller, body.report or header)

    def _write(self, caller: str, report: FailureReport | None) -> None:
        told = None if report is None else report.model_dump(mode="json")
        self._file.write(json.dumps({"caller": caller, "report": told}) + "\n")
        self._file.flush()


def replies(folder: Path) -> Iterator[Reply]:
    """Yield what the servers of a run have sent."""
    for path in sorted((folder / "replies").glob("*.jsonl")):
        for line in path.read_text(encoding="utf-8").splitlines():
            fields = json.loads(line)
            report = fields["report"]
            yield Reply(fields["caller"], None if report is None else FailureReport.model_validate(report))


def _caller_of(scope: Scope) -> str | None:
    """Return the span id in the request's ``traceparent`` (W3C Trace Context, section 3.2)."""
    value = header_value(scope["headers"], _TRACEPARENT)
    parts = () if value is None else value.decode("ascii", "replace").split("-")
    return parts[2] if len(parts) >= 4 else None  # noqa: PLR2004 - version, trace, span, flags
