"""Saved rows of NeMo Gym's rollouts, to spans: each row that tells of failures becomes one span that tells of them.

Whatever reads spans can so read rows. The span is no request's; its ids are made of what the row says, so that reading
a row twice gives the same span. Times are those that ids of failures begin with; the span of a row whose failures have
no such ids is at the time that its response names.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from math import isfinite
from typing import Any, Final

from gym_failures import ids, limits, semconv
from gym_failures.attributes import to_attributes
from gym_failures.reading import log_lines
from gym_failures.reading.model import EventRecord, SpanRecord, SpanStatus, Tally
from gym_failures.reading.otlp_values import OVERLONG, SPAN_ID_SIZE, TOO_LONG, TRACE_ID_SIZE, hex_id, nanoseconds
from gym_failures.reading.runs import ROW_SERVICE, ROW_SPAN_NAME
from gym_failures.records import FailureEvent
from gym_failures.rollout_ids import of_run
from gym_failures.rows import IDENTITY_KEYS, RowError, RowFailures, read_row

_SECOND: Final = 10**9
"""In nanoseconds."""
_MARKS: Final = (b'"_ng_', b'"failure_kind"', b'"failure_reason"')
"""What is in every row; a line without has nothing to tell."""
_TELLING: Final = (b'"_ng_failure', b'"failure_')
"""What is in every row that tells of a failure; the others are not decoded."""
_OF_SPANS: Final = re.compile(rb'\s*\{\s*"resource_?[sS]pans"')
"""How a line of OTLP JSON begins."""
_AMONG_ROWS: Final = "spans and lines of failures are not read in what begins with rows"


def are_rows(text: bytes) -> bool | None:
    """Tell by the first line of `text` that can be decoded whether its lines are the saved rows of rollouts.

    A line over `limits.ROW_START` is not decoded: what is in every row tells it. None where no line says anything.
    """
    for line in text.split(b"\n"):
        if len(line) > limits.ROW_START:
            if any(mark in line for mark in _MARKS):
                return True
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            continue
        return (
            isinstance(row, dict)
            and any(mark in line for mark in _MARKS)
            and "resourceSpans" not in row
            and "resource_spans" not in row
        )
    return None


def failing_traces(texts: Iterable[bytes], *, run: str) -> frozenset[str]:
    """Return the ids of the traces that rows with failures are in; passes over what cannot be read.

    `run` names the run that the rows are of, as `read_row` has it.
    """
    return frozenset(span.trace_id for span in _spans(texts, Tally(), run))


def parse_rows(texts: Iterable[bytes], tally: Tally, *, run: str) -> Iterator[SpanRecord]:
    """Yield the spans of the rows with failures, and keep a tally of what cannot be read; `run` as above.

    All of them are in failing traces. To look that up would lose a row that is nested so deeply that it can be decoded
    here, but could not be from where they were sought.
    """
    return _spans(texts, tally, run)


def span_of(row: Mapping[str, Any], told: RowFailures) -> SpanRecord:
    """Return the span that stands for a row, which tells of the failures in `told`."""
    report = told.report
    said = json.dumps([{name: row.get(name) for name in IDENTITY_KEYS}, sorted(report.events)], sort_keys=True)
    digest = hashlib.sha256(said.encode("utf-8", "replace")).hexdigest()
    times = [nanoseconds(ids.time_of(event_id)) for event_id in report.events]
    known = [time_ns for time_ns in times if time_ns]
    attributes: dict[str, object] = {**of_run(row)}
    if report.omitted:
        attributes[semconv.FAILURE_OMITTED] = True
    if report.failure_id is not None:
        own = report.events[report.failure_id]
        attributes[semconv.FAILURE_BOUNDARY] = own.boundary.value
        attributes[semconv.FAILURE_KIND] = own.failure_kind
        attributes[semconv.FAILURE_ID] = own.event_id
    return SpanRecord(
        trace_id=hex_id(told.trace_id, TRACE_ID_SIZE) or digest[: 2 * TRACE_ID_SIZE],
        span_id=digest[-2 * SPAN_ID_SIZE :],
        name=ROW_SPAN_NAME,
        service=ROW_SERVICE,
        start_ns=min(known, default=created(row)),
        end_ns=max(known, default=created(row)),
        status=SpanStatus.UNSET if report.failure_id is None else SpanStatus.ERROR,
        attributes=attributes,
        events=[_told(event, time_ns) for event, time_ns in zip(report.events.values(), times, strict=True)],
        resource={"service.name": ROW_SERVICE},
    )


def created(row: Mapping[str, Any]) -> int:
    """Return when the response of a row was created, in nanoseconds, by its whole seconds; 0 where none says."""
    response = row.get("response")
    seconds = response.get("created_at") if isinstance(response, Mapping) else None
    if isinstance(seconds, float) and isfinite(seconds):
        seconds = int(seconds)
    return nanoseconds(seconds * _SECOND) if isinstance(seconds, int) else 0


def _told(event: FailureEvent, time_ns: int) -> EventRecord:
    attributes = to_attributes(event)
    del attributes[semconv.FAILURE_ORIGIN]  # A row does not say who observed it, only that somebody did.
    return EventRecord(semconv.EVENT_NAME, time_ns, attributes)


def _spans(texts: Iterable[bytes], tally: Tally, run: str) -> Iterator[SpanRecord]:
    number = 0
    for text in texts:
        for line in text.removesuffix(b"\n").split(b"\n"):
            number += 1
            if not line or line.isspace():
                continue
            if line == OVERLONG or _OF_SPANS.match(line) or log_lines.tells(line):
                tally.skip(number, TOO_LONG if line == OVERLONG else _AMONG_ROWS)
                continue
            tally.spans += 1
            if not any(mark in line for mark in _TELLING):
                continue
            try:
                row = json.loads(line)
                told = read_row(row, run=run)
                span = span_of(row, told)
            except RowError as error:
                tally.skip(number, str(error))
            except (ValueError, AttributeError, RecursionError):
                tally.spans -= 1
                tally.skip(number, "the line is no row of a rollout")
            else:
                if told.report.events or told.report.omitted:
                    yield span
