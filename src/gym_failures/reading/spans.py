"""The spans of several sources, as they were stored."""

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager

from gym_failures.reading.model import Span, SpanRecord, Tally, whole
from gym_failures.reading.sources.files import File, is_path, opened


def read_spans(
    sources: Mapping[str, File], tallies: Mapping[str, Tally], *, every: bool = False
) -> Iterator[tuple[str, SpanRecord]]:
    """Yield the spans of all traces in which anything failed, or with `every` of all traces, each with its source.

    A trace in which a span fails in one source is read out of all of them. `tallies` has a tally for each source, which
    is kept. Raises what `read_files` does.
    """
    if every:
        with _held(sources) as held:
            spans = _parsed(held, tallies, None)
            yield from ((name, whole(span)) for name, span in spans)
    else:
        yield from ((name, whole(span)) for name, span in failing_spans(sources, tallies))


def failing_spans(
    sources: Mapping[str, File], tallies: Mapping[str, Tally], *, see: Callable[[Span], None] | None = None
) -> Iterator[tuple[str, Span]]:
    """Yield the spans of all traces in which anything failed, perhaps undecoded, each with its source; as above.

    Each source is read twice: to find the traces that failed anywhere, then to read those everywhere. `see` is called
    with every span, those of other traces too, which therefore all have to be decoded.
    """
    with _held(sources) as held:
        traces = _failing_traces(held)
        if see is None:
            yield from _parsed(held, tallies, traces)
            return
        for name, span in _parsed(held, tallies, None):
            see(span)
            if span.trace_id in traces:
                yield name, span


@contextmanager
def _held(sources: Mapping[str, File]) -> Iterator[Mapping[str, File]]:
    """Give sources that can be opened more than once.

    Paths are opened for each pass, one at a time, because there may be more of them than a process may hold open.
    """
    with ExitStack() as stack:
        yield {
            name: source if is_path(source) else stack.enter_context(opened(source)) for name, source in sources.items()
        }


def _failing_traces(held: Mapping[str, File]) -> Collection[str]:
    from gym_failures.reading.sources.contents import failing_traces  # noqa: PLC0415 - spans need no extra, text does

    traces: set[str] = set()
    for source in held.values():
        with opened(source) as file:
            start = file.tell()
            traces.update(failing_traces(file))
            file.seek(start)
    return traces


def _parsed(
    held: Mapping[str, File], tallies: Mapping[str, Tally], traces: Collection[str] | None
) -> Iterator[tuple[str, Span]]:
    from gym_failures.reading.sources.contents import parse  # noqa: PLC0415 - as above

    for name, source in held.items():
        with opened(source) as file:
            for span in parse(file, tallies[name], traces=traces):
                yield name, span
