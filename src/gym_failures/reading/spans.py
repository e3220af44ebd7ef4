"""The spans of several sources, as they were stored."""

import os
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from io import IOBase

from gym_failures.reading.model import Span, SpanRecord, Tally, whole
from gym_failures.reading.sources.files import File, Watch, is_path, opened
from gym_failures.reading.sources.noted import REPLACED, Noted, ReplacedError

See = Callable[[Span], object]
"""Called with every span, those of traces that are not wanted too."""

Readable = Noted | IOBase
"""What can be read more than once: a path, or an open file that can seek."""


def read_spans(
    sources: Mapping[str, File], tallies: Mapping[str, Tally], *, every: bool = False
) -> Iterator[tuple[str, SpanRecord]]:
    """Yield the spans of all traces in which anything failed, or with `every` of all traces, each with its source.

    A trace in which a span fails in one source is read out of all of them. `tallies` has a tally for each source, which
    is kept. Raises what `read_files` does.
    """
    with held(sources) as readable:
        traces = None if every else failing_traces_in(readable)
        for name, span in spans_in(readable, tallies, traces):
            yield name, whole(span)


@contextmanager
def held(sources: Mapping[str, File]) -> Iterator[Mapping[str, Readable]]:
    """Give sources that can be opened more than once.

    Paths are opened for each pass, one at a time, because there may be more of them than a process may hold open. What
    they name is noted, so that all passes are over the same. Raises OSError for a path that names nothing.
    """
    with ExitStack() as stack:
        yield {
            name: Noted.of(source)
            if isinstance(source, os.PathLike) or is_path(source)
            else stack.enter_context(opened(source))
            for name, source in sources.items()
        }


def _opened(source: Readable, watch: Watch | None) -> AbstractContextManager[IOBase]:
    return source.open(watch) if isinstance(source, Noted) else nullcontext(source)


def failing_traces_in(sources: Mapping[str, Readable], watch: Watch | None = None) -> set[str]:
    """Return the ids of the traces in which a span tells of a failure anywhere, and perhaps of some that look so."""
    from gym_failures.reading.sources.contents import failing_traces  # noqa: PLC0415 - spans need no extra, text does

    traces: set[str] = set()
    for source in sources.values():
        with suppress(ReplacedError), _opened(source, watch) as file:  # told of by `spans_in`
            start = file.tell()
            traces.update(failing_traces(file))
            file.seek(start)
    return traces


def spans_in(
    sources: Mapping[str, Readable],
    tallies: Mapping[str, Tally],
    traces: Collection[str] | None,
    *,
    see: See | None = None,
    watch: Watch | None = None,
) -> Iterator[tuple[str, Span]]:
    """Yield the spans of `traces`, None for all, perhaps undecoded, each with its source, and keep the tallies.

    Where something has to `see` all of them, all are decoded, which takes longer.
    """
    from gym_failures.reading.sources.contents import parse  # noqa: PLC0415 - as above

    for name, source in sources.items():
        try:
            with _opened(source, watch) as file:
                for span in parse(file, tallies[name], traces=traces if see is None else None):
                    if see is not None:
                        see(span)
                    if traces is None or see is None or span.trace_id in traces:
                        yield name, span
        except ReplacedError:
            tallies[name].skip(0, REPLACED)
