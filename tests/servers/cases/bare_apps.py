"""Apps that are no more than ASGI."""

from collections.abc import Iterable
from typing import Any

from tests.servers.cases.table import App, BrokenError, Seen, broken, case, status


def _start(code: int, headers: Iterable[tuple[bytes, bytes]] = ()) -> dict[str, Any]:
    return {"type": "http.response.start", "status": code, "headers": headers}


def _body(content: bytes, *, more: bool = False) -> dict[str, Any]:
    return {"type": "http.response.body", "body": content, "more_body": more}


@case()
def asgi_fine(seen: Seen) -> App:
    """Answer with headers that can be read only once, and names that are not in lower case."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        seen.call(scope["type"])
        headers = [(b"X-Twice", b"1"), (b"x-twice", b"2"), (b"Content-Length", b"4")]
        await send(_start(200, iter(headers)))
        await send(_body(b"fine"))

    return app


@case()
def asgi_parts_without_a_body(seen: Seen) -> App:
    """Answer in parts of which one has no body, as ASGI lets an app do."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        seen.call(scope["type"])
        await send(_start(200, [(b"content-length", b"4")]))
        await send({"type": "http.response.body", "more_body": True})
        await send(_body(b"fine", more=True))
        await send({"type": "http.response.body"})

    return app


@case(own=broken(operation="test GET"), silent=True)
def asgi_raises(seen: Seen) -> App:
    """Raise before the reply: the server answers by itself."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        raise BrokenError("bare")

    return app


@case(own=broken(failure_reason="bare"))
def asgi_handles(seen: Seen) -> App:
    """Answer 500 while the exception is being handled."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        try:
            raise BrokenError("bare")
        except BrokenError as error:
            seen.catch(error)
            await send(_start(500, [(b"content-length", b"5")]))
            await send(_body(b"sorry"))

    return app


@case(own=broken(failure_reason="half way"), comment=True)
def asgi_stream_breaks(seen: Seen) -> App:
    """Raise in the middle of a line of a stream of events."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send(_start(200, [(b"Content-Type", b"Text/Event-Stream")]))
        await send(_body(b"data: one\n\ndata: tw", more=True))
        raise BrokenError("half way")

    return app


@case(own=status(500))
def asgi_two_starts(seen: Seen) -> App:
    """Begin the reply twice: the server refuses, and that is its affair."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send(_start(500, [(b"content-length", b"0")]))
        await send(_start(200))

    return app
