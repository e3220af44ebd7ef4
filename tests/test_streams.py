"""The comment line of a broken event stream: written whole, read from any chunks, and unnoticed by anyone else."""

import re
from collections.abc import AsyncIterator, Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gym_failures import limits
from gym_failures.header import decode_report, encode_report
from gym_failures.log import FailureLog
from gym_failures.marks import mark_of
from gym_failures.records import FailureBoundary, FailureEvent, FailureReport
from gym_failures.streams import CommentReader, comment_line, is_event_stream, watch
from tests.strategies import chunkings, failure_reports, stream_parts


def report(name: str) -> FailureReport:
    """Make the report of one failure of a model server."""
    event = FailureEvent(
        event_id=name, failure_kind="provider_unavailable", boundary=FailureBoundary.MODEL, failure_reason=f"{name} 🔥"
    )
    return FailureReport(events={name: event}, failure_id=name)


FIRST, SECOND = report("first"), report("second")
LINES = {comment_line(encode_report(one)): one for one in (FIRST, SECOND)}
LINE = next(iter(LINES))


def read(*chunks: bytes) -> FailureReport | None:
    """Return what a reader finds in these chunks."""
    reader = CommentReader()
    for chunk in chunks:
        reader.feed(chunk)
    return reader.report


COMMENT = b": gym-failure-report 1.abc\n"
PLACES = {
    "at the start": (b"", b"\n" + COMMENT),
    "in a line": (b"data: {", b"\n" + COMMENT),
    "after a line": (b"data: {}\n", COMMENT),
    "after an event": (b"data: {}\n\n", COMMENT),
    "after a line of CR LF": (b"data: {}\r\n", COMMENT),
    "after a line of CR": (b"data: {}\r", b"\n" + COMMENT),
}


@pytest.mark.parametrize(("sent", "expected"), PLACES.values(), ids=PLACES.keys())
def test_the_line_completes_no_event(sent, expected):
    """The line begins on a line of its own, and no blank line comes of it, which would complete a half-sent event."""
    assert comment_line("1.abc", after=sent) == expected
    assert read(sent, comment_line(encode_report(FIRST), after=sent)) == FIRST


@given(failure_reports())
def test_any_report_comes_back(sent):
    """What a header would carry is what the line carries, whatever the report holds."""
    value = encode_report(sent)
    assert read(b"data: 1\n\ndata: 2", comment_line(value)) == decode_report(value)


@given(st.data())
def test_chunks_make_no_difference(data):
    """The last whole line counts, wherever the chunks are cut."""
    stream = b"".join(data.draw(stream_parts(LINES)))
    values = re.findall(rb"(?:\A|\n): gym-failure-report ([^\n]*)(?=\n)", stream)
    assert read(*data.draw(chunkings(stream))) == (decode_report(values[-1]) if values else None)


NO_LINE = {
    "nothing": b"",
    "no newline before": b"data: x: gym-failure-report 1.abc\n",
    "in an event": b"data: : gym-failure-report 1.abc\n\n",
    "cut": LINE[:-1],
    "another comment": b"\n: keep-alive\n",
    "no report": comment_line("1.abc"),
    "another version": comment_line("99.abc"),
    "too long": comment_line("1." + "a" * limits.DECODE_LENGTH),
    "too long and cut": comment_line("1." + "a" * limits.DECODE_LENGTH)[:-1],
}


@pytest.mark.parametrize("stream", NO_LINE.values(), ids=NO_LINE.keys())
def test_nothing_else_is_a_report(stream):
    """What is not a whole line with a report is none, and a good line after it is read all the same."""
    assert read(stream) is None
    assert read(stream, LINE) == FIRST


def test_a_line_that_never_ends_is_not_kept():
    """A peer that sends a line without end costs one line of memory, not the stream's."""
    reader = CommentReader()
    reader.feed(b"\n: gym-failure-report ")
    for _ in range(1_000):
        reader.feed(b"a" * 1_000)
        assert len(reader._held) <= limits.DECODE_LENGTH + len(b"\n: gym-failure-report ")
    assert reader.report is None


EVENT_STREAMS = {
    "plain": ({"content-type": "text/event-stream"}, True),
    "with parameters": ({"content-type": "Text/Event-Stream; charset=utf-8"}, True),
    "identity": ({"content-type": "text/event-stream", "content-encoding": "identity"}, True),
    "compressed": ({"content-type": "text/event-stream", "content-encoding": "gzip"}, False),
    "JSON": ({"content-type": "application/json"}, False),
    "nothing": ({}, False),
}


@pytest.mark.parametrize(("headers", "expected"), EVENT_STREAMS.values(), ids=EVENT_STREAMS.keys())
def test_which_streams_are_read(headers, expected):
    """Only event streams whose bytes are as the server wrote them can hold the line."""
    assert is_event_stream(headers) is expected


CHUNKS = [b"data: 1\n\n", LINE[:9], b"", LINE[9:], b": rest"]


class BrokenError(Exception):
    """What ends a stream before its time."""


def chunks(error: Exception | None = None) -> Iterator[bytes]:
    """Give the chunks of a stream, and break off with `error`."""
    yield from CHUNKS
    if error is not None:
        raise error


async def async_chunks(error: Exception | None = None) -> AsyncIterator[bytes]:
    """Give the same without a thread's waiting."""
    for chunk in chunks(error):
        yield chunk


def test_chunks_pass_through_untouched():
    """The reader gets the very chunks of the stream, one by one, and the log gets the report (contrib#505)."""
    with FailureLog() as log:
        assert [id(chunk) for chunk in watch(chunks())] == [id(chunk) for chunk in CHUNKS]
    assert set(log.report().events) == {"first"}


@pytest.mark.anyio
async def test_chunks_pass_through_untouched_asynchronously():
    """The same holds for an asynchronous stream."""
    with FailureLog() as log:
        assert [id(chunk) async for chunk in watch(async_chunks())] == [id(chunk) for chunk in CHUNKS]
    assert set(log.report().events) == {"first"}


def test_nothing_is_read_ahead():
    """A chunk is asked for when the reader asks for it, and not before."""
    given_out = []
    watched = watch(given_out.append(chunk) or chunk for chunk in CHUNKS)
    for count in range(1, len(CHUNKS) + 1):
        next(watched)
        assert len(given_out) == count


def test_the_error_that_breaks_a_stream_stands_for_the_report():
    """An exception that ends the stream passes unchanged, and what it leaves behind has the report as its cause."""
    error = BrokenError()
    with pytest.raises(BrokenError) as caught, FailureLog("agent") as log:
        list(watch(chunks(error)))
    assert caught.value is error
    report = log.report()
    own = report.events[report.failure_id]
    assert (own.boundary, own.cause_id) == (FailureBoundary.AGENT, "first")


@pytest.mark.anyio
async def test_the_error_that_breaks_an_asynchronous_stream_stands_for_the_report():
    """The same holds for an asynchronous stream."""
    error = BrokenError()
    with pytest.raises(BrokenError) as caught, FailureLog("agent") as log:
        [chunk async for chunk in watch(async_chunks(error))]
    assert caught.value is error
    assert log.report().events[log.report().failure_id].cause_id == "first"


def test_a_reader_that_stops_early_still_reports():
    """A reader that has had enough closes the stream, and the report that came so far is observed."""
    with FailureLog() as log:
        watched = watch(chunks())
        for _ in range(4):
            next(watched)
        watched.close()
    assert set(log.report().events) == {"first"}


def test_what_the_reader_throws_in_is_not_the_stream_s():
    """An exception of the reader's own making says nothing about the stream."""
    error = BrokenError()
    watched = watch(chunks())
    for _ in range(4):
        next(watched)
    with pytest.raises(BrokenError):
        watched.throw(error)
    assert mark_of(error) is None
