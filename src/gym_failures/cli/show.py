"""`gym-failures show`: a tree for each rollout that failed."""

import enum
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from gym_failures import limits
from gym_failures.cli.choice import Boundary, Choice, Kind, Rollout, Service, Since, Until
from gym_failures.cli.console import out
from gym_failures.cli.documents import report_line, reports_document
from gym_failures.cli.files import STANDARD_INPUT, ExitCode, Files, Strict, Unit, Workers, end, named, read, say_untimed
from gym_failures.cli.follow import follow
from gym_failures.cli.jaeger import Url
from gym_failures.cli.terminal import write
from gym_failures.cli.tree import tree_of
from gym_failures.kinds import CANCELLED
from gym_failures.reading import RebuiltReport, StoredReports


class Format(enum.StrEnum):
    """How reports are printed."""

    TEXT = "text"
    JSON = "json"
    JSONL = "jsonl"


def show(
    files: Files = None,
    by: Annotated[Unit, typer.Option(help="What a tree is made of.")] = Unit.ROLLOUT,
    output: Annotated[Format, typer.Option("--format", help="Trees, one JSON document, or one a line.")] = Format.TEXT,
    *,
    recovered: Annotated[bool, typer.Option("--all", help="Show what was recovered from too.")] = False,
    kind: Kind = None,
    boundary: Boundary = None,
    service: Service = None,
    rollout: Rollout = None,
    ids: Annotated[
        list[str] | None,
        typer.Option("--id", metavar="ID", help="Only the tree of this id, of what --by says; * stands for anything."),
    ] = None,
    since: Since = None,
    until: Until = None,
    jaeger: Url = None,
    following: Annotated[
        bool, typer.Option("--follow", help="Go on reading while the files are written, until Ctrl-C.")
    ] = False,
    quiet: Annotated[
        float,
        typer.Option(metavar="SECONDS", min=0, help="With --follow: how long after its last span a trace is shown."),
    ] = limits.FOLLOW_QUIET,
    exit_code: ExitCode = False,
    workers: Workers = None,
    strict: Strict = False,
) -> None:
    """Show why rollouts failed: a tree for each, from the root cause on.

    The spans of one rollout can be in the files of several servers; name all of them. Options that choose failures
    choose the rollouts in which there is such a failure, and show these whole.
    """
    if rollout and by is not Unit.ROLLOUT:
        raise typer.BadParameter(
            f"a {by.value} is not asked for by rollout; --id takes its own", param_hint="--rollout"
        )
    choice = Choice(kind, boundary, service, rollout, since, until, ids)
    if following:
        if jaeger is not None or STANDARD_INPUT in (files or ()) or output is Format.JSON or workers is not None:
            raise typer.BadParameter(
                "follows files and folders, in one process, and prints text or jsonl", param_hint="--follow"
            )
        failed, skips = _follow(named(files), choice, by, output, quiet=quiet, recovered=recovered)
        end(skips, strict=strict, failed=exit_code and failed > 0)
        return
    with read(files, by, jaeger=jaeger, choice=choice, workers=workers) as reports:
        untimed: set[str] = set()
        failed = _print(reports, choice.of(reports, untimed), by, output, recovered=recovered)
    say_untimed(len(untimed))
    end(reports.skips, strict=strict, failed=exit_code and failed > 0)


def _print(
    reports: StoredReports, chosen: Iterable[RebuiltReport], unit: Unit, output: Format, *, recovered: bool
) -> int:
    """Print what is chosen of the reports, one after the other where the format allows; return how many failed."""
    if output is Format.TEXT:
        return print_trees(out(), chosen, unit, recovered=recovered)
    if output is Format.JSON:
        every = [*chosen]
        failed = [report for report in every if report.failed]
        counts = {"failed": len(failed), "recovered": len(every) - len(failed)}
        shown = every if recovered else failed
        write(reports_document(shown, unit.value, **counts, spans=reports.spans, skipped=reports.skips))
        return len(failed)
    number = 0
    for report in chosen:
        number += report.failed
        if report.failed or recovered:
            write(report_line(report, unit.value))
    return number


def _follow(
    files: Sequence[Path], choice: Choice, unit: Unit, output: Format, *, quiet: float, recovered: bool
) -> tuple[int, int]:
    """Print what is chosen as it appears, and in the end how many; return how many failed, and what was skipped."""
    console = out()
    outcomes: dict[tuple[str | None, str], _Outcome] = {}

    def print_one(report: RebuiltReport) -> None:
        outcomes[report.key, report.trace_id] = _Outcome.of(report)  # it comes again when it has changed
        if not (report.failed or recovered):
            return
        if output is Format.JSONL:
            write(report_line(report, unit.value))
        else:
            console.print(tree_of(report, unit.value))
            console.print()

    def forget(report: RebuiltReport) -> None:
        outcomes.pop((report.key, report.trace_id), None)

    skips = follow(files, unit, choice, quiet=quiet, show=print_one, gone=forget)
    counts = Counter(outcomes.values())
    if output is Format.TEXT:
        _print_summary(console, counts, unit, recovered=recovered)
    return _failed(counts), skips


def print_trees(console: Console, reports: Iterable[RebuiltReport], unit: Unit, *, recovered: bool) -> int:
    """Print a tree for each report of a failure, for the others too if `recovered`, and how many there are of both.

    Returns how many failed.
    """
    counts: Counter[_Outcome] = Counter()
    for report in reports:
        counts[_Outcome.of(report)] += 1
        if report.failed or recovered:
            console.print(tree_of(report, unit.value))
            console.print()
    _print_summary(console, counts, unit, recovered=recovered)
    return _failed(counts)


class _Outcome(enum.Enum):
    """How what is shown ended."""

    FINE = enum.auto()
    FAILED = enum.auto()
    CANCELLED = enum.auto()
    """It was given up, which seldom tells why: NeMo Gym gives up all others when one rollout ends its collection."""

    @classmethod
    def of(cls, report: RebuiltReport) -> "_Outcome":
        """Return that of a report."""
        if not report.failed:
            return cls.FINE
        return cls.CANCELLED if any(own.failure_kind == CANCELLED for own in report.chain[:1]) else cls.FAILED


def _failed(counts: Counter[_Outcome]) -> int:
    return counts[_Outcome.FAILED] + counts[_Outcome.CANCELLED]


def _print_summary(console: Console, counts: Counter[_Outcome], unit: Unit, *, recovered: bool) -> None:
    failed, cancelled, fine = _failed(counts), counts[_Outcome.CANCELLED], counts[_Outcome.FINE]
    summary = f"{failed} {unit.value}{'' if failed == 1 else 's'} failed"
    if cancelled:
        summary += f", {cancelled} of them cancelled"
    if fine:
        summary += f", {fine} recovered" + ("" if recovered else " (--all shows them)")
    console.print(summary, style="bold")
