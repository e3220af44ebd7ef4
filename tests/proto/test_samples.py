"""The same run out of every store."""

from dataclasses import replace
from pathlib import Path

import pytest

from gym_failures.reading import SpanRecord, read_files

DATA = Path(__file__).parents[1] / "data"
SDK = sorted((DATA / "sdk").iterdir())
STORED = sorted(path for path in DATA.iterdir() if path.is_file() and path.suffix != ".md")


def told(reports):
    """Return what reports tell, without how a store spells the rest of a span; Jaeger's times are microseconds."""
    bare = SpanRecord("", "")
    return [
        (
            replace(report, span=bare, times={event_id: ns // 1_000 for event_id, ns in report.times.items()}),
            report.span.span_id,
            report.span.name,
            report.span.kind,
            report.span.status,
            report.span.service,
        )
        for report in reports
    ]


@pytest.mark.parametrize("by", ["rollout", "request", "trace"])
@pytest.mark.parametrize("path", STORED, ids=lambda path: path.name)
def test_every_store_tells_the_same(path, by):
    """A run gives the same reports from the SDK's files, from each form of the Collector's, and from Jaeger."""
    expected = read_files(SDK, by=by)
    found = read_files([path], by=by)
    assert told(found) == told(expected)
    assert found.skips == expected.skips == 0


def test_the_run_is_worth_comparing():
    """The stored run has failed and recovered rollouts, chains, attempts, and what is not linked."""
    reports = read_files(SDK, by="rollout")
    assert [report.failed for report in reports].count(True) == 5
    assert any(report.recovered for report in reports)
    assert any(report.unlinked for report in reports)
    assert max(len(report.chain) for report in reports) == 3


def test_all_stores_together_count_nothing_twice():
    """Spans that several files hold are one: the reports of all files together are those of one."""
    assert len(read_files([*SDK, *STORED], by="rollout")) == len(read_files(SDK, by="rollout"))


def test_the_readme_names_every_file():
    """The page beside the files says who wrote each."""
    page = (DATA / "README.md").read_text(encoding="utf-8")
    assert all(f"`{path.name}`" in page for path in STORED)
