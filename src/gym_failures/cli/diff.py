"""`gym-failures diff`: what fails in one run that did not fail, or less often, in another."""

import enum
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Final

import typer
from rich import box
from rich.table import Table
from rich.text import Text

from gym_failures.cli.changes import WORSE, Change, Way, changes
from gym_failures.cli.console import out
from gym_failures.cli.files import Strict, Unit, Workers, end, read
from gym_failures.cli.table import shown_kind
from gym_failures.cli.tally import DEFAULT, Field, Tally, fields_of, tally
from gym_failures.cli.terminal import plain, write

_STYLES: Final = {Way.NEW: "bold red", Way.ROSE: "red", Way.FELL: "green", Way.GONE: "green"}


class Format(enum.StrEnum):
    """How changes are printed."""

    TABLE = "table"
    JSON = "json"


def diff(
    before: Annotated[
        Path,
        typer.Argument(
            metavar="BEFORE", show_default=False, help="The traces or rows of one run: a file, a folder, or a pattern."
        ),
    ],
    after: Annotated[
        Path, typer.Argument(metavar="AFTER", show_default=False, help="Those of the run to compare it with.")
    ],
    by: Annotated[
        str, typer.Option(metavar="FIELD,...", help=f"What to compare by, any of {', '.join(Field)}.")
    ] = ",".join(DEFAULT),
    output: Annotated[Format, typer.Option("--format", help="How to print what changed.")] = Format.TABLE,
    *,
    exit_code: Annotated[
        bool, typer.Option("--exit-code", help="End with status 1 if anything is new or rose.", show_default=False)
    ] = False,
    workers: Workers = None,
    strict: Strict = False,
) -> None:
    """Compare the failures of two runs: which kinds are new, which rose, fell or are gone, each with examples.

    Numbers are of failures, each counted once, and not of shares: they mean something where both runs are as large.
    """
    fields = fields_of(by)
    (was, skipped_before), (now, skipped_after) = _counted(before, fields, workers), _counted(after, fields, workers)
    found = changes(was, now)
    skips = skipped_before + skipped_after
    if output is Format.JSON:
        write(json.dumps(_document(found, was, now, skips), indent=2))
    else:
        _print(found, was, now)
    end(skips, strict=strict, failed=exit_code and any(change.way in WORSE for change in found))


def _counted(run: Path, fields: Sequence[Field], workers: int | None) -> tuple[Tally, int]:
    """Return what failed in a run, and how much could not be read."""
    with read([run], Unit.ROLLOUT, workers=workers) as reports:
        return tally(reports, by=fields), reports.skips


def _print(found: Sequence[Change], was: Tally, now: Tally) -> None:
    console = out()
    if found:
        table = Table(box=box.SIMPLE_HEAD, padding=0, show_edge=False)
        table.add_column("")
        for of in now.by:
            table.add_column(of.value, overflow="fold")
        for name in ("before", "after"):
            table.add_column(name, justify="right")
        table.add_column("such as", style="dim", overflow="fold")
        for change in found:
            names = [
                shown_kind(part) if of is Field.KIND else Text(plain(part or "-"))
                for of, part in zip(now.by, change.key, strict=True)
            ]
            examples = ", ".join(plain(one.rollout or f"trace {one.trace_id}") for one in change.examples)
            way = Text(change.way.value, style=_STYLES[change.way])
            table.add_row(way, *names, str(change.before), str(change.after), Text(examples))
        console.print(table)
    else:
        console.print("no failure is more or less frequent")
    console.print(f"failed rollouts: {was.failed} before, {now.failed} after", style="bold")


def _document(found: Sequence[Change], was: Tally, now: Tally, skips: int) -> dict[str, object]:
    return {
        "by": list(now.by),
        "changes": [
            {
                **dict(zip(now.by, change.key, strict=True)),
                "change": change.way,
                "before": change.before,
                "after": change.after,
                "root_causes_before": change.root_causes_before,
                "root_causes_after": change.root_causes_after,
                "examples": [{"rollout": one.rollout, "trace_id": one.trace_id} for one in change.examples],
            }
            for change in found
        ],
        "failed_before": was.failed,
        "failed_after": now.failed,
        "skipped": skips,
    }
