"""OTLP JSON, as the SDK's and the Collector's file exporters write it, to spans.

Of most files nearly nothing is wanted: the spans of the few traces that failed. So a file is read twice, once to find
those traces and once to read their spans, and what is not wanted is searched and not decoded where that is safe.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import chain, islice
from typing import Final

from gym_failures import limits
from gym_failures.reading.lines import read_line
from gym_failures.reading.model import Parsed, Span, Tally, whole
from gym_failures.reading.otlp_contents import NOTHING
from gym_failures.reading.otlp_line import decode_plain
from gym_failures.reading.otlp_outline import key_of, outline, telling_traces, thinned
from gym_failures.reading.otlp_skeleton import Processes, ResourceSkeleton, spans_of
from gym_failures.reading.otlp_values import OVERLONG, as_bytes, json_bytes
from gym_failures.reading.search import count

_RECORD: Final = rb'\{\s*"resource_?[sS]pans"[^\n]*\}\s*(?:\n|\Z)'
_FIRST: Final = rb'\[|(?:\[\s*)?\{(?:\s*"(?:resource_?[sS]pans|batches)"\s*:[^\n]*[\[{])?'
_DOCUMENT_START: Final = re.compile(rb"\s*(?:%b)[ \t\r]*(?:\n|\Z)(?!\s*%b)" % (_FIRST, _RECORD))
"""A first line that leaves open what it opens. Where a whole record follows, it is only a line that was cut."""


def failing_traces(texts: Iterable[str | bytes], *, is_start: bool = True) -> frozenset[str]:
    """Return the ids of the traces in which a span tells of a failure, and perhaps of some that only look so.

    Takes texts as `parse_lines` does. Passes over what cannot be read; that function tells of it.
    """
    return frozenset(trace_id for _, text in _numbered(texts, is_start=is_start) for trace_id in _failing(text))


def parse_lines(
    texts: Iterable[str | bytes], tally: Tally, *, traces: Collection[str] | None = None, is_start: bool = True
) -> Iterator[Span]:
    """Read lines as they come, yield their spans, and keep a tally of what can and what cannot be read.

    Each text is one or more whole lines. A blank line is nothing, and a document that is spread over several lines is
    read as one, for which the texts have to be those from the start of a file (`is_start`). A line that tells of a
    failure in a log is a span too. `traces` holds the ids of the traces to yield; None yields all. A line that has no
    span of theirs is only looked at from outside, so damage within it can go unnoticed; that it is a whole record is
    made sure of. Nothing that the lines hold makes this raise.
    """
    wanted = None if traces is None else frozenset(map(key_of, traces))
    processes: Processes = {}
    for number, text in _numbered(texts, is_start=is_start):
        if wanted is not None and (outlined := outline(text)) is not None:
            resources = decode_plain(thinned(outlined, wanted))
            if resources is not None:
                tally.spans += len(outlined.starts)
                yield from _wanted(resources, traces, processes)
                continue
        for at, line in enumerate(text.split(b"\n"), number):
            if not line or line.isspace():
                continue
            resources, faults, others, logged = read_line(line)
            tally.others += others
            tally.spans += sum(len(scope.spans) for resource in resources for scope in resource.scope_spans)
            tally.spans += len(logged)
            yield from _wanted(resources, traces, processes)
            yield from (span for span in logged if traces is None or span.trace_id in traces)
            for fault in faults:
                tally.skip(at, fault)


def begins_document(text: bytes) -> bool:
    """Tell whether a file that begins with `text` is one document which is spread over several lines."""
    # That the first line ends with what it opens is asked first: matching goes back over a long line byte by byte.
    first, _, _ = text.lstrip().partition(b"\n")
    return first.rstrip().endswith((b"[", b"{")) and _DOCUMENT_START.match(text) is not None


def parse(document: str | bytes | Mapping[str, object]) -> Parsed:
    """Read one document, as text or already decoded, or the text of a whole file of lines.

    Raises TypeError for a mapping that holds what JSON cannot.
    """
    tally = Tally(named=None)
    text = json_bytes(document) if isinstance(document, Mapping) else as_bytes(document)
    return Parsed([whole(span) for span in parse_lines([text], tally)], tally.skipped)


def _numbered(texts: Iterable[str | bytes], *, is_start: bool) -> Iterator[tuple[int, bytes]]:
    """Yield texts with the numbers of their first lines; a document that is spread over lines becomes one line."""
    encoded = map(as_bytes, texts)
    number = 1
    for text in encoded:
        if text and not text.isspace():
            if is_start and begins_document(text):
                # What the next line is matters, and that can be in the next text.
                text = b"\n".join([text.removesuffix(b"\n"), *islice(encoded, 1)])  # noqa: PLW2901 - it is the same text
                if begins_document(text):
                    yield number, _one_line([text], encoded)
                    return
            yield number, text
            number += _lines_in(text)
            break
        number += _lines_in(text)
    for text in encoded:
        yield number, text
        number += _lines_in(text)


def _one_line(texts: Iterable[bytes], more: Iterable[bytes]) -> bytes:
    """Return a document without its line ends, or `OVERLONG`."""
    parts: list[bytes] = []
    left = limits.STORED_DOCUMENT
    for text in chain(texts, more):
        left -= len(text)
        if left < 0:
            return OVERLONG
        parts.append(text)
    return b" ".join(parts).replace(b"\n", b" ")


def _lines_in(text: bytes) -> int:
    return count(text, b"\n") + (not text.endswith(b"\n"))


def _failing(text: bytes) -> Iterator[str]:
    """Yield the traces of the spans that tell of a failure."""
    for found in telling_traces(text):
        if isinstance(found, str):
            yield found
            continue
        line = read_line(found)
        yield from (span.trace_id for span in spans_of(line.resources) if span.tells())
        yield from (span.trace_id for span in line.logged)


def _wanted(
    resources: Iterable[ResourceSkeleton], traces: Collection[str] | None, processes: Processes
) -> Iterator[Span]:
    for span in spans_of(resources, processes):
        if traces is None or span.trace_id in traces:
            yield span.record() if span.events is not NOTHING or span.tells() else span
