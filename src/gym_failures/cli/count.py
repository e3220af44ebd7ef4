"""`gym-failures count`: how many failures there were, by kind and boundary."""

from collections.abc import Iterable

import typer
from rich.console import Console

from gym_failures.cli import exits
from gym_failures.cli.files import ExitCode, Files, Unit, read
from gym_failures.cli.table import remarks_on, table_of
from gym_failures.cli.tally import tally
from gym_failures.cli.terminal import out
from gym_failures.reading import RebuiltReport


def count(files: Files, *, exit_code: ExitCode = False) -> None:
    """Count failures by kind and boundary.

    Each failure counts once, however many replies have told of it: these are the numbers of the metric `gym.failures`.
    One that made three servers fail is three failures and one root cause.
    """
    reports = read(files, Unit.TRACE)
    print_table(out(), reports)
    if exit_code and reports:
        raise typer.Exit(exits.FAILED)


def print_table(console: Console, reports: Iterable[RebuiltReport]) -> None:
    """Print the table, and what has to be known to read it right."""
    counted = tally(reports)
    if not counted.total:
        console.print("no failures")
        return
    console.print(table_of(counted))
    for remark in remarks_on(counted):
        console.print(remark, style="dim")
