"""A file of any size, made of one run of rollouts over and over, each time with ids and times of its own."""

import re
from pathlib import Path
from typing import Final, NamedTuple

from stored_rollouts import rollouts, write

from gym_failures import semconv

SPANS: Final = 60_000
"""Spans of the run that is repeated."""
NUMBER: Final = 6
"""Digits that tell one copy of the run from another, in each of its ids; of times they are fewer."""
TIME_NUMBER: Final = 4

_TIME: Final = re.compile(rb'(imeUnixNano":")([0-9]+)')
_ROLLOUT: Final = re.compile(rb'("%s","value":{"stringValue":")' % semconv.NEMO_GYM_ROLLOUT_ID.encode())
_TRACE_ID: Final = re.compile(rb'"traceId":"[0-9a-f]{32}')
_EVENT_ID: Final = re.compile(rb'"failure\.(?:cause_)?id","value":{"stringValue":"[0-9a-f]{32}')
_OWN_EVENT_ID: Final = re.compile(rb'"failure\.id","value":{"stringValue":"[0-9a-f]{32}')


class Size(NamedTuple):
    """What was written."""

    bytes: int
    failures: int


def write_large(path: Path, at_least: int, *, failing: float, batch: int) -> Size:
    """Write `at_least` so many bytes of rollouts, the share `failing` of their spans failed, `batch` spans a line."""
    write(path, rollouts(SPANS, failing), batch)
    # A time gets room for the copy's number in front of the nanoseconds, so that the copies follow one another.
    text = _TIME.sub(lambda found: b"%b17%b%013d" % (found[1], b"0" * TIME_NUMBER, int(found[2])), path.read_bytes())
    text = _ROLLOUT.sub(rb"\g<1>" + b"0" * NUMBER + b"-", text)
    ids = [found.end() - NUMBER for found in (*_TRACE_ID.finditer(text), *_EVENT_ID.finditer(text))]
    ids += [found.end() for found in _ROLLOUT.finditer(text)]
    times = [found.start(2) + 2 for found in _TIME.finditer(text)]
    copy = bytearray(text)
    copies = -(-at_least // len(copy))
    with path.open("wb") as file:
        for number in range(copies):
            _put(copy, ids, b"%0*d" % (NUMBER, number))
            _put(copy, times, b"%0*d" % (TIME_NUMBER, number))
            file.write(copy)
    failures = {found[0] for found in _OWN_EVENT_ID.finditer(text)}
    return Size(copies * len(copy), copies * len(failures))


def _put(text: bytearray, places: list[int], what: bytes) -> None:
    size = len(what)
    for place in places:
        text[place : place + size] = what
