"""Files that are still being written: what fails is shown as it appears."""

import os
import time
from collections.abc import Callable, Iterator, Sequence
from io import BufferedReader
from pathlib import Path

import typer

from gym_failures import limits
from gym_failures.cli import exits
from gym_failures.cli.choice import Choice
from gym_failures.cli.console import err
from gym_failures.cli.extras import needs
from gym_failures.cli.files import Unit, say_skipped
from gym_failures.cli.terminal import plain
from gym_failures.reading import RebuiltReport, Skip, Tally
from gym_failures.reading.sources.paths import NothingThereError, expanded
from gym_failures.reading.sources.tail import Tail
from gym_failures.reading.window import Window

_ONLY_LINES = "only lines of OTLP JSON can be followed"


def follow(
    files: Sequence[Path],
    unit: Unit,
    choice: Choice,
    *,
    quiet: float,
    show: Callable[[RebuiltReport], None],
    gone: Callable[[RebuiltReport], None],
) -> int:
    """Show each report of `choice` that is new, until Ctrl-C; then what is left, though it may not be whole.

    `gone` is called with one that was shown and is another's now. Returns how much could not be read.
    """
    window = Window(by=unit.value, quiet=quiet, cut=_say_cut, gone=gone)
    followed = _Followed(files, window)
    try:
        while True:
            for _ in followed.texts():
                for report in choice.of(window.due()):
                    show(report)
            for report in choice.of(window.ready(time.monotonic())):
                show(report)
            time.sleep(limits.FOLLOW_EVERY)
    except KeyboardInterrupt:
        for report in choice.of(window.rest()):
            show(report)
    return followed.skips


def _say_cut(trace_id: str) -> None:
    most = f"{limits.FOLLOWED_SPANS:,}"
    err().print(
        f"gym-failures: trace {trace_id} has more than {most} spans; it is shown, and of its spans until "
        "now at most the failures are held",
        markup=False,
    )


class _Followed:
    """The files that are followed, each known by its device and its number there, which a new name leaves."""

    def __init__(self, files: Sequence[Path], window: Window) -> None:
        self.skips = 0
        self._files = files
        self._window = window
        self._tails: dict[tuple[int, int], Tail] = {}
        self._passed: set[tuple[int, int]] = set()
        self._awaited: set[Path] = set()

    def texts(self) -> Iterator[None]:
        """Read what came since the last time, of the files that are there by now, a text at each step."""
        for given in self._files:
            try:
                paths = expanded([given])
            except NothingThereError as error:
                if given not in self._awaited:
                    err().print(f"gym-failures: {plain(str(error))}; waiting", markup=False)
                self._awaited.add(given)
                continue
            for path in paths:
                try:
                    file = path.open("rb")
                except FileNotFoundError:
                    continue
                with file:
                    yield from self._texts(file, path, is_named=path == given)

    def _texts(self, file: BufferedReader, path: Path, *, is_named: bool) -> Iterator[None]:
        with needs("reading"):
            from gym_failures.reading.otlp_json import parse_lines  # noqa: PLC0415 - to name what is missing
            from gym_failures.reading.sources.contents import is_lines  # noqa: PLC0415 - as above

        status = os.fstat(file.fileno())
        key = status.st_dev, status.st_ino
        tail = self._tails.setdefault(key, Tail())
        if tail.find(file) == 0 and not is_lines(file.peek(limits.RECOGNISED_START)[: limits.RECOGNISED_START]):
            if is_named:
                err().print(f"gym-failures: {plain(str(path))}: {_ONLY_LINES}", markup=False)
                raise typer.Exit(exits.USAGE)
            if key not in self._passed:
                self._passed.add(key)
                self._skipped([Skip(0, _ONLY_LINES, str(path))], 1)
            return
        tally = Tally()
        for text in tail.texts(file, tally.skip):
            found = Tally()
            for span in parse_lines([text], found):
                self._window.add(span, time.monotonic())
            tally.add(found, after=tail.lines)
            yield
        self._skipped([skip._replace(source=str(path)) for skip in tally.skipped], tally.skips)

    def _skipped(self, skipped: Sequence[Skip], skips: int) -> None:
        say_skipped(skipped, skips)
        self.skips += skips
