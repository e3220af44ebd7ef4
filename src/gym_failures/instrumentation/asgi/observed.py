"""One HTTP request as the parts of the middleware observe it: its log, and what fails."""

import sys
from asyncio import CancelledError
from collections.abc import Callable
from contextvars import Token
from typing import Any, Final

from opentelemetry.context import get_current
from opentelemetry.trace import Span

from gym_failures import kinds, limits
from gym_failures.guard import Guard
from gym_failures.instrumentation.asgi.request_log import Place, RequestLog
from gym_failures.instrumentation.asgi.scope import Scope
from gym_failures.marks import cause_of, members_of
from gym_failures.recorder import FailureRecorder
from gym_failures.recording import CurrentLog
from gym_failures.records import FailureEvent
from gym_failures.waiting import Waiting

GUARD: Final = Guard("asgi")


class ObservedRequest:
    """One request, and what is seen to fail while it is served.

    In the context it stands for its log, which is made when something is to be put into it: nearly every request goes
    well. All of its own work is guarded.
    """

    # What has not happened, and is not asked of every request, is said here, once for all of them.
    _log: RequestLog | None = None
    foreign_span: Span | None = None
    """The span of a caller within this process, which is not the request's."""
    outside: Token[CurrentLog | None]
    """What was in the place of this request before."""
    undo: tuple[Callable[[], object], ...] = ()
    """What takes back at the end what the middleware has set in the context, beside `outside`."""
    waiting: Waiting | None = None
    """The watch over how long it takes, if anybody watches."""
    # What the app has sent; a middleware may hold it back, so what has reached the server is another matter.
    begun = ended = finished = False
    _started = _closed = False
    uneventful = True
    """Nothing is in the log, and the client is there."""
    # What was seen to fail, whether it broke the reply; and the end of work for a client that is gone.
    _error: Exception | None = None
    _broken = False
    _cancelled: BaseException | None = None
    _gone = False
    _lost: OSError | None = None

    def __init__(self, place: Place, recorder: FailureRecorder, scope: Scope) -> None:
        """Begin with nothing seen."""
        self.recorder = recorder
        self._place = place
        self.scope = scope
        """As the app has it: a middleware that rewrites a path may hand on a copy, and routing writes into that."""
        self._handled_before = sys.exception()
        self.seen = [get_current()]
        """The contexts in which the request was seen, from the outside in: each may hold its span."""

    # --- The log ------------------------------------------------------------------------------------------------------

    @property
    def log(self) -> RequestLog:
        """The log of the request, in the state that the reply is in."""
        if self._log is None:
            made = RequestLog(self._place, self.scope, self.recorder, seen=self.seen, foreign_span=self.foreign_span)
            # Looks and claims in one step, for threads that come at the same time.
            self._log = self.__dict__.setdefault("_log", made)
            self.uneventful = False
            # Only now, because the reply may have got further meanwhile.
            if self._started:
                self._log.seal()
            if self._closed:
                self._log.close()
        return self._log

    @property
    def span(self) -> Span:
        """The span that stands for the request."""
        return self.log.span

    def observe_failure(self, failure: BaseException | FailureEvent, **context: Any) -> FailureEvent | None:  # noqa: ANN401 - passed on
        """Put a failure into the log, see `FailureLog.observe_failure`."""
        return self.log.observe_failure(failure, **context)

    # --- What fails ---------------------------------------------------------------------------------------------------

    def observe(self, error: BaseException) -> None:
        """Record an exception that passes, at once, on the request's span; one that breaks the reply decides it."""
        with GUARD:
            error = self._known(error)
            if isinstance(error, GeneratorExit) or error is self._error or error is self._lost:
                return
            event = self.log.observe_failure(error, span=self.log.span)
            if self.ended or self.finished or event is None:
                return
            if not isinstance(error, Exception) or event.failure_kind == kinds.CANCELLED:
                self._cancelled = error
                return
            self._error = error
            if self.begun or self._started:
                self._broken = True
                self.log.settle(error)  # Now, because outside of an inner part the span may have ended.

    def observe_handled(self) -> None:
        """Record the exception that the app is handling while it begins to answer with a 5xx."""
        error = self._handled()
        if error is not None:
            self.observe(error)

    def begin(self, status: int) -> None:
        """Take note, in the app's own task, that it begins to answer."""
        with GUARD:
            if status < limits.HTTP_FINAL_STATUS_MIN:
                return
            if status >= limits.SERVER_ERROR_STATUS:
                self.observe_handled()
            self.begun = True

    def leave_span(self, ends: Callable[[], bool]) -> None:
        """Decide the own failure before the reply starts, if the request's span `ends` right here."""
        with GUARD:
            if self._error is not None and not (self.begun or self._started) and ends():
                self.log.settle(self._error)

    def _handled(self) -> BaseException | None:
        """Return the exception that is being handled right now, in this request and by nobody outside."""
        error = sys.exception()
        return error if isinstance(error, Exception | CancelledError) and error is not self._handled_before else None

    def _known(self, error: BaseException) -> BaseException:
        """Return the exception that stands for `error`: for each CancelledError the first one of the request.

        One cancellation is another CancelledError in each task, and in each task group that ends because of it.
        """
        error = _bare(error)
        if not isinstance(error, CancelledError):
            return error
        if not isinstance(self._cancelled, CancelledError):
            self._cancelled = error
        return self._cancelled


def _bare(error: BaseException) -> BaseException:
    """Return the one exception of a group that a task group wrapped it into; the group says nothing more."""
    while len(members := members_of(error)) == 1 and cause_of(error) is None:
        error = members[0]
    return error
