"""`gym-failures decode`: what a reply's report says."""

import enum
import json
import re
import sys
from typing import Annotated, Final

import typer
from rich.text import Text

from gym_failures import semconv
from gym_failures.cli import exits
from gym_failures.cli.console import err, out
from gym_failures.cli.terminal import plain, write
from gym_failures.cli.tree import tree_of
from gym_failures.header import decode_reports
from gym_failures.reading import SpanRecord
from gym_failures.reading.rebuilt import RebuiltReport, without_spans

_BEFORE: Final = re.compile(rf"(?:.*?\b{re.escape(semconv.HEADER_NAME)}\b\s*:?\s*)?", re.IGNORECASE | re.DOTALL)
"""What may stand in front of a value that was copied with its line, of a header or of a stream's comment."""


class Format(enum.StrEnum):
    """How the report is printed."""

    TEXT = "text"
    JSON = "json"


def decode(
    values: Annotated[
        list[str],
        typer.Argument(
            metavar="VALUE...",
            show_default=False,
            help="Values of the header gym-failure-report, with its name or without, or - (stdin).",
        ),
    ],
    output: Annotated[Format, typer.Option("--format", help="A tree, or the report as JSON.")] = Format.TEXT,
) -> None:
    """Show the report that a reply carried, in its header or in the last comment of its stream.

    Several values are read together, as of one reply.
    """
    said = [line for value in values for line in (_lines() if value == "-" else [value])]
    report = decode_reports([_BEFORE.sub("", value, count=1).strip() for value in said])
    if report is None:
        err().print("gym-failures: no report can be read; is this a value of the header gym-failure-report?")
        raise typer.Exit(exits.UNREADABLE)
    if output is Format.JSON:
        write(json.dumps(report.model_dump(mode="json"), indent=2))
        return
    rebuilt = without_spans(report, SpanRecord("", ""))
    tree = tree_of(rebuilt, "request")
    tree.label = _headline(rebuilt)
    out().print(tree)


def _headline(rebuilt: RebuiltReport) -> Text:
    if rebuilt.root is None:
        return Text.assemble(("✓ a reply", "green"), (f"  recovered from {len(rebuilt.recovered)}", "dim"))
    kind_at = f"{plain(rebuilt.root.failure_kind)} at {rebuilt.root.boundary.value}"
    return Text.assemble(("✗ a reply", "bold"), (f"  {kind_at}", "bold red"))


def _lines() -> list[str]:
    if sys.stdin is None:
        err().print("gym-failures: standard input is closed")
        raise typer.Exit(exits.USAGE)
    said = sys.stdin.buffer.read().decode("utf-8", "replace")  # the body of a reply can be in any encoding
    lines = [line for line in said.splitlines() if line.strip()]
    # Of a whole reply, as `curl -i` prints it, the lines of the header count; of values alone, all lines.
    return [line for line in lines if semconv.HEADER_NAME in line.lower()] or lines
