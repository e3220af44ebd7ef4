"""Watch httpx's clients, sync and async: each call, what its reply reports, and how its body ends.

The two transports that speak HTTP are wrapped where OpenTelemetry's instrumentation wraps them too, but beneath it, so
that its client span is current. httpx2, by which the openai client calls, is the next generation of httpx and has the
same names.
"""

import functools
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any, Final

from gym_failures.calls import Call
from gym_failures.guard import Guard
from gym_failures.kinds import FailureBoundary
from gym_failures.misuse import MissingExtraError
from gym_failures.patching import Method, wrap_method
from gym_failures.recorder import FailureRecorder
from gym_failures.streams import StreamWatch, is_event_stream

MODULES: Final = ("httpx", "httpx2")
"""The packages whose transports are watched."""

_HTTPX: Final = Guard("httpx")


class _Body:
    """What is observed of a reply's body while the client reads it."""

    __slots__ = ("_call", "_watcher")

    def __init__(self, call: Call, watcher: StreamWatch | None) -> None:
        self._call = call
        self._watcher = watcher

    def came(self, chunk: bytes) -> None:
        if self._watcher is not None:
            self._watcher.feed(chunk)

    def broke(self, error: Exception) -> None:
        self.closed(error)
        self._call.failed(error)

    def closed(self, error: Exception | None = None) -> None:
        if self._watcher is not None:
            self._watcher.end(error)


_Stream = Callable[[Any, _Body], Any]


class _Watch:
    """What is wrapped round the transports of one module, and whether it still observes."""

    def __init__(self, module: ModuleType, boundary: FailureBoundary, recorder: FailureRecorder | None) -> None:
        self._boundary = boundary
        self._recorder = recorder
        self._stream = _stream_class(module)
        self._async_stream = _async_stream_class(module)
        self._is_on = True
        self._undo = (
            wrap_method(module.HTTPTransport, "handle_request", self._watching),
            wrap_method(module.AsyncHTTPTransport, "handle_async_request", self._watching_async),
        )

    def undo(self) -> None:
        self._is_on = False
        for undo in self._undo:
            undo()

    def _watching(self, handle: Method) -> Method:
        @functools.wraps(handle)
        def watching(transport: Any, request: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - httpx or httpx2
            call = self._begin()
            if call is None:
                return handle(transport, request, *args, **kwargs)
            try:
                response = handle(transport, request, *args, **kwargs)
            except Exception as error:
                call.failed(error)
                raise
            _answered(call, request, response, self._stream)
            return response

        return watching

    def _watching_async(self, handle: Method) -> Method:
        @functools.wraps(handle)
        async def watching(transport: Any, request: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - as above
            call = self._begin()
            if call is None:
                return await handle(transport, request, *args, **kwargs)
            try:
                response = await handle(transport, request, *args, **kwargs)
            except Exception as error:
                call.failed(error)
                raise
            _answered(call, request, response, self._async_stream)
            return response

        return watching

    def _begin(self) -> Call | None:
        with _HTTPX:
            return Call(self._boundary, self._recorder) if self._is_on else None
        return None


def _answered(call: Call, request: Any, response: Any, stream: _Stream) -> None:  # noqa: ANN401 - httpx or httpx2
    """Observe the reply, and put a watched stream in the place of its body."""
    with _HTTPX:
        call.replied(response.status_code, response.headers, request.url, response)
        watcher = call.watch(request.url) if is_event_stream(response.headers) else None
        response.stream = stream(response.stream, _Body(call, watcher))


def _stream_class(module: Any) -> _Stream:  # noqa: ANN401 - httpx or httpx2
    """Return the class of watched streams for a client of `module`, which takes only streams of its own kind."""

    class WatchedStream(module.SyncByteStream):  # type: ignore[misc]  # a base that is known at run time
        def __init__(self, stream: Any, body: _Body) -> None:  # noqa: ANN401 - as above
            self._stream = stream
            self._body = body

        def __iter__(self) -> Iterator[bytes]:
            try:
                for chunk in self._stream:
                    self._body.came(chunk)
                    yield chunk
            except Exception as error:
                self._body.broke(error)
                raise

        def close(self) -> None:
            self._stream.close()
            self._body.closed()

    return WatchedStream


def _async_stream_class(module: Any) -> _Stream:  # noqa: ANN401 - httpx or httpx2
    """Return the class of watched streams for an async client of `module`."""

    class WatchedAsyncStream(module.AsyncByteStream):  # type: ignore[misc]  # as above
        def __init__(self, stream: Any, body: _Body) -> None:  # noqa: ANN401 - as above
            self._stream = stream
            self._body = body

        async def __aiter__(self) -> AsyncIterator[bytes]:
            chunks = aiter(self._stream)
            try:
                async for chunk in chunks:
                    self._body.came(chunk)
                    yield chunk
            except Exception as error:
                self._body.broke(error)
                raise
            finally:
                if isinstance(chunks, AsyncGenerator):  # closed with this one, and not when it is collected
                    await chunks.aclose()

        async def aclose(self) -> None:
            await self._stream.aclose()
            self._body.closed()

    return WatchedAsyncStream


_watched: Final[dict[str, _Watch]] = {}


def instrument_httpx(
    *,
    boundary: FailureBoundary | str = FailureBoundary.COLLECTION,
    recorder: FailureRecorder | None = None,
    module: ModuleType | None = None,
) -> None:
    """Watch every client of `module`, those that exist too; the last call counts.

    `module` is httpx or httpx2; None is every one that is installed. Outside of a request, failures are observed at
    `boundary` and written by `recorder` (None: the process's own); in a request its log says both. Raises
    `exceptions.MissingExtraError` when neither is installed, and ValueError for a boundary that does not exist.
    """
    where = FailureBoundary(boundary)
    modules = [import_module(name) for name in MODULES if find_spec(name)] if module is None else [module]
    if not modules:
        raise MissingExtraError("instrument_httpx", "httpx", "httpx")
    for one in modules:
        if one.__name__ in _watched:
            _watched.pop(one.__name__).undo()
        _watched[one.__name__] = _Watch(one, where, recorder)


def uninstrument_httpx() -> None:
    """Undo `instrument_httpx`, in the clients that exist too."""
    while _watched:
        _watched.popitem()[1].undo()
