"""Parts of large files, read by several processes at once."""

import pickle
import signal
import threading
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import count as count_up
from itertools import islice
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

from gym_failures.reading.census import Census
from gym_failures.reading.model import Span, Tally
from gym_failures.reading.otlp_json import failing_traces, parse_lines
from gym_failures.reading.search import count
from gym_failures.reading.shelf import Bundle, bundle_of
from gym_failures.reading.sources.noted import ReplacedError
from gym_failures.reading.sources.parts import Part, blocks_of

T = TypeVar("T")
R = TypeVar("R")


@dataclass(slots=True)
class Found:
    """What a part holds."""

    tally: Tally = field(default_factory=Tally)
    """Its lines are numbered from the part's first."""
    lines: int = 0
    bundles: list[Bundle] = field(default_factory=list)
    """The spans of failing traces."""
    census: Census | None = None
    was_replaced: bool = False
    """Whether its file was, so that not all of the part could be read."""


def failing_in(part: Part) -> Collection[str]:
    """Return the ids of the traces in which a span of `part` tells of a failure, and perhaps of some that look so."""
    with suppress(ReplacedError):  # told of by `found_in`
        return failing_traces(blocks_of(part), is_start=part.start == 0)
    return ()


def found_in(part: Part, traces: Collection[str], *, with_census: bool) -> Found:
    """Return the spans of `traces` in `part`, and what else is to be known of it."""
    found = Found(census=Census() if with_census else None)
    held: dict[str, list[Span]] = {}

    def texts() -> Iterator[bytes]:
        try:
            for text in blocks_of(part):
                found.lines += count(text, b"\n")
                yield text
        except ReplacedError:
            found.was_replaced = True

    wanted = None if with_census else traces
    for span in parse_lines(texts(), found.tally, traces=wanted, is_start=part.start == 0):
        if found.census is not None:
            found.census.see(span)
        if wanted is None and span.trace_id not in traces:
            continue
        held.setdefault(span.trace_id, []).append(span)
    found.bundles = [bundle_of(trace_id, spans) for trace_id, spans in held.items()]
    return found


@contextmanager
def several(workers: int) -> Iterator[Callable[[Callable[[T], R], Iterable[T]], Iterator[R]]]:
    """Give a `map` that so many processes work for; what nobody waits for any more is not begun.

    Each reads what is to be done once, with all that it holds, from a file. They are at most `workers` + 1 things ahead
    of the last result that was taken. They are new ones (`spawn`), because a process that has threads cannot be copied:
    so a program that asks for them has to keep what it does when it is imported as a module behind
    `if __name__ == "__main__"`.
    """
    pool = ProcessPoolExecutor(workers, get_context("spawn"))
    numbers = count_up()

    def run(work: Callable[[T], R], things: Iterable[T]) -> Iterator[R]:
        path = Path(folder, str(next(numbers)))
        path.write_bytes(pickle.dumps(work, pickle.HIGHEST_PROTOCOL))
        left = iter(things)
        with _without_interrupts():  # processes are started when they are given the first thing
            begun = deque(pool.submit(_do, path, thing) for thing in islice(left, workers + 1))

        def results() -> Iterator[R]:
            while begun:
                result = begun.popleft().result()
                begun.extend(pool.submit(_do, path, thing) for thing in islice(left, 1))
                yield result

        return results()

    with TemporaryDirectory() as folder:
        try:
            yield run
        finally:
            pool.shutdown(cancel_futures=True)


@lru_cache(maxsize=1)
def _work_in(path: Path) -> Callable[[Any], Any]:
    work: Callable[[Any], Any] = pickle.loads(path.read_bytes())  # noqa: S301 - of the process that started this one
    return work


def _do(path: Path, thing: Any) -> Any:  # noqa: ANN401 - as the work has it
    return _work_in(path)(thing)


@contextmanager
def _without_interrupts() -> Iterator[None]:
    """Have what is started within ignore Ctrl-C, of which a terminal tells all processes: the first one ends them."""
    handler = signal.getsignal(signal.SIGINT)
    if handler is None or threading.current_thread() is not threading.main_thread():
        yield  # it cannot be put back, or not be changed
        return
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
