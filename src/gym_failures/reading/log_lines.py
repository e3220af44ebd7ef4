"""Lines of failures in the log of a server, to spans: each is a copy of the span that its line names.

Of a server that was killed, or did not sample, the copy is all that is left of a span. Where the span was stored too,
the two are one by their id, and so are the failures that both tell of. Lines of other things can stand between, and
before the line of a failure whatever a log's format puts there.
"""

import hashlib
import json
import re
from dataclasses import replace
from typing import Final

from gym_failures import semconv
from gym_failures.reading.model import LOST_PARENT, EventRecord, SpanRecord, SpanStatus
from gym_failures.reading.otlp_values import SPAN_ID_SIZE, TRACE_ID_SIZE, hex_id, nanoseconds

DAMAGED: Final = "the line of a failure is damaged"
"""What is said of a line that tells of a failure and cannot be read."""

_NAME: Final = semconv.EVENT_NAME.encode()
START: Final = re.compile(rb'\{\s*"event"\s*:\s*"%b"' % re.escape(_NAME))
"""How such a line begins. Nothing within JSON's texts looks so: their quotes are escaped."""
RECORD: Final = re.compile(rb'\{\s*"resource_?[sS]pans"')
"""How a record of spans begins."""
_OF_THE_SPAN: Final = ("event", "time_unix_nano", "trace_id", "span_id", semconv.NEMO_GYM_ROLLOUT_ID)
"""What a line has beside the attributes of its failure."""


def tells(text: bytes) -> bool:
    """Tell whether a line, or one of several, tells of a failure."""
    return first(text) >= 0


def first(text: bytes) -> int:
    """Return where in a text the first line of a failure begins, -1 where none does."""
    found = START.search(text) if _NAME in text else None
    return -1 if found is None else found.start()


def span_of(line: bytes) -> SpanRecord | None:
    """Return the copy of the span that a line which `tells` names; None for a damaged line.

    A line without a trace stands for a span of its own, whose ids are made of the failure's. Lines have plain values
    only; what else stands for one is left out and counted.
    """
    try:
        told, _ = json.JSONDecoder().raw_decode(line[first(line) :].decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None
    said = {key: value for key, value in told.items() if isinstance(value, str | int | float)}
    if semconv.FAILURE_ID not in said:
        return None
    digest = _digest(said[semconv.FAILURE_ID])
    time_ns = nanoseconds(told.get("time_unix_nano"))
    unreadable = sum(key not in said and value is not None for key, value in told.items())
    attributes = {key: value for key, value in said.items() if key not in _OF_THE_SPAN}
    rollout = said.get(semconv.NEMO_GYM_ROLLOUT_ID)
    return SpanRecord(
        trace_id=hex_id(told.get("trace_id"), TRACE_ID_SIZE) or digest[: 2 * TRACE_ID_SIZE],
        span_id=hex_id(told.get("span_id"), SPAN_ID_SIZE) or digest[-2 * SPAN_ID_SIZE :],
        parent_id=LOST_PARENT,
        start_ns=time_ns,  # and no end: the copy that was stored knows better
        status=SpanStatus.ERROR,
        attributes={} if rollout is None else {semconv.NEMO_GYM_ROLLOUT_ID: rollout},
        events=[EventRecord(semconv.EVENT_NAME, time_ns, attributes, unreadable)],
    )


def as_short_span(span: SpanRecord) -> SpanRecord:
    """Return what a line tells as a span beneath the one that it names, for a store which may have that one too."""
    failure_id = span.events[0].attributes[semconv.FAILURE_ID]
    own_id = _digest(failure_id)[-2 * SPAN_ID_SIZE :]
    parent_id = None if own_id == span.span_id else span.span_id  # It is that already where the line names no span.
    return replace(span, span_id=own_id, parent_id=parent_id, name=semconv.OVERFLOW_SPAN_NAME)


def without_others(text: bytes) -> bytes:
    """Return lines of a log with nothing in place of those that are neither a failure's nor a record of spans."""
    lines = text.split(b"\n")
    return b"\n".join(line if tells(line) or RECORD.search(line) else b"" for line in lines)


def _digest(failure_id: object) -> str:
    return hashlib.sha256(str(failure_id).encode("utf-8", "replace")).hexdigest()
