"""How far reading is: a bar on a terminal where it takes long, and how many processes share the work."""

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

from gym_failures import limits
from gym_failures.reading.sources.files import File, Watch, is_path

_PASSES = 2
"""How often a file is read."""
_STEP = 4 * 1_024 * 1_024
"""What is read between two moves of the bar, in bytes, because to move it takes as long as to read some 10 KB."""


def size_of(sources: Iterable[File]) -> int:
    """Return how large the files among `sources` are together, in bytes; what cannot be told counts as nothing."""
    size = 0
    for source in sources:
        if is_path(source):
            with suppress(OSError):  # told of where it is opened
                size += Path(source).stat().st_size
    return size


def workers_for(size: int) -> int:
    """Return how many processes are to read so many bytes: one for each core this one may use, if it is worth it."""
    if size < limits.SHARED_FILES:
        return 1
    try:
        cores = len(os.sched_getaffinity(0))
    except AttributeError:  # not on Linux
        cores = os.cpu_count() or 1
    return min(cores, limits.WORKERS)


@contextmanager
def progress(size: int, console: Console) -> Iterator[Watch | None]:
    """Show how much of `size` bytes is read, and the time left, on a terminal; gives what to tell of it.

    Gives None where nothing is to be shown.
    """
    if size < limits.LARGE_FILES or not console.is_terminal:
        yield None
        return
    columns = (TextColumn("reading"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as shown:
        task = shown.add_task("", total=size)
        untold = 0

        def watch(read: int) -> None:
            nonlocal untold
            untold += read
            if untold >= _STEP:
                shown.advance(task, untold / _PASSES)  # people know how large a file is, and not how often it is read
                untold = 0

        yield watch
