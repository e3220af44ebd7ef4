"""The two ASGI parts: an outer one, which holds the log and sees the reply, and inner ones, which see more.

The outer part alone is enough for an app that lets its exceptions pass. Inside of whatever turns exceptions into
replies, or copies messages from one task to another, only an inner part sees the exception itself, and the span that
OpenTelemetry opened between the two.
"""

from collections.abc import Callable
from contextvars import Token
from functools import partial
from typing import Final

from opentelemetry import context, trace
from opentelemetry.context import Context

from gym_failures.config import Config
from gym_failures.guard import Guard
from gym_failures.instrumentation.asgi.exchange import AT_ENTRY, SCOPE_KEY, SERVER, WITHIN, Exchange
from gym_failures.instrumentation.asgi.scope import HEADER, App, Receive, Scope, Send, is_report, operation_of
from gym_failures.kinds import FailureBoundary, FailureStage
from gym_failures.log import FailureLog
from gym_failures.operations import close_off_operation
from gym_failures.propagation import FailureReportPropagator
from gym_failures.recorder import FailureRecorder, default_recorder
from gym_failures.recording import current

Stage = FailureStage | str | Callable[[Scope], FailureStage | str | None] | None
Operation = str | Callable[[Scope], str | None] | None

_GUARD: Final = Guard("asgi")
_STAGE: Final = Guard("stage")
_OPERATION: Final = Guard("operation")
_propagator: Final = FailureReportPropagator()


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

        `stage` is that of every request, or a function of the ASGI scope; None is unknown. `operation` is what a
        request is called, or a function of the scope; None is ``<service> <METHOD> <route>``. The functions are called
        when a failure needs them, after routing; one that raises says None. `recorder` None takes the process's own.
        Raises ValueError for a boundary or a stage that does not exist, and ConfigError for a wrong environment.
        """
        self.app = app
        self.boundary: Final = FailureBoundary(boundary)
        self.stage: Final = FailureStage(stage) if isinstance(stage, str) else stage
        self.operation: Final = operation
        self.recorder: Final = recorder
        if recorder is None:
            Config.from_env()  # A wrong environment is an error now and not a warning within the first request.

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one scope."""
        exchange: Exchange | None = None
        if scope["type"] == "http" and SCOPE_KEY not in scope:
            with _GUARD:
                exchange = self._open(scope, receive, send)
        if exchange is None:
            await self.app(scope, receive, send)
            return
        try:
            await self.app(scope, exchange.receive, exchange.send)
        except BaseException as error:
            await exchange.leave(error)
            raise
        finally:
            # Each holds the other, so that without this only the garbage collector would end them.
            scope.pop(SCOPE_KEY, None)
            exchange.close()

    def _open(self, scope: Scope, receive: Receive, send: Send) -> Exchange | None:
        """Return what watches this request; None where the package is switched off."""
        recorder = self.recorder or default_recorder()
        if not recorder.config.enabled:
            return None
        log = FailureLog(
            self.boundary,
            stage=partial(_stage_of, self.stage, scope) if callable(self.stage) else self.stage,
            operation=partial(_operation_of, self.operation, scope),
            recorder=recorder,
            span=trace.INVALID_SPAN,
        )
        exchange = Exchange(log, scope, receive, send)
        span = trace.get_current_span()
        caller = current.get()
        if caller is not None:
            # Called from within the process, by the code of another request. What is current there is the caller's,
            # except a server span that was opened for this request on the way.
            if span is caller.span or getattr(span, "kind", None) is not trace.SpanKind.SERVER:
                exchange.refuse(span)
            exchange.undo.append(close_off_operation())
        exchange.adopt(span, AT_ENTRY)
        received = _attach_received(scope)
        if received is not None:
            exchange.undo.append(partial(context.detach, received))
        exchange.undo.append(partial(current.reset, current.set(log)))
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
        if exchange.rank < SERVER:
            exchange.adopt(trace.get_current_span(), WITHIN)
        try:
            await self.app(scope, receive, send if self._span_ends_outside else exchange.watched(send))
        except BaseException as error:
            exchange.observe(error)
            if self._span_ends_outside is not None:
                exchange.leave_span(self._span_ends_outside)
            raise


def _attach_received(scope: Scope) -> Token[Context] | None:
    """Put a report that the request brings where `get_report` finds it; most bring none."""
    for name, _ in scope["headers"]:
        if len(name) == len(HEADER) and is_report(name):
            return context.attach(_propagator.extract(scope["headers"]))
    return None


def _stage_of(stage: Callable[[Scope], FailureStage | str | None], scope: Scope) -> FailureStage | None:
    with _STAGE:
        found = stage(scope)
        return None if found is None else FailureStage(found)
    return None


def _operation_of(operation: Operation, scope: Scope) -> str | None:
    if callable(operation):
        with _OPERATION:
            return operation(scope)
        return None
    return operation_of(scope) if operation is None else operation
