"""The log of an HTTP request: its span is found on the way, its stage and its operation are known after routing."""

from collections.abc import Callable
from typing import Final, NamedTuple

from opentelemetry import trace
from opentelemetry.trace import Span, SpanKind

from gym_failures import kinds
from gym_failures.guard import Guard
from gym_failures.ids import new_id
from gym_failures.instrumentation.asgi.scope import Scope, operation_of
from gym_failures.kinds import FailureBoundary, FailureStage
from gym_failures.log import FailureLog
from gym_failures.recorder import FailureRecorder
from gym_failures.records import FailureEvent

Stage = FailureStage | str | Callable[[Scope], FailureStage | str | None] | None
Operation = str | Callable[[Scope], str | None] | None

AT_REPLY: Final = 0
AT_ENTRY: Final = 1
WITHIN: Final = 2
"""Where a span was found. The server's stands for the request wherever it was; else best one from within the app."""

_NOT_FOUND: Final = trace.INVALID_SPAN

# To look a member up costs as much as to find the span.
_SERVER_KIND: Final = SpanKind.SERVER
_CLIENT_KIND: Final = SpanKind.CLIENT

_DISCONNECTED: Final = "the client was gone before the reply was complete"

_STAGE: Final = Guard("stage")
_OPERATION: Final = Guard("operation")


class Place(NamedTuple):
    """What the user says of a server: its boundary, and the stage and operation of a request, or how to find them."""

    boundary: FailureBoundary
    stage: Stage
    operation: Operation


class RequestLog(FailureLog):
    """A log that looks for the request's span, and asks for stage and operation when a failure needs them."""

    __slots__ = ("_foreign_span", "_place", "_rank", "_scope", "has_server_span")

    def __init__(self, place: Place, scope: Scope, recorder: FailureRecorder) -> None:
        """Open the log of the request with that ASGI scope; its span is still to be found."""
        super().__init__(place.boundary, recorder=recorder, span=_NOT_FOUND)
        self._place = place
        self._scope = scope
        self._rank = -1
        self.has_server_span = False
        """Whether the request's span is the server's, so that no other need be looked for."""
        self._foreign_span: Span | None = None

    def find_span(self, where: int) -> None:
        """Take the current span as the request's, unless a better one is known; `where` says which part looks."""
        if self.has_server_span:
            return
        span = trace.get_current_span()
        if span is _NOT_FOUND or span is self._foreign_span:
            return
        kind = getattr(span, "kind", None)
        if kind is _SERVER_KIND:
            self.has_server_span = True
        elif where <= self._rank or kind is _CLIENT_KIND:
            return
        self._rank = where
        self._span = span

    def refuse_span(self, caller: Span) -> None:
        """Never take the current span if it is the caller's, for a server that is called from within its process.

        A server span that is not that of the caller's own request was opened for this one on the way.
        """
        span = trace.get_current_span()
        if span is caller or getattr(span, "kind", None) is not _SERVER_KIND:
            self._foreign_span = span

    def disconnected(self) -> FailureEvent:
        """Return the failure of a request whose client did not wait for the reply."""
        return FailureEvent(
            event_id=new_id(),
            boundary=self.boundary,
            failure_kind=kinds.CANCELLED,
            failure_reason=_DISCONNECTED,
            stage=self.stage,
            operation=self.operation,
        )

    @property
    def stage(self) -> FailureStage | None:
        """The stage that the request serves; None where it is unknown, or the user's function raises."""
        stage = self._place.stage
        with _STAGE:
            found = stage(self._scope) if callable(stage) else stage
            return None if found is None else FailureStage(found)
        return None

    @property
    def operation(self) -> str | None:
        """What the request is called; None where the user's function raises."""
        operation = self._place.operation
        if operation is None:
            return operation_of(self._scope)
        with _OPERATION:
            return operation(self._scope) if callable(operation) else operation
        return None
