"""The log of an HTTP request: its span is found on the way, its stage and its operation are known after routing."""

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from opentelemetry import trace
from opentelemetry.context import Context, get_current
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

_DISCONNECTED: Final = "the client was gone before the reply was complete"

_VERIFY: Final = "/verify"
"""End of the path by which a resources server is asked for a reward, as `nemo_gym.base_resources_server` has it."""

_TOLD: Final = (
    *("type", "method", "scheme", "path", "root_path", "query_string", "headers", "client", "server"),
    *("app", "endpoint", "path_params", "route", "fastapi"),
)
"""What the functions of the user are told of a request that is over."""

_STAGE: Final = Guard("stage")
_OPERATION: Final = Guard("operation")


class Place(NamedTuple):
    """What the user says of a server: its boundary, and the stage and operation of a request, or how to find them."""

    boundary: FailureBoundary
    stage: Stage
    operation: Operation

    def told_later(self, scope: Scope) -> Scope:
        """Return what is kept of a scope once its request is over: what says which it was, and holds nothing of it."""
        if callable(self.stage) or callable(self.operation):
            return {key: scope[key] for key in _TOLD if key in scope}
        # What names an operation and a verification. Nearly every request ends so, and nothing more is asked of it.
        return {
            "method": scope.get("method"),
            "path": scope.get("path", ""),
            "route": scope.get("route"),
            "fastapi": scope.get("fastapi"),
        }


class RequestLog(FailureLog):
    """A log that looks for the request's span, and asks for stage and operation, when a failure needs them."""

    __slots__ = ("_foreign_span", "_place", "_reply", "_scope", "_seen")

    def __init__(
        self,
        place: Place,
        scope: Scope,
        recorder: FailureRecorder,
        *,
        seen: Sequence[Context],
        foreign_span: Span | None,
    ) -> None:
        """Open the log of the request with that ASGI scope.

        `seen` are the contexts in which it was seen, at entry and then further in, and more may be added.
        `foreign_span`, that of an in-process caller, never stands for the request.
        """
        super().__init__(place.boundary, recorder=recorder, span=trace.INVALID_SPAN)
        self._was_entered = True  # It is the middleware's block, and nobody else ends it.
        self._place = place
        self._scope = scope
        self._seen = seen
        self._reply: Context | None = None
        self._foreign_span = foreign_span

    @property
    def span(self) -> Span:
        """The server's span, wherever it was seen; else best the outermost one from within the app."""
        entry, *within = map(trace.get_current_span, self._seen)
        reply = [] if self._reply is None else [trace.get_current_span(self._reply)]
        servers = [span for span in (entry, *within, *reply) if _kind(span) is SpanKind.SERVER]
        # At entry an in-process caller's span can be current.
        others = [span for span in (*within, entry, *reply) if _kind(span) is not SpanKind.CLIENT]
        not_ours = (trace.INVALID_SPAN, self._foreign_span)
        return next((span for span in (*servers, *others) if span not in not_ours), trace.INVALID_SPAN)

    def replies_here(self) -> None:
        """Look for the span in the current context too, which is that of the reply's start."""
        self._reply = get_current()

    def close(self) -> None:
        """End the log; it holds no more of the scope from now on than what a late failure says of the request."""
        super().close()
        self._scope = self._place.told_later(self._scope)

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
        """The stage that the request serves; None where it is unknown, or the user's function says so or raises.

        Nobody has to say what the one route is that every resources server of NeMo Gym has.
        """
        stage = self._place.stage
        if stage is None:
            verifies = self.boundary is FailureBoundary.RESOURCES_SERVER and str(self._scope["path"]).endswith(_VERIFY)
            return FailureStage.VERIFICATION if verifies else None
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


def _kind(span: Span) -> SpanKind | None:
    """Return the kind of a span; None where it is not known, as of one that does not record."""
    return getattr(span, "kind", None)
