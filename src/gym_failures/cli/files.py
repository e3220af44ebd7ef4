"""The files that a command is given, read together, and what could not be read of them."""

import enum
import os
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import BrokenExecutor
from contextlib import contextmanager
from pathlib import Path
from tempfile import gettempdir
from typing import TYPE_CHECKING, Annotated, Final, cast

import typer

from gym_failures import limits
from gym_failures.cli import exits
from gym_failures.cli.choice import Choice
from gym_failures.cli.console import err
from gym_failures.cli.extras import needs
from gym_failures.cli.jaeger import ask
from gym_failures.cli.progress import progress, size_of, workers_for
from gym_failures.cli.terminal import plain
from gym_failures.config import Config
from gym_failures.reading import Skip, StoredReports, iter_reports
from gym_failures.reading.sources.files import File
from gym_failures.reading.sources.paths import NothingThereError, expanded

if TYPE_CHECKING:
    from io import BufferedReader

STANDARD_INPUT: Final = Path("-")


class Unit(enum.StrEnum):
    """What one report is made of."""

    ROLLOUT = "rollout"
    REQUEST = "request"
    TRACE = "trace"


Files = Annotated[
    list[Path] | None,
    typer.Argument(
        metavar="FILE...",
        show_default=False,
        help="Traces as OpenTelemetry's file exporters or Jaeger write them; a folder, a pattern, or - (stdin)."
        " [default: gym-failures-traces, as run leaves it]",
    ),
]
ExitCode = Annotated[
    bool, typer.Option("--exit-code", help="End with status 1 if any rollout failed in the end.", show_default=False)
]
Strict = Annotated[
    bool, typer.Option("--strict", help="End with status 4 if anything could not be read.", show_default=False)
]
Workers = Annotated[
    int | None,
    typer.Option(
        metavar="N", min=1, help="Processes that read large files. [default: one for each core]", show_default=False
    ),
]


def read(
    files: Sequence[Path] | None,
    unit: Unit,
    *,
    jaeger: str | None = None,
    choice: Choice | None = None,
    requests: bool = False,
    workers: int | None = None,
) -> StoredReports:
    """Return the reports in `files`, and in what the Jaeger at that URL has of `choice`.

    They have to be closed. As many `workers` read as the files are worth, unless it is said how many. Says what was
    skipped, and ends the command when there was nothing else, or nothing at all to read.
    """
    sources = sources_of(files, jaeger=jaeger, choice=choice)
    size = size_of(sources)
    with files_read(), progress(size, err()) as watch:
        reports = iter_reports(
            sources,
            by=unit.value,
            requests=requests,
            workers=workers or workers_for(size),
            watch=watch,
        )
    say_skipped(reports.skipped, reports.skips)
    if (reports.skips or reports.others) and not reports.spans:
        reports.close()
        err().print("gym-failures: no span can be read; are these traces?")
        raise typer.Exit(exits.UNREADABLE)
    return reports


def sources_of(files: Sequence[Path] | None, *, jaeger: str | None = None, choice: Choice | None = None) -> list[File]:
    """Return what there is to read; ends the command where that is nothing, or cannot be meant."""
    try:
        paths = expanded(files or () if jaeger is not None else named(files))
    except NothingThereError as error:
        err().print(f"gym-failures: {plain(str(error))}", markup=False)
        raise typer.Exit(exits.USAGE) from None
    sources: list[File] = [standard_input() if path == STANDARD_INPUT else _regular(path) for path in paths]
    if jaeger is not None:
        with files_read():  # What is found may need the disk.
            sources.append(ask(jaeger, choice or Choice()))
    return sources


def named(files: Sequence[Path] | None) -> Sequence[Path]:
    """Return `files`, or the folder into which `run` has traces written from here, where none are named.

    Says that it takes the folder, and ends the command where there is none.
    """
    if files:
        return files
    folder = Path(os.environ.get("GYM_FAILURES_TRACES", "").strip() or Config().traces)
    if not folder.is_dir():
        said = f"name files or folders; there is no folder {plain(str(folder))}"
        raise typer.BadParameter(said, param_hint="FILE...")
    err().print(f"gym-failures: reading {plain(str(folder))}", markup=False)
    return [folder]


@contextmanager
def files_read() -> Iterator[None]:
    """End the command, and say why, where a file cannot be read within the block, or something that reading needs."""
    try:
        with needs("reading"):
            yield
    except BrokenExecutor:
        err().print("gym-failures: a process that read was ended from outside; --workers 1 starts none")
        raise typer.Exit(exits.USAGE) from None
    except OSError as error:
        # Only the file for what memory does not hold has no name.
        where = gettempdir() if error.filename is None else str(error.filename)
        err().print(f"gym-failures: {plain(where)}: {error.strerror}", markup=False)
        raise typer.Exit(exits.USAGE) from None


def say_skipped(skipped: Sequence[Skip], skips: int) -> None:
    """Name the first places that could not be read, and say how many there are in all."""
    console = err()
    for skip in skipped[: limits.SKIPS_SHOWN]:
        console.print(f"skipped: {plain(skip.where)}: {plain(skip.reason)}", style="yellow", markup=False)
    if skips > limits.SKIPS_SHOWN:
        console.print(f"skipped: {skips} places in all", style="yellow")


def say_untimed(number: int) -> None:
    """Say how many failures were left out because nothing tells when they were, where there are any."""
    if number:
        are = "1 failure is" if number == 1 else f"{number} failures are"
        err().print(f"gym-failures: {are} left out, of a time that is not known", style="yellow")


def end(skips: int, *, strict: bool, failed: bool) -> None:
    """End the command with the status that its result has: of what was skipped if that matters, else of a failure."""
    if strict and skips:
        raise typer.Exit(exits.SKIPPED)
    if failed:
        raise typer.Exit(exits.FAILED)


def _regular(path: Path) -> File:
    """Return a path that can be opened again and again, or what is there to be read once, as a shell's `<(...)`."""
    try:
        return path.open("rb") if path.is_fifo() or path.is_char_device() else path
    except OSError:
        return path  # Whoever reads it says what is wrong.


def standard_input() -> "BufferedReader":
    """Return standard input as bytes; ends the command where it is closed."""
    if sys.stdin is None:
        err().print("gym-failures: standard input is closed")
        raise typer.Exit(exits.USAGE)
    return cast("BufferedReader", sys.stdin.buffer)  # typeshed calls it BinaryIO
