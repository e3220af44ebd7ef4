"""One HTTP request and its reply, as the parts of the middleware watch it."""

import sys
from asyncio import CancelledError, current_task
from collections.abc import Callable
from contextvars import Token
from typing import Any, Final

from opentelemetry.context import get_current
from opentelemetry.trace import Span

from gym_failures import kinds, limits
from gym_failures.guard import Guard
from gym_failures.header import decode_reports
from gym_failures.instrumentation.asgi.reply import (
    comment,
    is_last,
    takes_a_comment,
    with_readable_headers,
    with_report,
)
from gym_failures.instrumentation.asgi.request_log import Place, RequestLog
from gym_failures.instrumentation.asgi.scope import Headers, Message, Receive, Scope, Send, has_report, is_report
from gym_failures.marks import cause_of, members_of
from gym_failures.recorder import FailureRecorder
from gym_failures.recording import CurrentLog, current
from gym_failures.records import FailureEvent

SCOPE_KEY: Final = "gym_failures.request"
"""Where the ASGI scope of a request holds its `Exchange`, so that it has one, whatever is mounted or wrapped."""

_GUARD: Final = Guard("asgi")


class Exchange:
    """What happens to one request: failures are put into its log, and the log into its reply.

    It passes every message and every exception on. All of its own work is guarded. In the context it stands for its
    log, which is made when something is to be put into it: nearly every request goes well.
    """

    # What has not happened, and is not asked of every request, is said here, once for all of them.
    _log: RequestLog | None = None
    foreign_span: Span | None = None
    """The span of a caller within this process, which is not the request's."""
    outside: Token[CurrentLog | None]
    """What was in the place of this request before."""
    # What the app has sent; a middleware may hold it back, so what has reached the server is another matter.
    begun = ended = False
    _finished = _closed = False
    _headers: Headers = ()
    _last_byte: bytes = b""
    _own_in_header: FailureEvent | None = None
    # What was seen to fail, whether it broke the reply; and the end of work for a client that is gone.
    _error: Exception | None = None
    _broken = False
    _cancelled: BaseException | None = None
    _gone = False
    _lost: OSError | None = None

    def __init__(self, place: Place, recorder: FailureRecorder, scope: Scope, receive: Receive, send: Send) -> None:
        """Begin with nothing sent."""
        self.recorder = recorder
        self._place = place
        self.scope = scope
        """As the app has it: a middleware that rewrites a path may hand on a copy, and routing writes into that."""
        self._receive = receive
        self._send = send
        self._handled_before = sys.exception()
        self._uneventful = True  # Nothing is in the log, and the client is there.
        self._started = self._trailers = False
        self.undo: tuple[Callable[[], object], ...] = ()
        """What takes back at the end what the middleware has set in the context, beside `outside`."""
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
            self._uneventful = False
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
        with _GUARD:
            error = self._known(error)
            if isinstance(error, GeneratorExit) or error is self._error or error is self._lost:
                return
            event = self.log.observe_failure(error, span=self.log.span)
            if self.ended or self._finished or event is None:
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
        with _GUARD:
            if status < limits.HTTP_FINAL_STATUS_MIN:
                return
            if status >= limits.SERVER_ERROR_STATUS:
                self.observe_handled()
            self.begun = True

    def leave_span(self, ends: Callable[[], bool]) -> None:
        """Decide the own failure before the reply starts, if the request's span `ends` right here."""
        with _GUARD:
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

    # --- ASGI ---------------------------------------------------------------------------------------------------------

    async def receive(self) -> Message:
        """Pass on what the server received; notice that the client has gone."""
        message = await self._receive()
        if message["type"] == "http.disconnect":
            self._leaves()
        return message

    async def send(self, message: Message) -> None:
        """Pass on what the app sends: its start with the report, all the rest as it is."""
        kind = message["type"]
        last = False
        if kind == "http.response.start":
            message = self._start(message)
        elif message.get("more_body"):
            try:
                self._keep_last_byte(message)
            except Exception as error:  # noqa: BLE001 - as the guard does, for each chunk of a stream
                _GUARD.report(error)
        else:
            last = (kind == "http.response.body" and not self._trailers) or is_last(message, trailers=self._trailers)
        try:
            if last and not self._uneventful:
                message = await self._end(message)
            await self._send(message)
        except OSError as error:
            self._leaves()
            self._lost = error
            raise
        if last:
            self._finished = True

    async def leave(self, error: BaseException) -> None:
        """Decide on an exception that leaves the app; a broken event stream gets its comment."""
        ending: Message | None = None
        with _GUARD:
            ending = self._leave(self._known(error))
        if ending is not None:
            with _GUARD:
                await self._send(ending)

    def close(self) -> None:
        """End the log, and let go of the exceptions, whose frames would keep the request alive."""
        try:
            current.reset(self.outside)
            for take_back in self.undo:
                take_back()
        except ValueError:
            pass  # Whoever closes the coroutine does so in a context of its own, where nothing was set.
        self._closed = True
        if self._uneventful:
            return
        if self._gone and not self._finished:
            self._settle_gone()
        self.log.close()
        self._error = self._cancelled = self._lost = self._handled_before = None

    # --- Within -------------------------------------------------------------------------------------------------------

    def _keep_last_byte(self, message: Message) -> None:
        if body := message.get("body"):
            self._last_byte = bytes(body[-1:])  # A copy: a view's buffer is the app's, to use again.

    def _leaves(self) -> None:
        self._gone = True
        self._uneventful = False

    def _start(self, message: Message) -> Message:
        try:
            status = message["status"]
            if self._started or status < limits.HTTP_FINAL_STATUS_MIN:
                return message
            if message.get("trailers"):
                self._trailers = True
            headers = message.get("headers", ())
            if not isinstance(headers, (list, tuple)):
                message, headers = with_readable_headers(message)
            self._headers = headers
            if not self._uneventful or status >= limits.SERVER_ERROR_STATUS or has_report(headers):
                message = self._decide(message, status)
        except Exception as error:  # noqa: BLE001 - as the guard does
            _GUARD.report(error)
        self._started = True
        if not self._uneventful and self._log is not None:
            self._log.seal()
        return message

    def _decide(self, message: Message, status: int) -> Message:
        """Decide the own failure, and return the message with the report, if there is one to give."""
        log = self.log
        log.replies_here()
        if self._gone:
            self._settle_gone()
            return message
        relayed = [value for name, value in self._headers if is_report(name)]
        report = decode_reports(relayed) if relayed else None
        if report is not None:
            report = log.observe_reply(report, span=log.span)
        relayed_id = None if report is None else report.failure_id
        error: BaseException | None = None
        if status >= limits.SERVER_ERROR_STATUS:
            handled = self._handled()
            error = (self._error or self._cancelled) if handled is None else self._known(handled)
            if error is None and relayed_id is None and log.own is None and _is_cancelling():
                # Whoever answers has heard of it before the inner parts have.
                error = self._known(CancelledError())
        log.settle(error, status=status, relayed_id=relayed_id)
        self._own_in_header = log.own
        self._broken = False
        if log.has_failures and log.recorder.config.replies_to(self.scope):
            return with_report(message, self._headers, log)
        return message

    async def _end(self, message: Message) -> Message:
        """Send what comes before the end of a reply that failed after it had started, and return the end."""
        ending: Message | None = None
        with _GUARD:
            self._keep_last_byte(message)
            ending = self._end_of_stream()
        if ending is None:
            return message
        if message.get("body"):
            await self._send({**message, "more_body": True})
            message = {**message, "body": b""}
        with _GUARD:
            await self._send(ending)
        return message

    def _end_of_stream(self) -> Message | None:
        """Return the comment for a reply that its app ends as if all had gone well."""
        if not self._broken and not self._gone and self.log.own is self._own_in_header:
            return None
        if self._gone:
            self._settle_gone()
            return None
        self.log.settle()
        return self._comment()

    def _leave(self, error: BaseException) -> Message | None:
        if isinstance(error, GeneratorExit):
            return None
        if self._finished:
            self.log.observe_failure(error)
            return None
        if self._gone or not isinstance(error, Exception):
            self._settle_gone(error)
            return None
        self.log.settle(error)
        return self._comment() if self._started else None

    def _settle_gone(self, error: BaseException | None = None) -> None:
        """Decide that the request ended because nobody waits for it, or with `error` if that is something else."""
        error = self._cancelled if error is None or error is self._lost else error
        if error is None and self.log.own is None:
            self.log.fail(self.log.disconnected())
        self.log.settle(error)

    def _comment(self) -> Message | None:
        if self._trailers:
            return None  # The body may have ended, and nothing of a body can follow then.
        if takes_a_comment(self.scope, self._headers) and self.log.recorder.config.replies_to(self.scope):
            return comment(self.log, self._last_byte)
        return None


def _is_cancelling() -> bool:
    """Tell whether the current task is being cancelled, as at a server's shutdown; False outside of asyncio."""
    try:
        task = current_task()
    except RuntimeError:
        return False
    return task is not None and task.cancelling() > 0


def _bare(error: BaseException) -> BaseException:
    """Return the one exception of a group that a task group wrapped it into; the group says nothing more."""
    while len(members := members_of(error)) == 1 and cause_of(error) is None:
        error = members[0]
    return error
