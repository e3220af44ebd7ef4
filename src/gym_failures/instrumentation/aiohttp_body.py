"""The body of a response as aiohttp receives it: the report in an event stream, and what a body breaks off with.

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

_bodies: Final[dict[int, tuple[ref[ClientResponse], "_Body"]]] = {}
"""Watched bodies, by the id of their reader, which has no room for anything of ours; as long as the response lives."""


class _Body:
    """A body that is still coming in: what its stream reports, and what it breaks off with."""

    __slots__ = ("_call", "_reports")

    def __init__(self, call: Call, reports: StreamWatch | None) -> None:
        """Begin; `reports` is None for a body that brings none."""
        self._call = call
        self._reports = reports

    def feed(self, data: bytes) -> None:
        """Look at the next bytes."""
        if self._reports is not None:
            self._reports.feed(data)

    def end(self, error: object = None) -> None:
        """Observe what it ended with; what it broke off with has failed, whoever reads it and catches that."""
        broken = error if isinstance(error, BROKEN) else None
        if self._reports is not None:
            self._reports.end(broken)
        if broken is not None:
            self._call.failed(broken, span=self._call.span)


class _WatchedReader(StreamReader):
    """A reader whose body is watched; of the same layout as its base, so that a reader can become one."""

    __slots__ = ()

    def feed_data(self, data: bytes, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - differs with the version
        if (watched := _bodies.get(id(self))) is not None:
            watched[1].feed(data)
        return super().feed_data(data, *args, **kwargs)

    async def _wait(self, *args: Any) -> None:  # noqa: ANN401 - differs with the version
        # A limit on the whole call ends the wait of whoever reads, and the body is none the wiser.
        try:
            await super()._wait(*args)
        except TimeoutError as error:
            if (watched := _bodies.pop(id(self), None)) is not None:
                watched[1].end(error)
            raise

    def feed_eof(self) -> None:
        if (watched := _bodies.pop(id(self), None)) is not None:
            watched[1].end()
        super().feed_eof()

    def set_exception(self, exc: Any, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - differs with the version
        # Only the first counts: a caller who has read enough closes the connection, and then the body breaks off.
        if (watched := _bodies.pop(id(self), None)) is not None:
            watched[1].end(exc)
        super().set_exception(exc, *args, **kwargs)


def watch_body(response: ClientResponse, call: Call) -> None:
    """Watch what of a response's body is still to come: how it ends and, in an event stream, the report in it."""
    reader = response.content
    if type(reader) is not StreamReader:
        return
    is_stream = is_event_stream(response.headers)
    error = reader.exception()
    is_over = reader.is_eof() or error is not None
    if is_over and error is None and not is_stream:
        return
    body = _Body(call, call.watch(response.url) if is_stream else None)
    for chunk in reader._buffer if is_stream else ():  # noqa: SLF001 - what came with the headers and nobody has read
        body.feed(chunk)
    if is_over:
        body.end(error)
        return
    key = id(reader)
    _bodies[key] = (ref(response, lambda _: _bodies.pop(key, None)), body)
    reader.__class__ = _WatchedReader
