"""`gym-failures rows`: what traces tell of failures, put into the saved rows of the rollouts."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Final

import typer

from gym_failures import semconv
from gym_failures.cli import exits
from gym_failures.cli.files import Files, Strict, Unit, end, files_read, read
from gym_failures.cli.terminal import err, write_line
from gym_failures.reading import RebuiltReport
from gym_failures.rollout_ids import of_run
from gym_failures.rows import with_failures

_JOIN: Final = Path("join")
"""What this does, for those who name it; a file of that name is one all the same."""


def rows(
    saved: Annotated[
        Path,
        typer.Argument(metavar="ROWS", show_default=False, help="Saved rows, such as rollouts.jsonl."),
    ],
    files: Files = None,
    *,
    strict: Strict = False,
) -> None:
    """Print the rows of a run with the failures that its traces tell of, each in the row of its rollout.

    A row of which the traces tell nothing is printed as it is. In the others only the keys of this package change.
    Rows that have failures in them are read by the other commands like traces: gym-failures show rollouts.jsonl.
    For `rows` one may type `rows join`.
    """
    if saved == _JOIN and files and not saved.exists():
        saved, *files = files
    with read(files, Unit.ROLLOUT) as reports:
        waiting = {report.key: report for report in reports if report.key is not None}
    told = set()
    damaged = 0
    with files_read():
        for line in _lines(saved):
            row = _row(line)
            if row is None and line.strip():
                damaged += 1
            key = None if row is None else of_run(row).get(semconv.NEMO_GYM_ROLLOUT_ID)
            if row is not None and isinstance(key, str) and key in waiting:
                told.add(key)
                line = _with(row, waiting[key])  # noqa: PLW2901 - it is the same row
            write_line(line)
    console = err()
    left = len(waiting) - len(told)
    console.print(f"rows with failures: {len(told)}; rollouts of the traces without a row: {left}")
    if damaged:
        console.print(f"gym-failures: lines that are no rows, left as they are: {damaged}")
    if strict and damaged:
        raise typer.Exit(exits.SKIPPED)
    end(reports.skips, strict=strict, failed=False)


def _lines(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        for line in file:
            yield line.removesuffix(b"\n")


def _row(line: bytes) -> dict[str, object] | None:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return row if isinstance(row, dict) else None


def _with(row: dict[str, object], report: RebuiltReport) -> bytes:
    return json.dumps(with_failures(row, report.report, trace_id=report.trace_id)).encode()
