"""`gym-failures rows`: what traces tell of failures, put into the saved rows of the rollouts."""

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated, Final

import typer

from gym_failures import limits, semconv
from gym_failures.cli.console import err
from gym_failures.cli.files import (
    STANDARD_INPUT,
    Files,
    Strict,
    Unit,
    end,
    files_read,
    read,
    say_skipped,
    standard_input,
)
from gym_failures.cli.terminal import write_bytes
from gym_failures.reading import RebuiltReport, Tally
from gym_failures.reading.gym_rows import created
from gym_failures.reading.rollouts import is_a_rollout
from gym_failures.reading.sources.unpacking import lines_of
from gym_failures.rollout_ids import of_run
from gym_failures.rows import join_failures, read_row

_SECOND: Final = 10**9
"""In nanoseconds."""
_JOIN: Final = Path("join")
"""What this does, for those who name it; a file of that name is one all the same."""


def rows(
    saved: Annotated[
        Path,
        typer.Argument(metavar="ROWS", show_default=False, help="Saved rows, such as rollouts.jsonl; - is stdin."),
    ],
    files: Files = None,
    *,
    strict: Strict = False,
) -> None:
    """Print the rows of a run with the failures that its traces tell of, each in the row of its rollout.

    A row of which the traces tell nothing is printed as it is. In the others only the keys of this package change, and
    what they told already stays. A row that names its trace takes what that one tells; any other is left where the
    traces have its rollout at another time than that of its response.
    Rows that have failures in them are read by the other commands like traces: gym-failures show rollouts.jsonl.
    For `rows` one may type `rows join`.
    """
    if saved == _JOIN and files and not saved.exists():
        saved, *files = files
    if saved == STANDARD_INPUT and saved in (files or ()):
        raise typer.BadParameter("standard input holds rows or traces, not both", param_hint="ROWS")
    given = standard_input() if saved == STANDARD_INPUT else None
    tally = Tally()
    with read(files, Unit.ROLLOUT) as reports:
        waiting = _by_rollout(reports)
    number = sum(map(len, waiting.values()))
    told: set[int] = set()
    joined = damaged = of_several = of_other_times = 0
    with files_read(), nullcontext(given) if given is not None else saved.open("rb") as file:
        for line, is_whole in lines_of(file, tally.skip):
            row = _row(line) if is_whole else None
            damaged += is_whole and row is None and bool(line.strip())
            named = () if row is None else _reports_of(row, waiting)
            found = named if row is None else [report for report in named if _was_then(row, report)]
            of_other_times += len(named) > len(found) == 0
            if row is not None and len(found) == 1:
                joined += 1
                told.add(id(found[0]))
                line = _with(row, found[0])  # noqa: PLW2901 - it is the same row
            of_several += len(found) > 1
            write_bytes(line if line.endswith(b"\n") or not is_whole else line + b"\n")
    say_skipped([skip._replace(source=str(saved)) for skip in tally.skipped], tally.skips)
    console = err()
    console.print(f"rows with failures: {joined}; rollouts of the traces without a row: {number - len(told)}")
    if of_several:
        said = "the traces of several runs have their rollouts"
        console.print(f"gym-failures: rows left as they are, because {said}: {of_several}")
    if of_other_times:
        said = "the traces have their rollouts at another time"
        console.print(f"gym-failures: rows left as they are, because {said}: {of_other_times}")
    if damaged:
        console.print(f"gym-failures: lines that are no rows, left as they are: {damaged}")
    end(reports.skips + damaged + tally.skips, strict=strict, failed=False)


def _row(line: bytes) -> dict[str, object] | None:
    try:
        row = json.loads(line)
        if isinstance(row, dict):
            read_row(row)
            return row
    except (ValueError, RecursionError):
        pass
    return None


def _by_rollout(reports: Iterable[RebuiltReport]) -> Mapping[str, Sequence[RebuiltReport]]:
    """Return the reports of known rollouts by these; there can be several of one id, of as many runs."""
    found: defaultdict[str, list[RebuiltReport]] = defaultdict(list)
    for report in reports:
        if report.key is not None:
            found[report.key].append(report)
    return found


def _reports_of(row: Mapping[str, object], waiting: Mapping[str, Sequence[RebuiltReport]]) -> Sequence[RebuiltReport]:
    """Return the reports of the rollout of a row: those that its trace tells of where it names one."""
    rollout = of_run(row).get(semconv.NEMO_GYM_ROLLOUT_ID)
    found = waiting.get(rollout, ()) if isinstance(rollout, str) else ()
    trace_id = read_row(row).trace_id
    return found if trace_id is None else [report for report in found if trace_id in report.traces]


def _was_then(row: Mapping[str, object], report: RebuiltReport) -> bool:
    """Tell whether a row can be of the run that `report` is of, by the time of its response; true if nothing says."""
    created_ns = created(row)
    if not created_ns or not report.span.start_ns or read_row(row).trace_id is not None:
        return True
    times = [*filter(None, (report.span.start_ns, report.span.end_ns, *report.times.values()))]
    away_ns = (limits.ROW_TIME if is_a_rollout(report.span) else limits.ROW_TIME_UNTRACED) * _SECOND
    return min(times) - away_ns <= created_ns <= max(times) + away_ns


def _with(row: Mapping[str, object], report: RebuiltReport) -> bytes:
    return json.dumps(join_failures(row, report.report, trace_id=report.trace_id)).encode() + b"\n"
