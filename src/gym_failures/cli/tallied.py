"""A tally for other programs: as JSON, as CSV, and as Prometheus reads it."""

import csv
import io
import json
from collections import Counter
from collections.abc import Sequence
from typing import Final

from gym_failures import semconv
from gym_failures.cli.tally import Field, Tally
from gym_failures.kinds import is_namespaced, is_registered

_LABELS: Final = {
    Field.KIND: semconv.FAILURE_KIND,
    Field.BOUNDARY: semconv.FAILURE_BOUNDARY,
    Field.STAGE: semconv.FAILURE_STAGE,
    Field.SERVICE: "service.name",
}


def as_json(tally: Tally, *, skipped: int) -> str:
    """Return a tally as one JSON document."""
    rows = [
        {**dict(zip(tally.by, key, strict=True)), "failures": tally.cells[key], "root_causes": tally.roots[key]}
        for key in tally.rows()
    ]
    return json.dumps(
        {
            "by": list(tally.by),
            "rows": rows,
            "failures": tally.total,
            "root_causes": tally.roots.total(),
            "known_from_replies_only": tally.remote,
            "missing_causes": tally.missing_causes,
            "without_time": tally.untimed,
            "skipped": skipped,
        },
        indent=2,
    )


def as_csv(tally: Tally) -> str:
    """Return a tally as CSV with a line of headings; a value that a failure has none of is empty.

    A text that a spreadsheet would take for a formula gets an apostrophe in front (OWASP, CSV injection).
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*tally.by, "failures", "root_causes"])
    for key in tally.rows():
        writer.writerow([*map(_cell, key), tally.cells[key], tally.roots[key]])
    return text.getvalue().removesuffix("\n")


def as_prometheus(tally: Tally) -> str:
    """Return a tally as the series `gym_failures_total` would be, in Prometheus's text format.

    A series for each key, and for what is a root cause and what is not; unregistered kinds are one, as in the metric.
    """
    series: Counter[str] = Counter()
    for key, failures in tally.cells.items():
        for is_root, number in (("true", tally.roots[key]), ("false", failures - tally.roots[key])):
            if number:
                series[_labels(tally.by, key, is_root)] += number
    name = semconv.METRIC_FAILURES.replace(".", "_") + "_total"
    lines = [f"# HELP {name} Failures, each once, as found in stored spans.", f"# TYPE {name} counter"]
    return "\n".join([*lines, *(f"{name}{{{labels}}} {number}" for labels, number in sorted(series.items()))])


def _cell(part: str | None) -> str:
    return f"'{part}" if part and part[0] in "=+-@\t\r" else part or ""


def _labels(by: Sequence[Field], key: Sequence[str | None], is_root: str) -> str:
    labels = {}
    for of, part in zip(by, key, strict=True):
        if of is Field.KIND and not (is_registered(part) or is_namespaced(part)):
            part = semconv.KIND_OTHER  # noqa: PLW2901 - it stands for it
        if part is not None:  # Prometheus knows no difference between no label and an empty one.
            labels[_LABELS[of]] = part
    labels[semconv.FAILURE_ROOT] = is_root
    return ",".join(f'{name.replace(".", "_")}="{_escaped(value)}"' for name, value in labels.items())


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
