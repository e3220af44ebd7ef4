"""Watch aiohttp's client: each attempt of a call, what its reply reports, and the end of its streams.

What aiohttp documents, the signals of a TraceConfig, brings nearly all of it. Ours come first in a session, because
after OpenTelemetry's the client span is no longer current. Methods are wrapped for what no signal tells: a try on
a kept connection which the peer had dropped, and a body that breaks off.
"""

import functools
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakSet

from gym_failures.calls import Call
from gym_failures.guard import Guard
from gym_failures.kinds import FailureBoundary
from gym_failures.marks import Mark, mark_of, set_mark
from gym_failures.misuse import MissingExtraError
from gym_failures.outliving import Outliving
from gym_failures.patching import Method, wrap_method
from gym_failures.recorder import FailureRecorder
from gym_failures.recording import CurrentLog, current

if TYPE_CHECKING:
    from contextvars import Token

try:
    import aiohttp
    from aiohttp import ClientRequest, ClientResponse, ClientSession, TraceConfig

    from gym_failures.instrumentation.aiohttp_body import BROKEN, watch_body
except ModuleNotFoundError as error:
    raise MissingExtraError("instrument_aiohttp", error.name or "", "aiohttp") from error

_AIOHTTP: Final = Guard("aiohttp")

_LOST: Final = (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError)
"""What aiohttp tries once more when it happens on a connection that was kept from an earlier call."""


class _Exchange(Call):
    """A call, known to the signals of its request and to what belongs to it."""

    __slots__ = ("_connecting", "is_lost", "response")

    def __init__(self, boundary: FailureBoundary, recorder: FailureRecorder | None) -> None:
        super().__init__(boundary, recorder)
        # The reply whose headers are in, until aiohttp is done with the request. It holds this exchange, so holding it
        # for longer would keep it from being freed, and its connection with it.
        self.response: ClientResponse | None = None
        # Whether the last try ended with its connection.
        self.is_lost = False
        self._connecting: Token[CurrentLog | None] | None = None

    def connects(self) -> None:
        """Let go of the request while a connection is made: that keeps the context, and what it finds in it."""
        if self._holder is not None:
            self._connecting = current.set(Outliving(self._holder))

    def has_connected(self) -> None:
        """Hold the request again."""
        if self._connecting is not None:
            current.reset(self._connecting)
            self._connecting = None

    def answered(self, response: ClientResponse) -> Mark | None:
        """Observe the reply."""
        self.response = None
        return self.replied(response.status, response.headers, response.url, response, response.headers)

    def ended(self, error: BaseException) -> None:
        """Observe what ended the request: an error of the connection, or one that was made of the reply."""
        self.has_connected()
        response = self.response
        if response is None or not _is_made_of_a_reply(error):
            self.response = None
            self.failed(error)
            return
        mark = self.answered(response)
        if mark is not None and mark_of(error) is None:
            set_mark(error, mark)


def _is_made_of_a_reply(error: BaseException) -> bool:
    """Tell whether an error that ends a request after a reply comes of that, as from a session's `raise_for_status`."""
    return isinstance(error, Exception) and not isinstance(error, (aiohttp.ClientConnectionError, OSError))


class _Signals(TraceConfig):
    """What a session, or every session, tells us."""

    def __init__(self, boundary: FailureBoundary, recorder: FailureRecorder | None) -> None:
        super().__init__(self._begin)  # type: ignore[arg-type]  # aiohttp calls it, and passes on what it returns
        self._boundary = boundary
        self._recorder = recorder
        self.is_on = True
        self.on_connection_create_start.append(self._connect)
        self.on_connection_create_end.append(self._connected)
        self.on_request_end.append(self._end)
        self.on_request_redirect.append(self._redirect)
        self.on_request_exception.append(self._fail)
        self.freeze()

    def _begin(self, trace_request_ctx: object = None) -> _Exchange | None:  # noqa: ARG002 - aiohttp names it
        with _AIOHTTP:
            return _Exchange(self._boundary, self._recorder) if self.is_on else None
        return None

    async def _connect(self, _: ClientSession, exchange: Any, __: object) -> None:  # noqa: ANN401
        with _AIOHTTP:
            if exchange is not None:
                exchange.connects()

    async def _connected(self, _: ClientSession, exchange: Any, __: object) -> None:  # noqa: ANN401
        with _AIOHTTP:
            if exchange is not None:
                exchange.has_connected()

    async def _end(self, _: ClientSession, exchange: Any, params: aiohttp.TraceRequestEndParams) -> None:  # noqa: ANN401
        with _AIOHTTP:
            if exchange is not None:
                exchange.answered(params.response)
                watch_body(params.response, exchange)

    async def _redirect(self, _: ClientSession, exchange: Any, params: aiohttp.TraceRequestRedirectParams) -> None:  # noqa: ANN401
        with _AIOHTTP:
            if exchange is not None:
                exchange.answered(params.response)

    async def _fail(self, _: ClientSession, exchange: Any, params: aiohttp.TraceRequestExceptionParams) -> None:  # noqa: ANN401
        with _AIOHTTP:
            if exchange is not None:
                exchange.ended(params.exception)


_all_signals: Final[WeakSet[_Signals]] = WeakSet()
_every_session: _Signals | None = None
_undo: Final[list[Callable[[], None]]] = []


def instrument_aiohttp(
    *, boundary: FailureBoundary | str = FailureBoundary.COLLECTION, recorder: FailureRecorder | None = None
) -> None:
    """Watch every ClientSession that is made from now on; the last call counts.

    Outside of a request, failures are observed at `boundary` and written by `recorder` (None: the process's own); in
    a request its log says both. Raises ValueError for a boundary that does not exist.
    """
    global _every_session  # noqa: PLW0603 - one choice a process
    signals = _new_signals(boundary, recorder)
    if _every_session is not None:
        _every_session.is_on = False
    _every_session = signals


def instrument_session(
    session: ClientSession,
    *,
    boundary: FailureBoundary | str = FailureBoundary.COLLECTION,
    recorder: FailureRecorder | None = None,
) -> None:
    """Watch one session, such as one made before `instrument_aiohttp`; the last call for a session counts.

    The arguments are those of `instrument_aiohttp`.
    """
    signals = _new_signals(boundary, recorder)
    others = [one for one in session.trace_configs if not isinstance(one, _Signals)]
    session._trace_configs = [signals, *others]  # noqa: SLF001 - as OpenTelemetry's own instrumentation does


def uninstrument_aiohttp() -> None:
    """Undo `instrument_aiohttp` and `instrument_session`, in the sessions that they have reached too."""
    global _every_session  # noqa: PLW0603 - one choice a process
    _every_session = None
    for signals in _all_signals:
        signals.is_on = False
    _all_signals.clear()
    while _undo:
        _undo.pop()()


def _new_signals(boundary: FailureBoundary | str, recorder: FailureRecorder | None) -> _Signals:
    signals = _Signals(FailureBoundary(boundary), recorder)
    _all_signals.add(signals)
    if not _undo:
        _undo.extend(
            (
                wrap_method(ClientSession, "__init__", _placing_signals),
                wrap_method(ClientRequest, "send", _watching_send),
                wrap_method(ClientResponse, "start", _watching_start),
                wrap_method(ClientResponse, "read", _watching_read),
            )
        )
    return signals


def _placing_signals(init: Method) -> Method:
    @functools.wraps(init)
    def placing(session: ClientSession, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - as the method
        with _AIOHTTP:
            if _every_session is not None:
                others = [one for one in kwargs.get("trace_configs") or () if not isinstance(one, _Signals)]
                kwargs["trace_configs"] = [_every_session, *others]
        init(session, *args, **kwargs)

    return placing


_Async = Callable[..., Coroutine[Any, Any, Any]]


def _watching_send(send: _Async) -> _Async:
    @functools.wraps(send)
    async def watching(request: ClientRequest, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - as the method
        exchange = _exchange_of(request)
        if exchange is None:
            return await send(request, *args, **kwargs)
        exchange.response = None
        if exchange.is_lost:
            exchange.again()
            exchange.is_lost = False
        try:
            return await send(request, *args, **kwargs)
        except _LOST as error:
            exchange.is_lost = True
            exchange.failed(error)
            raise

    return watching


def _watching_start(start: _Async) -> _Async:
    @functools.wraps(start)
    async def watching(response: ClientResponse, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - as the method
        exchange = _exchange_of(response)
        try:
            waiting = start(response, *args, **kwargs)
            del args, kwargs  # Thousands of calls can wait at a time.
            result = await waiting
        except _LOST as error:
            if exchange is not None:
                exchange.is_lost = True
                exchange.failed(error)
            raise
        if exchange is not None:
            exchange.response = response
        return result

    return watching


def _watching_read(read: _Async) -> _Async:
    @functools.wraps(read)
    async def watching(response: ClientResponse, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - as the method
        try:
            return await read(response, *args, **kwargs)
        except BROKEN as error:
            exchange = _exchange_of(response)
            if exchange is not None:
                exchange.failed(error)
            raise

    return watching


def _exchange_of(part: ClientRequest | ClientResponse) -> _Exchange | None:
    """Return the exchange that a request or a response belongs to, if it is watched."""
    with _AIOHTTP:
        for trace in part._traces:  # noqa: SLF001 - there is no public way from a response to its signals
            if isinstance(trace._trace_config_ctx, _Exchange):  # noqa: SLF001 - as above
                return trace._trace_config_ctx  # noqa: SLF001 - as above
    return None
