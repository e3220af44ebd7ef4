"""One HTTP request and its reply, as the parts of the middleware watch it."""

from asyncio import CancelledError, current_task
from typing import Final

from gym_failures import limits
from gym_failures.header import decode_reports
from gym_failures.instrumentation.asgi.observed import GUARD, ObservedRequest
from gym_failures.instrumentation.asgi.reply import (
    comment,
    is_last,
    takes_a_comment,
    with_readable_headers,
    with_report,
    without_report,
)
from gym_failures.instrumentation.asgi.scope import Headers, Message, Receive, Send, has_report, is_report
from gym_failures.recording import current
from gym_failures.records import FailureEvent
from gym_failures.waiting import end as end_of_waiting

SCOPE_KEY: Final = "gym_failures.request"
"""Where the ASGI scope of a request holds its `Exchange`, so that it has one, whatever is mounted or wrapped."""


class Exchange(ObservedRequest):
    """What happens to one request: failures are put into its log, and the log into its reply."""

    _headers: Headers = ()
    last_byte: bytes = b""
    """The last byte of the body so far."""
    _own_in_header: FailureEvent | None = None
    _trailers = False

    def close(self) -> None:
        """End the log, and let go of what would keep the request in memory for as long as this is.

        That can be long: whatever is begun while a request is served has a copy of its context, such as a connection
        that a client keeps.
        """
        try:
            current.reset(self.outside)
            for take_back in self.undo:
                take_back()
        except ValueError:
            pass  # Whoever closes the coroutine does so in a context of its own, where nothing was set.
        self._closed = True
        end_of_waiting(self.waiting)
        self.scope = self._place.told_later(self.scope)
        self._handled_before = None
        if self.uneventful:
            return
        if self._gone and not self.finished:
            self._settle_gone()
        self.log.close()
        self._error = self._cancelled = self._lost = None

    # --- The reply ----------------------------------------------------------------------------------------------------

    def start(self, message: Message) -> Message:
        """Return the start of the reply, with the report in it if there is one to give."""
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
            if not self.uneventful or status >= limits.SERVER_ERROR_STATUS or has_report(headers):
                message = self._decide(message, status)
        except Exception as error:  # noqa: BLE001 - as the guard does
            GUARD.report(error)
        self._started = True
        if not self.uneventful and self._log is not None:
            self._log.seal()
        return message

    def ends_with(self, message: Message) -> bool:
        """Tell whether a message without more of a body is the last one of the reply."""
        if self._trailers:
            return is_last(message, trailers=True)
        return message["type"] == "http.response.body" or is_last(message, trailers=False)

    def ending(self, message: Message) -> Message | None:
        """Return what has to come before the end of a reply that failed after it had started."""
        with GUARD:
            self.last_byte = bytes(message.get("body", b"")[-1:]) or self.last_byte
            return self._end_of_stream()
        return None

    def leave(self, error: BaseException) -> Message | None:
        """Decide on an exception that leaves the app, and return the comment that a broken event stream gets."""
        with GUARD:
            return self._leave(self._known(error))
        return None

    def leaves(self, error: OSError | None = None) -> None:
        """Take note that the client has gone, and of the error with which the server has said so.

        After the reply that is no news: whoever asks then is told of the end of the request.
        """
        if self.finished:
            return
        self._gone = True
        self.uneventful = False
        if error is not None:
            self._lost = error

    # --- Within -------------------------------------------------------------------------------------------------------

    def _decide(self, message: Message, status: int) -> Message:
        """Decide the own failure, and return the message with the report, if there is one to give."""
        log = self.log
        log.replies_here()
        if self._gone:
            self._settle_gone()
            return message
        relayed = [value for name, value in self._headers if is_report(name)]
        report = decode_reports(log.not_refused(relayed)) if relayed else None
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
        return without_report(message, self._headers) if relayed else message

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
        if self.finished:
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
            return comment(self.log, self.last_byte)
        return None


class Wire:
    """The messages of one request between the server and its app, each shown to the exchange and passed on.

    The exchange does not know it, so that whatever holds that does not hold the server's connection too.
    """

    __slots__ = ("_exchange", "_receive", "_send")

    def __init__(self, exchange: Exchange, receive: Receive, send: Send) -> None:
        """Stand between what the server gives and the app."""
        self._exchange: Final = exchange
        self._receive: Final = receive
        self._send: Final = send

    async def receive(self) -> Message:
        """Pass on what the server received; notice that the client has gone."""
        message = await self._receive()
        if message["type"] == "http.disconnect":
            self._exchange.leaves()
        return message

    async def send(self, message: Message) -> None:
        """Pass on what the app sends: its start with the report, all the rest as it is."""
        exchange = self._exchange
        last = False
        if message["type"] == "http.response.start":
            message = exchange.start(message)
        elif message.get("more_body"):
            try:
                if body := message.get("body"):
                    exchange.last_byte = bytes(body[-1:])  # A copy: a view's buffer is the app's, to use again.
            except Exception as error:  # noqa: BLE001 - as the guard does, for each chunk of a stream
                GUARD.report(error)
        else:
            last = exchange.ends_with(message)
        try:
            if last and not exchange.uneventful:
                message = await self._before_the_end(message)
            await self._send(message)
        except OSError as error:
            exchange.leaves(error)
            raise
        if last:
            exchange.finished = True

    async def leave(self, error: BaseException) -> None:
        """Send what a reply that an exception broke gets at its end."""
        ending = self._exchange.leave(error)
        if ending is not None:
            with GUARD:
                await self._send(ending)

    async def _before_the_end(self, message: Message) -> Message:
        """Send what comes before the end of a reply that failed after it had started, and return the end."""
        ending = self._exchange.ending(message)
        if ending is None:
            return message
        if message.get("body"):
            await self._send({**message, "more_body": True})
            message = {**message, "body": b""}
        with GUARD:
            await self._send(ending)
        return message


def _is_cancelling() -> bool:
    """Tell whether the current task is being cancelled, as at a server's shutdown; False outside of asyncio."""
    try:
        task = current_task()
    except RuntimeError:
        return False
    return task is not None and task.cancelling() > 0
