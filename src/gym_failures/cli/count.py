"""`gym-failures count`: how many failures there were, by kind and boundary or what else they have in common."""

import enum
from collections.abc import Iterable
from typing import Annotated

import typer
from rich.console import Console

from gym_failures.cli.choice import Boundary, Choice, Kind, Rollout, Service, Since, Until, is_like
from gym_failures.cli.console import err, out
from gym_failures.cli.files import Files, Strict, Unit, Workers, end, read, say_untimed
from gym_failures.cli.jaeger import Url
from gym_failures.cli.table import remarks_on, table_of
from gym_failures.cli.tallied import as_csv, as_json, as_prometheus
from gym_failures.cli.tally import DEFAULT, Field, Tally, fields_of, tally
from gym_failures.cli.terminal import plain, write
from gym_failures.kinds import KIND_DESCRIPTIONS
from gym_failures.reading import RebuiltReport


class Format(enum.StrEnum):
    """How counts are printed."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"
    PROMETHEUS = "prometheus"


def count(
    files: Files = None,
    by: Annotated[
        str, typer.Option(metavar="FIELD,...", help=f"What to count by, any of {', '.join(Field)}.")
    ] = ",".join(DEFAULT),
    output: Annotated[Format, typer.Option("--format", help="How to print the counts.")] = Format.TABLE,
    *,
    kind: Kind = None,
    boundary: Boundary = None,
    service: Service = None,
    rollout: Rollout = None,
    since: Since = None,
    until: Until = None,
    jaeger: Url = None,
    exit_code: Annotated[
        bool,
        typer.Option(
            "--exit-code", help="End with status 1 if there was any failure, recovered from or not.", show_default=False
        ),
    ] = False,
    workers: Workers = None,
    strict: Strict = False,
) -> None:
    """Count failures by kind and boundary, or by what else they have in common.

    Each failure counts once, however many replies have told of it: these are the numbers of the metric `gym.failures`.
    One that made three servers fail is three failures and one root cause.
    """
    fields = fields_of(by)
    if output is Format.PROMETHEUS and Field.HOUR in fields:
        raise typer.BadParameter("an hour is no label of a metric", param_hint="--by")
    choice = Choice(kind, boundary, service, rollout, since, until)
    with read(files, Unit.ROLLOUT, jaeger=jaeger, choice=choice, workers=workers) as reports:
        counted = tally(reports, by=fields, choice=choice)
    for pattern in kind or ():
        if not any(is_like(name, [pattern]) for name in (*KIND_DESCRIPTIONS, *counted.kinds)):
            said = f"no kind is like {plain(pattern)}, neither here nor registered (gym-failures kinds lists these)"
            err().print(f"gym-failures: {said}", markup=False)
    match output:
        case Format.TABLE:
            _print(out(), counted)
        case Format.JSON:
            write(as_json(counted, skipped=reports.skips))
        case Format.CSV:
            write(as_csv(counted))
        case Format.PROMETHEUS:
            write(as_prometheus(counted))
    say_untimed(counted.untimed)
    end(reports.skips, strict=strict, failed=exit_code and counted.total > 0)


def print_table(console: Console, reports: Iterable[RebuiltReport]) -> None:
    """Print the table of kinds and boundaries, and what has to be known to read it right."""
    _print(console, tally(reports))


def _print(console: Console, counted: Tally) -> None:
    if not counted.total:
        console.print("no failures")
        return
    console.print(table_of(counted))
    for remark in remarks_on(counted):
        console.print(remark, style="dim")
