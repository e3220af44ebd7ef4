"""The last line of a server-sent stream that broke: a comment that carries the report.

The reply's header is long gone when a stream breaks, so the report follows as one comment line, which every reader of
such streams skips (WHATWG HTML, section 9.2), the openai client too. It stands on a line of its own, though the stream
can break in the middle of one, and brings no blank line, which would complete a half-sent event.
"""

from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Iterator, Mapping
from typing import Final, overload

from gym_failures import limits, selfmetrics
from gym_failures.carried import mark_for
from gym_failures.guard import Guard
from gym_failures.header import decode_report
from gym_failures.log import log_here
from gym_failures.marks import Mark, mark_of, set_mark
from gym_failures.packing import Refusal
from gym_failures.records import FailureReport
from gym_failures.semconv import STREAM_COMMENT_PREFIX

_PREFIX: Final = STREAM_COMMENT_PREFIX.encode("ascii")
_START: Final = b"\n" + _PREFIX
_STREAM: Final = Guard("stream")


def comment_line(value: str, *, after: bytes = b"") -> bytes:
    """Return the bytes to append to a broken stream; `value` is what `header.encode_report` made.

    `after` is what was sent last, at least one byte of it: where that ended a line, another newline would be a blank
    line. Empty is nothing, or a stream whose last line was not ended.
    """
    return (_PREFIX if after.endswith(b"\n") else _START) + value.encode("ascii") + b"\n"


def is_event_stream(headers: Mapping[str, str]) -> bool:
    """Tell whether a reply with these headers is a stream that may end in a comment line; names in any case."""
    content_type = headers.get("content-type") or ""
    encoding = headers.get("content-encoding") or "identity"
    return content_type.lower().startswith("text/event-stream") and encoding.lower() == "identity"


class CommentReader:
    """Find the report in a stream that is handed over chunk by chunk, cut anywhere.

    Keeps at most one line of 8,192 characters and looks at each byte once. Of several such lines the last counts: it is
    that of the server nearest to us, which has seen the others.
    """

    __slots__ = ("_held", "_report", "_value")

    def __init__(self) -> None:
        """Stand at the start of a line."""
        self._held = b"\n"
        self._value: bytes | None = None
        self._report: FailureReport | None = None

    def feed(self, chunk: bytes) -> None:
        """Look at the next bytes of the stream."""
        data = self._held + chunk
        at = data.find(_START)
        while at >= 0:
            begin = at + len(_START)
            end = data.find(b"\n", begin)
            if (len(data) if end < 0 else end) - begin > limits.DECODE_LENGTH:
                selfmetrics.decode_error(Refusal.TOO_LONG)
            elif end < 0:
                self._held = data[at:]
                return
            else:
                self._value = data[begin:end]
            at = data.find(_START, begin)
        # The start itself may be cut; it can only begin at the last newline.
        tail = data[1 - len(_START) :]
        newline = tail.rfind(b"\n")
        self._held = tail[newline:] if newline >= 0 and _START.startswith(tail[newline:]) else b""

    @property
    def report(self) -> FailureReport | None:
        """The report of the last finished comment line so far; None when there was none, or none that can be read."""
        if self._value is not None:
            self._report, self._value = decode_report(self._value.rstrip(b"\r")), None
        return self._report


class StreamWatch:
    """Look on while someone else reads a stream, and at its end hand over the report that it brought.

    `observe` is called once with the report and returns the mark of its own failure. Nothing here raises.
    """

    __slots__ = ("_observe", "_reader")

    def __init__(self, observe: Callable[[FailureReport], Mark | None]) -> None:
        """Begin at the start of the stream."""
        self._observe = observe
        self._reader: CommentReader | None = CommentReader()

    def feed(self, chunk: bytes) -> None:
        """Look at the next bytes."""
        with _STREAM:
            if self._reader is not None:
                self._reader.feed(chunk)

    def end(self, error: BaseException | None = None) -> None:
        """Hand over the report, once; an `error` that broke the stream is marked as what the report says."""
        with _STREAM:
            reader, self._reader = self._reader, None
            report = None if reader is None else reader.report
            mark = None if report is None else self._observe(report)
            if error is not None and mark is not None and mark_of(error) is None:
                set_mark(error, mark)


@overload
def watch(chunks: AsyncIterable[bytes]) -> AsyncIterator[bytes]: ...
@overload
def watch(chunks: Iterable[bytes]) -> Iterator[bytes]: ...
def watch(chunks: AsyncIterable[bytes] | Iterable[bytes]) -> AsyncIterator[bytes] | Iterator[bytes]:
    """Return the chunks of a stream as they are, and observe the report in its last comment line, if there is one.

    For streams that no instrumented client reads. The report goes to the log of the current request, or without one to
    the current span; an exception that ends the stream is linked to it. Whether the peer is believed is for the caller
    to decide.
    """
    log = log_here()

    def observe(report: FailureReport) -> Mark | None:
        understood = log.observe_reply(report)
        return None if understood is None else mark_for(understood)

    watcher = StreamWatch(observe)
    if isinstance(chunks, AsyncIterable):
        return _watched_async(chunks, watcher)
    return _watched(chunks, watcher)


def _watched(chunks: Iterable[bytes], watcher: StreamWatch) -> Iterator[bytes]:
    iterator = iter(chunks)
    try:
        while True:
            try:
                chunk = next(iterator)
            except StopIteration:
                return
            except Exception as error:
                watcher.end(error)
                raise
            watcher.feed(chunk)
            yield chunk
    finally:
        watcher.end()


async def _watched_async(chunks: AsyncIterable[bytes], watcher: StreamWatch) -> AsyncIterator[bytes]:
    iterator = aiter(chunks)
    try:
        while True:
            try:
                chunk = await anext(iterator)
            except StopAsyncIteration:
                return
            except Exception as error:
                watcher.end(error)
                raise
            watcher.feed(chunk)
            yield chunk
    finally:
        watcher.end()
