"""Whole lines of OTLP JSON, as exporters write them, searched for what matters without being decoded.

Exporters write compact JSON, begin every span with the id of its trace, and end a record with its line. Where a text
can be seen to keep to that, searching it is ten times as fast as decoding it. Where it cannot, the functions here say
so, and the lines have to be decoded.

What is searched for cannot stand within a JSON string, where its quotes would be escaped. (A key could be spelt with
escapes instead, which no writer does to ASCII.)
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from itertools import compress
from typing import Final, NamedTuple

from gym_failures import semconv
from gym_failures.reading.search import count, find

_HEAD: Final = b'{"resourceSpans":[{'
_TAIL: Final = b"}]}"
_SEAM: Final = _TAIL + b"\n" + _HEAD
_SPAN: Final = b'{"traceId":"'
_TRACE_ID: Final = b'"traceId"'
_LINKS: Final = b'"links":[{'
_SNAKE: Final = b'"trace_id":'
_SPANS: Final = b'"spans"'
_LOGGED: Final = b'{"event"'
"""How the line of a failure in a log begins, which can stand behind a record whose writer was killed."""

_KEY_LENGTH: Final = len(_SPAN) + 32 + len('"')
_HEX: Final = b"0123456789abcdef"
_NO_ID: Final = (_SPAN + b'"').translate(None, _HEX)
"""What is left of a regular key without its hex digits, and those among the letters of its name."""

_NAME: Final = b"failure"
"""What all names of ours have in them."""
_MARKS: Final = ((b'"failure.', 1), (f'"{semconv.EVENT_NAME}"'.encode(), 5))
"""How names of ours stand in a record, and where in that `_NAME` does."""


class Outline(NamedTuple):
    """Where the spans of a text are."""

    text: bytes
    starts: list[int]
    """Where each span starts."""
    keys: list[bytes]
    """The trace of each span, as `key_of` has it."""


def key_of(trace_id: str) -> bytes:
    """Return a trace's id as it stands in an outline: as the start of a span that has it."""
    return b'%b%b"' % (_SPAN, trace_id.encode())


def outline(text: bytes) -> Outline | None:
    """Return the outline of `text`, or None where it does not consist of lines as exporters write them.

    Notices lines that are no record, and records that were cut, but no damage within a record.
    """
    lines = count(text, b"\n")
    if (
        not text.startswith(_HEAD)
        or not text.endswith(_TAIL + b"\n")
        or count(text, _SEAM) != lines - 1
        or count(text, _HEAD) != lines  # two records in one line, of which the first may have been cut
        or find(text, _LINKS) >= 0  # links begin as spans do
        or find(text, _SNAKE) >= 0  # so begin spans that are not looked for
    ):
        return None
    starts: list[int] = []
    at = find(text, _TRACE_ID)
    while at >= 0:
        starts.append(at - 1)
        at = find(text, _TRACE_ID, at + _KEY_LENGTH)
    keys = [text[start : start + _KEY_LENGTH] for start in starts]
    return Outline(text, starts, keys) if _are_regular(b"".join(keys), len(keys)) else None


def telling_traces(text: bytes) -> Iterator[str | bytes]:
    """Yield the trace of each span that has a name of ours in it, and each line that has to be decoded to know them.

    Some may only look so: a span can quote a name of ours, or stand before a resource that has one.
    """
    at = find(text, _NAME)
    while at >= 0:
        start, end = _line_start(text, at), _line_end(text, at)
        traces = _telling_traces(text, at, start, end)
        if traces is None:
            yield text[start:end]
        else:
            yield from traces
        at = find(text, _NAME, end)


def _telling_traces(text: bytes, at: int, start: int, end: int) -> set[str] | None:
    """Return the traces of the spans between `start` and `end` that tell, the first perhaps at `at`."""
    if any(find(text, mark, start, end) >= 0 for mark in (_LINKS, _SNAKE, _LOGGED)):
        return None
    traces: set[str] = set()
    while at >= 0:
        if not any(text.startswith(mark, at - before) for mark, before in _MARKS):
            at = find(text, _NAME, at + 1, end)
            continue
        span, following = text.rfind(_SPAN, start, at), find(text, _SPAN, at, end)
        beyond = end if following < 0 else following
        key = text[span : span + _KEY_LENGTH]
        # Another trace's id between them would be that of a span which does not begin with it.
        if span < 0 or count(text[span:beyond], _TRACE_ID) > 1 or not _are_regular(key, 1):
            return None
        traces.add(key[len(_SPAN) : -1].decode())
        at = find(text, _NAME, beyond, end)
    return traces


def thinned(outlined: Outline, wanted: frozenset[bytes]) -> Iterator[bytes]:
    """Yield the lines that have spans with the wanted keys, as records that lack most of the other spans."""
    text, starts, keys = outlined
    indexes = [*compress(range(len(keys)), map(wanted.__contains__, keys))]
    done = 0
    while done < len(indexes):
        first = indexes[done]
        start, end = _line_start(text, starts[first]), _line_end(text, starts[first])
        low, high = bisect_left(starts, start, 0, first), bisect_left(starts, end, first)
        beyond = bisect_left(indexes, high, done)
        if beyond - done == high - low:  # a line in which all is wanted
            yield text[start:end]
        else:
            bounds = [*starts[low:high], end]
            yield text[start : bounds[0]] + _thinned(text, bounds, [index - low for index in indexes[done:beyond]])
        done = beyond


def _thinned(text: bytes, bounds: list[int], indexes: list[int]) -> bytes:
    """Return the spans at `indexes`, with what is needed of the rest of their line so that it stays a record.

    What stands between two spans of one list are whole spans, which can go. A span that another scope or resource
    follows stays, because what stands between them has to, and so does the last, which has the end of the record.
    """
    kept: list[bytes] = []
    done = 0
    for index in (*indexes, len(bounds) - 2):
        if index < done:
            continue
        seam = find(text, _SPANS, bounds[done], bounds[index])
        while seam >= 0:
            done = bisect_right(bounds, seam)
            kept.append(text[bounds[done - 1] : bounds[done]])
            seam = find(text, _SPANS, bounds[done], bounds[index])
        kept.append(text[bounds[index] : bounds[index + 1]])
        done = index + 1
    return b"".join(kept)


def _line_start(text: bytes, at: int) -> int:
    return text.rfind(b"\n", 0, at) + 1


def _line_end(text: bytes, at: int) -> int:
    end = text.find(b"\n", at)
    return len(text) if end < 0 else end


def _are_regular(keys: bytes, number: int) -> bool:
    """Return whether `keys` are so many starts of spans, each with an id in small hex digits."""
    return keys.translate(None, _HEX) == _NO_ID * number
