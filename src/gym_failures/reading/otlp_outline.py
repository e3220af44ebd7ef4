"""Whole lines of OTLP JSON, as exporters write them, searched for what matters without being decoded.

Exporters write compact JSON, begin every span with the id of its trace, and end a record with its line. Where a text
can be seen to keep to that, searching it is ten times as fast as decoding it. Where it cannot, the functions here say
so, and the lines have to be decoded.

What is searched for cannot stand within a JSON string, where its quotes would be escaped. (A key could be spelt with
escapes instead, which no writer does to ASCII.)
"""

from bisect import bisect_left
from collections.abc import Container, Iterator
from typing import Final, NamedTuple

from gym_failures import semconv
from gym_failures.reading.search import count, find

_HEAD: Final = b'{"resourceSpans":[{'
_TAIL: Final = b"}]}"
_SEAM: Final = _TAIL + b"\n" + _HEAD
_SPAN: Final = b'{"traceId":"'
_TRACE_ID: Final = b'"traceId"'
_LINKS: Final = b'"links":[{'
_SPANS: Final = b'"spans"'

_KEY: Final = len(_SPAN)
_KEY_END: Final = _KEY + 32 + len('"')
_HEX: Final = b"0123456789abcdef"

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
    """Return a trace's id as it stands in an outline: with the quote that ends it."""
    return f'{trace_id}"'.encode()


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
    ):
        return None
    starts: list[int] = []
    at = find(text, _SPAN)
    while at >= 0:
        starts.append(at)
        at = find(text, _SPAN, at + _KEY)
    keys = [text[at + _KEY : at + _KEY_END] for at in starts]
    all_regular = _are_regular(b"".join(keys), len(keys)) and count(text, _TRACE_ID) == len(keys)
    return Outline(text, starts, keys) if all_regular else None


def telling_lines(text: bytes) -> Iterator[bytes]:
    """Yield each line of `text` that has a name of ours in it, or what looks like one."""
    at = find(text, _NAME)
    while at >= 0:
        end = _line_end(text, at)
        yield text[_line_start(text, at) : end]
        at = find(text, _NAME, end)


def telling_traces(line: bytes) -> set[str] | None:
    """Return the traces of the spans that have a name of ours in them; None where the line has to be decoded for that.

    Some may only look so: a span can quote a name of ours, or stand before a resource that has one.
    """
    spans = count(line, _SPAN)
    if not spans or spans != count(line, _TRACE_ID) or find(line, _LINKS) >= 0:
        return None
    traces: set[str] = set()
    at = find(line, _NAME)
    while at >= 0:
        start = line.rfind(_SPAN, 0, at) if any(line.startswith(mark, at - before) for mark, before in _MARKS) else -1
        if start < 0:
            at = find(line, _NAME, at + 1)
            continue
        key = line[start + _KEY : start + _KEY_END]
        if not _are_regular(key, 1):
            return None
        traces.add(key[:-1].decode())
        following = find(line, _SPAN, at)
        at = find(line, _NAME, following) if following >= 0 else -1
    return traces


def thinned(outlined: Outline, wanted: Container[bytes]) -> Iterator[bytes]:
    """Yield the lines that have spans with the wanted keys, as records that lack most of the other spans."""
    text, starts, keys = outlined
    indexes = [index for index, key in enumerate(keys) if key in wanted]
    done = 0
    while done < len(indexes):
        first = last = indexes[done]
        while done + last - first + 1 < len(indexes) and indexes[done + last - first + 1] == last + 1:
            last += 1
        start, end = _line_start(text, starts[first]), _line_end(text, starts[last])
        low, high = bisect_left(starts, start, 0, first), bisect_left(starts, end, last)
        if (low, high) == (first, last + 1):  # lines in which all is wanted
            yield text[start:end]
            done += high - low
            continue
        end = _line_end(text, starts[first])
        high = bisect_left(starts, end, first)
        beyond = bisect_left(indexes, high, done)
        bounds = [*starts[low:high], end]
        yield text[start : bounds[0]] + _thinned(text, bounds, [index - low for index in indexes[done:beyond]])
        done = beyond


def _thinned(text: bytes, bounds: list[int], indexes: list[int]) -> bytes:
    """Return the spans at `indexes`, with what is needed of the rest of their line so that it stays a record.

    What stands between two spans of one list are whole spans, which can go. The last span stays, because it has the
    end of the record with it.
    """
    kept: list[bytes] = []
    done = 0
    for index in (*indexes, len(bounds) - 2):
        if index < done:
            continue
        between = text[bounds[done] : bounds[index]]
        if find(between, _SPANS) >= 0:  # another scope or resource begins there
            kept.append(between)
        kept.append(text[bounds[index] : bounds[index + 1]])
        done = index + 1
    return b"".join(kept)


def _line_start(text: bytes, at: int) -> int:
    return text.rfind(b"\n", 0, at) + 1


def _line_end(text: bytes, at: int) -> int:
    end = text.find(b"\n", at)
    return len(text) if end < 0 else end


def _are_regular(keys: bytes, number: int) -> bool:
    """Return whether `keys` are so many ids in small hex digits, each with a quote at its end."""
    return keys.translate(None, _HEX) == b'"' * number
