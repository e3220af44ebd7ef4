"""`gym-failures show`: a tree for each rollout that failed."""

from collections.abc import Sequence
from typing import Annotated

import typer
from rich.console import Console

from gym_failures.cli import exits
from gym_failures.cli.files import ExitCode, Files, Unit, read
from gym_failures.cli.terminal import out
from gym_failures.cli.tree import tree_of
from gym_failures.reading import RebuiltReport


def show(
    files: Files,
    by: Annotated[Unit, typer.Option(help="What a tree is made of.")] = Unit.ROLLOUT,
    *,
    recovered: Annotated[bool, typer.Option("--all", help="Show what was recovered from too.")] = False,
    exit_code: ExitCode = False,
) -> None:
    """Show why rollouts failed: a tree for each, from the root cause on.

    The spans of one rollout can be in the files of several servers; name all of them.
    """
    reports = read(files, by)
    print_trees(out(), reports, by, recovered=recovered)
    if exit_code and any(report.failed for report in reports):
        raise typer.Exit(exits.FAILED)


def print_trees(console: Console, reports: Sequence[RebuiltReport], unit: Unit, *, recovered: bool) -> None:
    """Print a tree for each report of a failure, for the others too if `recovered`, and how many there are of both."""
    failed = [report for report in reports if report.failed]
    for report in reports if recovered else failed:
        console.print(tree_of(report, unit.value))
        console.print()
    fine = len(reports) - len(failed)
    summary = f"{len(failed)} {unit.value}s failed"
    if fine:
        summary += f", {fine} recovered" + ("" if recovered else " (--all shows them)")
    console.print(summary, style="bold")
