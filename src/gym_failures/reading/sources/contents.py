"""What a file holds, told by its first bytes, and read in the way of its format."""

import re
from collections.abc import Callable, Collection, Iterable, Iterator
from functools import partial
from io import IOBase
from itertools import chain
from pathlib import Path
from typing import Final, NamedTuple

from gym_failures import limits
from gym_failures.reading import gym_rows, jaeger_json, jaeger_v3, log_lines, otlp_json
from gym_failures.reading.model import Span, Tally
from gym_failures.reading.otlp_values import TOO_LONG, as_bytes
from gym_failures.reading.sources.files import blocks
from gym_failures.reading.sources.frames import frames, is_framed
from gym_failures.reading.sources.stream import NOBODY, Complain, Stream
from gym_failures.reading.sources.unpacking import is_packed, unpacked


def failing_traces(file: IOBase) -> Collection[str]:
    """Return the ids of the traces in which a span tells of a failure, and perhaps of some that only look so.

    Reads `file` from where it stands. Passes over what cannot be read; `parse` tells of that. Raises MissingExtraError
    for a format that needs an extra which is not installed.
    """
    read, parts = _recognised(file, NOBODY)
    return read.failing_traces(parts)


def parse(file: IOBase, tally: Tally, *, traces: Collection[str] | None) -> Iterator[Span]:
    """Yield the spans of `traces`, None for all, and keep a tally of what can and cannot be read; raises as above."""
    read, parts = _recognised(file, tally.skip)
    yield from read.parse(parts, tally, traces)


def is_lines(start: bytes) -> bool:
    """Tell whether a file that starts like this is plain text of OTLP JSON, as far as one can tell."""
    return not (is_packed(start) or is_framed(start) or jaeger_json.is_jaeger(start) or jaeger_v3.is_answer(start))


def is_lines_only(file: IOBase) -> bool:
    """Tell whether `file` is plain text of OTLP JSON, each of whose lines can be read without the others.

    Leaves `file` where it stands.
    """
    at = file.tell()
    first = as_bytes(file.readline(limits.ROW_START))
    file.seek(at)
    if not first.strip() or otlp_json.begins_document(first) or not is_lines(first):
        return False
    read, _ = _recognised(file, NOBODY)
    file.seek(at)
    return read is _LINES


class _Format(NamedTuple):
    failing_traces: Callable[[Iterable[bytes]], Collection[str]]
    parse: Callable[[Iterable[bytes], Tally, Collection[str] | None], Iterator[Span]]


_LINES: Final = _Format(
    otlp_json.failing_traces, lambda texts, tally, traces: otlp_json.parse_lines(texts, tally, traces=traces)
)
_LOG: Final = _Format(
    lambda texts: otlp_json.failing_traces(map(log_lines.without_others, texts)),
    lambda texts, tally, traces: otlp_json.parse_lines(map(log_lines.without_others, texts), tally, traces=traces),
)
_DOCUMENT: Final = _Format(
    lambda parts: jaeger_json.failing_traces(b"".join(parts)),
    lambda parts, tally, traces: jaeger_json.parse_document(b"".join(parts), tally, traces=traces),
)


_ENDS: Final = re.compile(r"(_failures)?(\.jsonl)?(\.(gz|zst))?$")
"""In what the names of a run's files of rows differ: NeMo Gym puts the rows of failed rollouts beside the others."""
_OTLP_START: Final = re.compile(rb'\s*(?:\[\s*)?\{\s*"resource_?(?:[sS]pans|[mM]etrics|[lL]ogs|[pP]rofiles)"')
"""How OTLP JSON begins."""


def _rows(file: IOBase) -> _Format:
    """Return the format of rows; where a file has a path, its rows are of another run than those elsewhere."""
    name: object = getattr(file, "name", None)
    path = Path(name).resolve() if isinstance(name, str) else None
    run = "" if path is None or not path.is_file() else str(path.with_name(_ENDS.sub("", path.name) or path.name))
    return _Format(
        partial(gym_rows.failing_traces, run=run),
        lambda texts, tally, _traces: gym_rows.parse_rows(texts, tally, run=run),
    )


def _messages() -> _Format:
    from gym_failures.reading import otlp_proto  # noqa: PLC0415 - it needs an extra, which most files do not

    return _Format(
        otlp_proto.failing_traces, lambda parts, tally, traces: otlp_proto.parse_messages(parts, tally, traces=traces)
    )


def _recognised(file: IOBase, complain: Complain) -> tuple[_Format, Iterable[bytes]]:
    at = file.tell()
    start = as_bytes(file.read(limits.RECOGNISED_START))
    file.seek(at)
    if is_lines(start):
        # Nearly always, and nothing stands between the file and the search.
        return _rows_or_lines(file, blocks(file)) if _may_be_rows(start) else (_LINES, blocks(file))
    stream = unpacked(Stream(iter(lambda: as_bytes(file.read(limits.READ_BLOCK)), b"")), complain)
    start = stream.peek(limits.RECOGNISED_START)
    if is_framed(start):
        return _records(frames(stream, complain))
    if jaeger_json.is_jaeger(start):
        document = _document(stream, complain)
        return (_DOCUMENT, [document]) if document else (_LINES, [])
    if jaeger_v3.is_answer(start):
        return _LINES, jaeger_v3.lines(_document(stream, complain))
    return _rows_or_lines(file, blocks(stream)) if _may_be_rows(start) else (_LINES, blocks(stream))


def _document(stream: Stream, complain: Complain) -> bytes:
    """Return all of a file that is one document; nothing of one over `limits.STORED_DOCUMENT`, which is told."""
    parts: list[bytes] = []
    left = limits.STORED_DOCUMENT
    while part := stream.read(limits.READ_BLOCK):
        left -= len(part)
        if left < 0:
            complain(0, f"the document is {TOO_LONG}")
            return b""
        parts.append(part)
    return b"".join(parts)


def _may_be_rows(start: bytes) -> bool:
    """Tell whether a text that starts like this needs a longer look; OTLP JSON begins with what it is."""
    return _OTLP_START.match(start) is None


def _rows_or_lines(file: IOBase, texts: Iterator[bytes]) -> tuple[_Format, Iterable[bytes]]:
    """Tell by the first line that says so which of the two it is, or a log; nothing of `texts` is lost by looking."""
    looked: list[bytes] = []
    are_rows, left = None, limits.ROW_START
    while left > 0 and (text := next(texts, b"")):
        looked.append(text)
        left -= len(text)
        at = log_lines.first(text)
        if are_rows is None:
            are_rows = gym_rows.are_rows(text if at < 0 else text[:at])
        if are_rows:
            return _rows(file), chain(looked, texts)
        if at >= 0:
            return _LOG, chain(looked, texts)
        if log_lines.RECORD.search(text):
            break
    return _LINES, chain(looked, texts)


def _records(records: Iterator[bytes]) -> tuple[_Format, Iterable[bytes]]:
    """Tell by the first record that can be read what all of them are."""
    first = []
    for record in records:
        first.append(record)
        if record:
            break
    everything = chain(first, records)
    # Nothing is stripped: a message begins with a line feed, and a brace after it is the length of what is in it.
    if first and first[-1].startswith(b"{"):
        # A record is a line, so that its number is the line's.
        return _LINES, (record.replace(b"\n", b" ") for record in everything)
    return _messages(), everything
