"""A tally as a table."""

from collections.abc import Iterator
from typing import Final

from rich import box
from rich.table import Table
from rich.text import Text

from gym_failures.cli.tally import DEFAULT, Field, Tally
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
    """Return the table of a tally: of kinds against boundaries where it is by these, else a row for each key."""
    return _crossed(tally) if tuple(tally.by) == DEFAULT else _listed(tally)


def _crossed(tally: Tally) -> Table:
    """Return a row for each kind, the most frequent first, and a column for each boundary at which anything failed."""
    kinds, roots = tally.along(0)
    at, _ = tally.along(1)
    boundaries = [boundary.value for boundary in _ORDER if at[boundary.value]]
    table = _table()
    table.add_column("kind", footer="total", overflow="fold")
    for boundary in boundaries:
        # Long names in two lines, so that the table fits into a screen of 80 columns.
        _add_numbers(table, boundary.replace("_", "_\n"), at[boundary])
    _add_totals(table, "total", tally)
    for kind in sorted(kinds, key=lambda kind: (-kinds[kind], kind or "")):
        row = [_number(tally.cells[kind, boundary]) for boundary in boundaries]
        table.add_row(shown_kind(kind), *row, str(kinds[kind]), _number(roots[kind]))
    return table


def _listed(tally: Tally) -> Table:
    table = _table()
    for position, of in enumerate(tally.by):
        table.add_column(of.value, footer="" if position else "total", overflow="fold")
    _add_totals(table, "failures", tally)
    for key in tally.rows():
        names = [
            shown_kind(part) if of is Field.KIND else Text(plain(part or "-"))
            for of, part in zip(tally.by, key, strict=True)
        ]
        table.add_row(*names, str(tally.cells[key]), _number(tally.roots[key]))
    return table


def remarks_on(tally: Tally) -> Iterator[str]:
    """Yield what has to be known to read the table right."""
    if Field.KIND in tally.by and any(map(_is_unregistered, tally.along(tally.by.index(Field.KIND))[0])):
        yield "* no registered kind: metrics count it as _OTHER"
    if tally.remote:
        yield f"{tally.remote} known from replies only: the process that observed them stored no span"
    if tally.missing_causes:
        yield f"{tally.missing_causes} causes are named but not there: up to as many root causes are none"


def _table() -> Table:
    return Table(box=box.SIMPLE_HEAD, padding=0, show_edge=False, show_footer=True)


def _add_totals(table: Table, name: str, tally: Tally) -> None:
    _add_numbers(table, name, tally.total, style="bold")
    _add_numbers(table, "root\ncauses", tally.roots.total(), style="red")


def _add_numbers(table: Table, name: str, total: int, *, style: str = "") -> None:
    table.add_column(name, footer=str(total), justify="right", no_wrap=True, style=style)


def _number(number: int) -> str:
    return str(number or "")


def shown_kind(kind: str | None) -> Text:
    """Return a kind for a table, with a star when it is not registered."""
    return Text(plain(kind or "-") + (" *" if _is_unregistered(kind) else ""))


def _is_unregistered(kind: str | None) -> bool:
    return not (is_registered(kind) or is_namespaced(kind))
