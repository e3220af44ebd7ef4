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
from gym_failures.cli.files import Strict, Unit, end, read
from gym_failures.cli.table import shown_kind
from gym_failures.cli.tally import DEFAULT, Field, fields_of
from gym_failures.cli.terminal import out, plain, write
from gym_failures.reading import Reports

_STYLES: Final = {Way.NEW: "bold red", Way.ROSE: "red", Way.FELL: "green", Way.GONE: "green"}


class Format(enum.StrEnum):
    """How changes are printed."""

    TABLE = "table"
    JSON = "json"


Run = Annotated[
    Path, typer.Argument(show_default=False, help="The traces or rows of one run: a file, a folder, or a pattern.")
]


def diff(
    before: Run,
    after: Run,
    by: Annotated[
        str, typer.Option(metavar="FIELD,...", help=f"What to compare by, any of {', '.join(Field)}.")
    ] = ",".join(DEFAULT),
    output: Annotated[Format, typer.Option("--format", help="How to print what changed.")] = Format.TABLE,
    *,
    exit_code: Annotated[
        bool, typer.Option("--exit-code", help="End with status 1 if anything is new or rose.", show_default=False)
    ] = False,
    strict: Strict = False,
) -> None:
    """Compare the failures of two runs: which kinds are new, which rose, fell or are gone, each with examples.

    Numbers are of failures, each counted once, and not of shares: they mean something where both runs are as large.
    """
    fields = fields_of(by)
    was, now = read([before], Unit.ROLLOUT), read([after], Unit.ROLLOUT)
    found = changes(was, now, fields)
    if output is Format.JSON:
        write(json.dumps(_document(found, fields, was, now), indent=2))
    else:
        _print(found, fields, was, now)
    for reports in (was, now):
        end(reports, strict=strict, failed=False)
    end(now, strict=False, failed=exit_code and any(change.way in WORSE for change in found))


def _print(found: Sequence[Change], fields: Sequence[Field], was: Reports, now: Reports) -> None:
    console = out()
    if found:
        table = Table(box=box.SIMPLE_HEAD, padding=0, show_edge=False)
        table.add_column("")
        for of in fields:
            table.add_column(of.value, overflow="fold")
        for name in ("before", "after"):
            table.add_column(name, justify="right")
        table.add_column("such as", style="dim", overflow="fold")
        for change in found:
            names = [
                shown_kind(part) if of is Field.KIND else Text(plain(part or "-"))
                for of, part in zip(fields, change.key, strict=True)
            ]
            examples = ", ".join(plain(seen.key or f"trace {seen.trace_id}") for seen in change.examples)
            way = Text(change.way.value, style=_STYLES[change.way])
            table.add_row(way, *names, str(change.before), str(change.after), Text(examples))
        console.print(table)
    else:
        console.print("no failure is more or less frequent")
    console.print(f"failed rollouts: {_failed(was)} before, {_failed(now)} after", style="bold")


def _document(found: Sequence[Change], fields: Sequence[Field], was: Reports, now: Reports) -> dict[str, object]:
    return {
        "by": list(fields),
        "changes": [
            {
                **dict(zip(fields, change.key, strict=True)),
                "change": change.way,
                "before": change.before,
                "after": change.after,
                "root_causes_before": change.root_causes_before,
                "root_causes_after": change.root_causes_after,
                "examples": [{"rollout": seen.key, "trace_id": seen.trace_id} for seen in change.examples],
            }
            for change in found
        ],
        "failed_before": _failed(was),
        "failed_after": _failed(now),
        "skipped": was.skips + now.skips,
    }


def _failed(reports: Reports) -> int:
    return sum(report.failed for report in reports)
