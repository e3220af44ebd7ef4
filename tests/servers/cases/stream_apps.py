"""Streams that break, and work that goes on after the reply."""

from collections.abc import AsyncIterator, Mapping
from typing import Any

from fastapi import BackgroundTasks, FastAPI, Request, Response
from fastapi.responses import StreamingResponse

from tests.servers.cases.table import App, BrokenError, Seen, broken, case


@case()
def background_fine(seen: Seen) -> App:
    """Do more after the reply."""
    app = FastAPI()

    @app.get("/")
    async def root(tasks: BackgroundTasks) -> dict[str, int]:
        tasks.add_task(seen.call, "later")
        return {"reward": 1}

    return app


@case()
def background_raises(seen: Seen) -> App:
    """Raise after the reply."""
    app = FastAPI()

    async def later() -> None:
        seen.call("later")
        raise BrokenError("too late")

    @app.get("/")
    async def root(tasks: BackgroundTasks) -> dict[str, int]:
        tasks.add_task(later)
        return {"reward": 1}

    return app


@case()
def background_raises_behind_middleware(seen: Seen) -> App:
    """Raise after the reply, inside of a middleware that may not have passed it on yet."""
    app = background_raises(seen)

    @app.middleware("http")
    async def copy(request: Request, call_next: Any) -> Response:
        return await call_next(request)

    return app


def _streaming(seen: Seen, media_type: str, headers: Mapping[str, str] | None = None, *, breaks: bool = True) -> App:
    app = FastAPI()

    async def parts() -> AsyncIterator[str]:
        for number in range(3):
            seen.call(f"part {number}")
            yield f"data: {number}\n\n"
        if breaks:
            raise BrokenError("half way")

    @app.get("/")
    async def root() -> Response:
        return StreamingResponse(parts(), media_type=media_type, headers=headers)

    return app


@case()
def stream_fine(seen: Seen) -> App:
    """Stream events to the end."""
    return _streaming(seen, "text/event-stream", breaks=False)


@case()
def stream_of_views(seen: Seen) -> App:
    """Stream events out of a buffer that is used again, which nobody may hold on to."""
    app = FastAPI()

    async def parts() -> AsyncIterator[memoryview]:
        buffer = bytearray()
        for number in range(3):
            seen.call(f"part {number}")
            buffer += f"data: {number}\n\n".encode()
            with memoryview(buffer) as view:
                yield view
            buffer.clear()

    @app.get("/")
    async def root() -> Response:
        return StreamingResponse(parts(), media_type="text/event-stream")

    return app


@case(own=broken(failure_reason="half way"), comment=True)
def stream_breaks(seen: Seen) -> App:
    """Raise in the middle of a stream of events."""
    return _streaming(seen, "text/event-stream")


@case(own=broken(failure_reason="half way"), silent=True)
def stream_of_another_kind_breaks(seen: Seen) -> App:
    """Raise in the middle of a stream that has no comments."""
    return _streaming(seen, "application/x-ndjson")


@case(own=broken(failure_reason="half way"), silent=True)
def stream_of_known_length_breaks(seen: Seen) -> App:
    """Raise in the middle of a stream of events whose length was announced: nothing can be added to it."""
    return _streaming(seen, "text/event-stream", {"content-length": "100"})


@case(own=broken(failure_reason="half way"), silent=True, headers=(("accept-encoding", "gzip"),))
def stream_compressed_breaks(seen: Seen) -> App:
    """Raise in the middle of a compressed stream of events: a plain comment would destroy it."""
    return _streaming(seen, "text/event-stream", {"content-encoding": "gzip"})


@case(own=broken(failure_reason="half way"), comment=True)
def stream_breaks_behind_middleware(seen: Seen) -> App:
    """Raise in the middle of a stream inside of a middleware that then ends it as if all had gone well."""
    app = _streaming(seen, "text/event-stream; charset=utf-8")

    @app.middleware("http")
    async def copy(request: Request, call_next: Any) -> Response:
        return await call_next(request)

    return app
