"""The two ASGI parts: an outer one, which holds the log and sees the reply, and inner ones, which see more.

The outer part alone is enough for an app that lets its exceptions pass. Inside of whatever turns exceptions into
replies, or copies messages from one task to another, only an inner part sees the exception itself, and the span that
OpenTelemetry opened between the two.
"""

from collections.abc import Callable
from functools import partial
from typing import Final

from opentelemetry import context, trace
from opentelemetry.context import Context
from opentelemetry.trace import Span, SpanKind

from gym_failures.config import Config
from gym_failures.guard import Guard
from gym_failures.instrumentation.asgi.exchange import SCOPE_KEY, Exchange, Wire
from gym_failures.instrumentation.asgi.request_log import Operation, Place, Stage
from gym_failures.instrumentation.asgi.scope import App, Message, Receive, Scope, Send, has_report
from gym_failures.kinds import FailureBoundary, FailureStage
from gym_failures.operations import close_off_operation
from gym_failures.propagation import FailureReportPropagator
from gym_failures.recorder import FailureRecorder, default_recorder
from gym_failures.recording import CurrentLog, current

_GUARD: Final = Guard("asgi")
_propagator: Final = FailureReportPropagator(enabled=True)  # The middleware has looked at the switch already.


class FailureMiddleware:
    """Keep a log of the failures of each HTTP request, and report them in the reply; pure ASGI, for any app.

    Where several wrap one request, as with mounted apps, the outermost keeps the log. Other protocols pass untouched.
    Put it within OpenTelemetry's ASGI middleware, so that the span of the request is there. What fails is recorded,
    never swallowed: every message and every exception passes as it is.
    """

    def __init__(
        self,
        app: App,
        *,
        boundary: FailureBoundary | str,
        stage: Stage = None,
        recorder: FailureRecorder | None = None,
        operation: Operation = None,
    ) -> None:
        """Wrap `app`, which stands at `boundary`.

        `stage` is that of every request, or a function of the ASGI scope, which may return None for unknown; None is
        unknown too, but for paths of a resources server that end in ``/verify``. `operation` is what a request is
        called, or a function of the scope; None is ``<service> <METHOD> <route>``. The functions are called when
        a failure needs them, after routing; one that raises says None, and of a request that is over the scope has no
        more than what says which it was. `recorder` None takes the process's own.
        Raises ValueError for a boundary or a stage that does not exist, and ConfigError for a wrong environment.
        """
        self.app = app
        stage = FailureStage(stage) if isinstance(stage, str) else stage
        self._place: Final = Place(FailureBoundary(boundary), stage, operation)
        self._recorder: Final = recorder
        if recorder is None:
            Config.from_env()  # A wrong environment is an error now and not a warning within the first request.

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one scope."""
        exchange: Exchange | None = None
        if scope["type"] == "http" and SCOPE_KEY not in scope:
            try:
                exchange = self._open(scope)
            except Exception as error:  # noqa: BLE001 - as the guard does
                _GUARD.report(error)
        if exchange is None:
            await self.app(scope, receive, send)
            return
        wire = Wire(exchange, receive, send)
        try:
            await self.app(scope, wire.receive, wire.send)
        except BaseException as error:
            await wire.leave(error)
            raise
        finally:
            # Each holds the other, so that without this only the garbage collector would end them.
            scope.pop(SCOPE_KEY, None)
            try:
                exchange.close()
            except Exception as error:  # noqa: BLE001 - as the guard does
                _GUARD.report(error)

    def _open(self, scope: Scope) -> Exchange | None:
        """Return what watches this request; None where the package is switched off."""
        recorder = self._recorder or default_recorder()
        if not recorder.config.enabled:
            return None
        exchange = Exchange(self._place, recorder, scope)
        caller = current.get()
        if caller is not None:
            exchange.foreign_span = _foreign_span(caller)
            exchange.undo = (close_off_operation(),)
        received = _received(scope)
        if received is not None:
            exchange.undo += (partial(context.detach, context.attach(received)),)
        exchange.outside = current.set(exchange)
        scope[SCOPE_KEY] = exchange
        return exchange


class InnerPart:
    """See what the outer part cannot: the raw exception, and the span that was opened between the two.

    It does nothing for a request that has no outer part.
    """

    def __init__(self, app: App, *, span_ends_outside: Callable[[], bool] | None = None) -> None:
        """Wrap `app`; `span_ends_outside` tells whether the request's span ends just outside of this part.

        None is for the innermost part, which also looks at replies that are made of exceptions.
        """
        self.app = app
        self._span_ends_outside: Final = span_ends_outside

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one scope."""
        exchange: Exchange | None = scope.get(SCOPE_KEY)
        if exchange is None:
            await self.app(scope, receive, send)
            return
        exchange.seen.append(context.get_current())
        if self._span_ends_outside is None:
            exchange.scope = scope
            send = _Watched(exchange, send)
        try:
            await self.app(scope, receive, send)
        except BaseException as error:
            exchange.observe(error)
            if self._span_ends_outside is not None:
                exchange.leave_span(self._span_ends_outside)
            raise


class _Watched:
    """What the app sends, seen in the app's own task; a middleware may hold it back or move it to another."""

    __slots__ = ("_exchange", "_send")

    def __init__(self, exchange: Exchange, send: Send) -> None:
        self._exchange = exchange
        self._send = send

    async def __call__(self, message: Message) -> None:
        kind = message["type"]
        if kind == "http.response.start":
            self._exchange.begin(message["status"])
        await self._send(message)
        if kind == "http.response.body" and not message.get("more_body"):
            self._exchange.ended = True


def _foreign_span(caller: CurrentLog) -> Span | None:
    """Return the current span if it is the caller's, for a server that is called from within its process.

    A server span that is not that of the caller's own request was opened for this one on the way.
    """
    span = trace.get_current_span()
    return None if span is not caller.span and getattr(span, "kind", None) is SpanKind.SERVER else span


def _received(scope: Scope) -> Context | None:
    """Return a context in which `get_report` finds the report that the request brings; None where it brings none."""
    headers = scope.get("headers", ())
    if not isinstance(headers, (list, tuple)) and iter(headers) is headers:
        scope["headers"] = headers = list(headers)  # ASGI allows what can be read only once; the app reads it too.
    return _propagator.extract(headers) if has_report(headers) else None
