"""`gym-failures export`: stored spans or rows to where they can be looked at and counted."""

import os
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Annotated

import typer

from gym_failures import limits, semconv
from gym_failures.cli import exits
from gym_failures.cli.console import err, out
from gym_failures.cli.files import Files, Strict, end, files_read, say_skipped, sources_of
from gym_failures.cli.receiver import Receiver, ReceiverError
from gym_failures.cli.terminal import plain
from gym_failures.cli.times import moment
from gym_failures.reading import EventRecord, SpanRecord, Tally
from gym_failures.reading.otlp_writing import as_otlp
from gym_failures.reading.spans import read_spans


def export(
    files: Files = None,
    to: Annotated[
        str | None,
        typer.Option(
            metavar="URL", help="Where to send. [default: as OTEL_EXPORTER_OTLP_ENDPOINT says, http://localhost:4318]"
        ),
    ] = None,
    at: Annotated[
        int | None,
        typer.Option(
            metavar="TIME", parser=moment, help="When that was which tells no time, as some rows. [default: 2000-01-01]"
        ),
    ] = None,
    *,
    every: Annotated[bool, typer.Option("--all", help="Send traces without failures too.")] = False,
    strict: Strict = False,
) -> None:
    """Send the stored traces in which anything failed to a Collector or to Jaeger, by OTLP over HTTP.

    Ids and times are those that are stored, so what is sent twice is there once. A row of a rollout becomes a span with
    an id made of what it says, at the time that its failures or its response tell.
    """
    unknown = limits.UNKNOWN_TIME if at is None else at
    if unknown <= 0:
        raise typer.BadParameter("a time before 1970 is none", param_hint="--at")
    sources = {str(one) if isinstance(one, Path) else "standard input": one for one in sources_of(files)}
    tallies = {name: Tally() for name in sources}
    traces: set[str] = set()
    sent = 0
    try:
        receiver = Receiver(to, os.environ)
    except ReceiverError as error:
        err().print(f"gym-failures: {plain(str(error))}", markup=False)
        raise typer.Exit(exits.USAGE) from None
    try:
        with files_read():
            spans = _completed(read_spans(sources, tallies, every=every), unknown)
            while batch := list(islice(spans, limits.SEND_SPANS)):
                receiver.send(as_otlp(batch))
                sent += len(batch)
                traces.update(span.trace_id for span in batch)
    except ReceiverError as error:
        err().print(f"gym-failures: {plain(str(error))}; {sent} spans were sent before", markup=False)
        raise typer.Exit(exits.UNWRITABLE) from None
    skips = sum(tally.skips for tally in tallies.values())
    say_skipped([skip._replace(source=name) for name, tally in tallies.items() for skip in tally.skipped], skips)
    out().print(f"sent {sent} spans of {len(traces)} traces to {plain(receiver.url)}", markup=False, soft_wrap=True)
    end(skips, strict=strict, failed=False)


def _completed(spans: Iterator[tuple[str, SpanRecord]], unknown: int) -> Iterator[SpanRecord]:
    """Yield spans with what a row does not say of itself, and a receiver has to know."""
    from gym_failures.reading.log_lines import as_short_span  # noqa: PLC0415 - so that what is missing can be named

    for _, read in spans:
        span = as_short_span(read) if read.is_lost else read
        start_ns = span.start_ns or unknown
        yield replace(
            span,
            start_ns=start_ns,
            end_ns=max(span.end_ns, start_ns),
            events=[_with_origin(event, start_ns) for event in span.events],
        )


def _with_origin(event: EventRecord, start_ns: int) -> EventRecord:
    """Return an event that is counted: who told it first is not known, but nobody else will."""
    attributes = event.attributes
    if event.name == semconv.EVENT_NAME and semconv.FAILURE_ORIGIN not in attributes:
        is_root = semconv.FAILURE_CAUSE_ID not in attributes
        attributes = {**attributes, semconv.FAILURE_ORIGIN: semconv.ORIGIN_LOCAL, semconv.FAILURE_ROOT: is_root}
    return replace(event, attributes=attributes, time_ns=event.time_ns or start_ns)
