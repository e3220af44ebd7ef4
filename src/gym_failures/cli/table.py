"""A tally as a table."""

from collections.abc import Iterator
from typing import Final

from rich import box
from rich.table import Table
from rich.text import Text

from gym_failures.cli.tally import Tally
from gym_failures.cli.terminal import plain
from gym_failures.kinds import FailureBoundary, is_namespaced, is_registered

_ORDER: Final = (
    FailureBoundary.COLLECTION,
    FailureBoundary.ENVIRONMENT,
    FailureBoundary.AGENT,
    FailureBoundary.HARNESS,
    FailureBoundary.MODEL,
    FailureBoundary.RESOURCES_SERVER,
    FailureBoundary.SANDBOX,
)
"""From the one who asks to those who are asked last."""


def table_of(tally: Tally) -> Table:
    """Return a row for each kind, the most frequent first, and a column for each boundary at which anything failed."""
    boundaries = [boundary for boundary in _ORDER if tally.at(boundary)]
    table = Table(box=box.SIMPLE_HEAD, padding=0, show_edge=False, show_footer=True)
    table.add_column("kind", footer="total", overflow="fold")
    for boundary in boundaries:
        # Long names in two lines, so that the table fits into a screen of 80 columns.
        _add_numbers(table, boundary.value.replace("_", "_\n"), tally.at(boundary))
    _add_numbers(table, "total", tally.total, style="bold")
    _add_numbers(table, "root\ncauses", tally.roots.total(), style="red")
    kinds = {kind for kind, _ in tally.cells}
    for kind in sorted(kinds, key=lambda kind: (-tally.of_kind(kind), kind)):
        row = [str(tally.cells[kind, boundary] or "") for boundary in boundaries]
        table.add_row(_name(kind), *row, str(tally.of_kind(kind)), str(tally.roots[kind] or ""))
    return table


def remarks_on(tally: Tally) -> Iterator[str]:
    """Yield what has to be known to read the table right."""
    if any(map(_is_unregistered, (kind for kind, _ in tally.cells))):
        yield "* no registered kind: metrics count it as _OTHER"
    if tally.remote:
        yield f"{tally.remote} known from replies only: the process that observed them stored no span"
    if tally.missing_causes:
        yield f"{tally.missing_causes} causes are named but not there: up to as many root causes are none"


def _add_numbers(table: Table, name: str, total: int, *, style: str = "") -> None:
    table.add_column(name, footer=str(total), justify="right", no_wrap=True, style=style)


def _name(kind: str) -> Text:
    return Text(plain(kind) + (" *" if _is_unregistered(kind) else ""))


def _is_unregistered(kind: str) -> bool:
    return not (is_registered(kind) or is_namespaced(kind))
