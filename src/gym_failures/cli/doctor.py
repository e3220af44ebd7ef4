"""`gym-failures doctor`: whether failures would be seen in this environment."""

import enum
import json
import os
from typing import Annotated, Final

import typer
from rich.text import Text

from gym_failures.cli import exits
from gym_failures.cli.checkup.finding import Level
from gym_failures.cli.checkup.whole import checkup
from gym_failures.cli.console import out
from gym_failures.cli.terminal import plain, write

_MARKS: Final = {Level.OK: ("✓", "green"), Level.WARNING: ("!", "yellow"), Level.PROBLEM: ("✗", "bold red")}


class Format(enum.StrEnum):
    """How findings are printed."""

    TEXT = "text"
    JSON = "json"


def doctor(
    output: Annotated[Format, typer.Option("--format", help="How to print what was found.")] = Format.TEXT,
) -> None:
    """Say whether tracing is on in this environment, and what in it would lose failures, each with what to do.

    Run it where the servers run, with their variables: it looks at packages, at the variables of this package and of
    OpenTelemetry, and whether somebody takes spans. It ends with status 1 if there is a problem.
    """
    found = list(checkup(os.environ))
    problems = sum(finding.level is Level.PROBLEM for finding in found)
    if output is Format.JSON:
        write(json.dumps({"findings": [finding._asdict() for finding in found], "problems": problems}, indent=2))
    else:
        console = out()
        for finding in found:
            mark, style = _MARKS[finding.level]
            console.print(Text.assemble((mark, style), f" {plain(finding.about)}: ", (plain(finding.says), "")))
            if finding.fix is not None:
                console.print(Text(f"  to mend it: {plain(finding.fix)}", "dim"))
        console.print("1 problem" if problems == 1 else f"{problems or 'no'} problems", style="bold")
    if problems:
        raise typer.Exit(exits.FAILED)
