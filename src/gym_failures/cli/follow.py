"""Files that are still being written: what fails is shown as it appears."""

import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import typer

from gym_failures import limits
from gym_failures.cli import exits
from gym_failures.cli.choice import Choice
from gym_failures.cli.extras import needs
from gym_failures.cli.files import Unit, say_skipped
from gym_failures.cli.terminal import err, plain
from gym_failures.reading import RebuiltReport, Skip, Tally
from gym_failures.reading.sources.paths import NothingThereError, expanded
from gym_failures.reading.sources.tail import Tail
from gym_failures.reading.window import Window


def follow(
    files: Sequence[Path], unit: Unit, choice: Choice, *, quiet: float, show: Callable[[RebuiltReport], None]
) -> None:
    """Show each report of `choice` that is new, until Ctrl-C; then what is left, though it may not be whole."""
    window = Window(by=unit.value, quiet=quiet)
    tails: dict[Path, Tail] = {}
    try:
        while True:
            for tail in _tails(files, tails):
                _read(tail, window)
            for report in choice.of(window.ready(time.monotonic())):
                show(report)
            time.sleep(limits.FOLLOW_EVERY)
    except KeyboardInterrupt:
        for report in choice.of(window.rest()):
            show(report)


def _tails(files: Sequence[Path], known: dict[Path, Tail]) -> Iterator[Tail]:
    """Yield what to read of every file that is there by now; the first time, say where nothing is yet."""
    for given in files:
        try:
            paths = expanded([given])
        except NothingThereError as error:
            if not known:
                err().print(f"gym-failures: {plain(str(error))}; waiting", markup=False)
            continue
        for path in paths:
            if path not in known:
                known[path] = Tail(path)
            yield known[path]


def _read(tail: Tail, window: Window) -> None:
    with needs("reading"):
        from gym_failures.reading.otlp_json import parse_lines  # noqa: PLC0415 - so that what is missing can be named
        from gym_failures.reading.sources.contents import is_lines  # noqa: PLC0415 - as above

    if tail.lines == 0 and not is_lines(tail.start()):
        err().print(f"gym-failures: {plain(str(tail.path))}: only lines of OTLP JSON can be followed", markup=False)
        raise typer.Exit(exits.USAGE)
    for text in tail.texts():
        tally = Tally()
        for span in parse_lines([text], tally):
            window.add(span, time.monotonic())
        say_skipped([Skip(skip.line + tail.lines, skip.reason, str(tail.path)) for skip in tally.skipped], tally.skips)
