"""The body of an event stream as aiohttp reads it, and what a body breaks off with.

It is watched as it comes in and not as it is read: when the connection breaks, aiohttp forgets what was not read yet.
"""

from typing import Any, Final
from weakref import ref

import aiohttp
from aiohttp import ClientResponse, StreamReader

from gym_failures.calls import Call
from gym_failures.streams import StreamWatch, is_event_stream

BROKEN: Final = (
    aiohttp.ClientOSError,
    aiohttp.ServerDisconnectedError,
    aiohttp.ClientPayloadError,
    TimeoutError,
)
"""What a body breaks off with; all else that reading raises comes of how the caller uses the response."""

_bodies: Final[dict[int, tuple[ref[ClientResponse], StreamWatch]]] = {}
"""Watched bodies, by the id of their reader, which has no room for anything of ours; as long as the response lives."""


class _WatchedReader(StreamReader):
    """A reader whose body is watched; of the same layout as its base, so that a reader can become one."""

    __slots__ = ()

    def feed_data(self, data: bytes, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - differs with the version
        if (watched := _bodies.get(id(self))) is not None:
            watched[1].feed(data)
        return super().feed_data(data, *args, **kwargs)

    def feed_eof(self) -> None:
        if (watched := _bodies.get(id(self))) is not None:
            watched[1].end()
        super().feed_eof()

    def set_exception(self, exc: Any, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - differs with the version
        if (watched := _bodies.get(id(self))) is not None:
            watched[1].end(exc if isinstance(exc, BROKEN) else None)
        super().set_exception(exc, *args, **kwargs)


def watch_body(response: ClientResponse, call: Call) -> None:
    """Watch the body of a response, if it is an event stream, for the report in its last line."""
    reader = response.content
    if type(reader) is not StreamReader or not is_event_stream(response.headers):
        return
    watcher = call.watch(response.url)
    if watcher is None:
        return
    for chunk in reader._buffer:  # noqa: SLF001 - what came with the headers and nobody has read yet
        watcher.feed(chunk)
    if reader.is_eof() or reader.exception() is not None:
        error = reader.exception()
        watcher.end(error if isinstance(error, BROKEN) else None)
        return
    key = id(reader)
    _bodies[key] = (ref(response, lambda _: _bodies.pop(key, None)), watcher)
    reader.__class__ = _WatchedReader
