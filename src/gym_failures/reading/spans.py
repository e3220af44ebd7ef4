"""The spans of several sources, as they were stored."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack

from gym_failures.reading.model import SpanRecord, Tally, whole
from gym_failures.reading.sources.files import File, is_path, opened


def read_spans(
    sources: Mapping[str, File], tallies: Mapping[str, Tally], *, every: bool = False
) -> Iterator[tuple[str, SpanRecord]]:
    """Yield the spans of all traces in which anything failed, or with `every` of all traces, each with its source.

    A trace in which a span fails in one source is read out of all of them. `tallies` has a tally for each source, which
    is kept. Raises what `read_files` does.
    """
    from gym_failures.reading.sources.contents import failing_traces, parse  # noqa: PLC0415 - as in `reports`

    with ExitStack() as stack:
        held = {
            name: source if is_path(source) else stack.enter_context(opened(source)) for name, source in sources.items()
        }
        traces: set[str] | None = None if every else set()
        if traces is not None:
            for one in held.values():
                with opened(one) as file:
                    start = file.tell()
                    traces.update(failing_traces(file))
                    file.seek(start)
        for name, one in held.items():
            with opened(one) as file:
                for span in parse(file, tallies[name], traces=traces):
                    yield name, whole(span)
