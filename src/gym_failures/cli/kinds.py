"""`gym-failures kinds`: the vocabulary, and when each kind applies."""

import enum
import json
from typing import Annotated

import typer
from rich import box
from rich.table import Table

from gym_failures.cli import exits
from gym_failures.cli.choice import is_like
from gym_failures.cli.console import err, out
from gym_failures.cli.terminal import write
from gym_failures.kinds import KIND_DESCRIPTIONS


class Format(enum.StrEnum):
    """How the vocabulary is printed."""

    TABLE = "table"
    JSON = "json"


def kinds(
    patterns: Annotated[
        list[str] | None,
        typer.Argument(metavar="KIND...", show_default=False, help="Only these kinds; * stands for anything."),
    ] = None,
    output: Annotated[Format, typer.Option("--format", help="A table, or a JSON object.")] = Format.TABLE,
) -> None:
    """List the kinds of failures, and when each applies.

    Ends with status 1 where no kind is like what is asked for. A server's own kinds have its name and a colon in front.
    """
    known = {kind: says for kind, says in KIND_DESCRIPTIONS.items() if is_like(kind, patterns)}
    if not known:
        err().print("gym-failures: no kind is registered under that name")
        raise typer.Exit(exits.FAILED)
    if output is Format.JSON:
        write(json.dumps(known, indent=2))
        return
    table = Table(box=box.SIMPLE_HEAD, padding=0, show_edge=False)
    table.add_column("kind", no_wrap=True)
    table.add_column("applies when")
    for kind, says in known.items():
        table.add_row(kind, says)
    out().print(table)
