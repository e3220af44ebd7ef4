"""Reports that are made one after the other, of more spans than memory is to hold."""

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gym_failures import limits
from gym_failures.reading import Tally, iter_reports, read_files, rebuild
from gym_failures.reading.model import whole
from gym_failures.reading.otlp_json import parse_lines
from gym_failures.reading.rebuild import rebuild_stored
from gym_failures.reading.shelf import Shelf
from tests import strategies
from tests.reading.test_read_reports import JUNK, exported
from tests.spans import client, failure, server, span, told
from tests.stored import as_line

ONE, OTHER, THIRD = ("1" * 32, "2" * 32, "3" * 32)


@pytest.fixture
def few(monkeypatch):
    """Let memory hold three spans, and batches have one."""
    monkeypatch.setattr(limits, "HELD_SPANS", 3)
    monkeypatch.setattr(limits, "BATCH_SPANS", 1)


@pytest.fixture
def path(tmp_path):
    """Give a file of forty failed traces, the latest first, two of them of each rollout."""
    spans = [
        one
        for number in range(40, 0, -1)
        for one in (
            server(100 + number, number, told(failure(f"f{number}")), own=f"f{number}", trace=f"{number:032x}"),
            span(number, None, trace=f"{number:032x}", rollout=f"r{number % 20}"),
        )
    ]
    file = tmp_path / "traces.jsonl"
    file.write_bytes(b"".join(exported([one]) for one in spans) + JUNK.encode())
    return file


def ids(one):
    """Return what tells a span from all others."""
    return one.trace_id, one.span_id


def shelved(spans, *, by, most, batch):
    """Return the reports of spans that were kept on a shelf."""
    shelf = Shelf(by_rollout=by == "rollout", most=most, batch=batch, large=most)
    try:
        for one in spans:
            shelf.add(one)
        return [report for spans in shelf.batches() for report in rebuild_stored(spans, by=by)]
    finally:
        shelf.close()


@given(strategies.stored_spans(), st.sampled_from(["trace", "request"]), st.integers(0, 8), st.integers(1, 8))
def test_any_batches_give_the_same_reports(spans, by, most, batch):
    """However few spans memory may hold, and however few are read back at once, reports and their order are the same.

    This is what makes a trace of 100,000 spans, or a file of 10 GB, like any other.
    """
    assert shelved(spans, by=by, most=most, batch=batch) == rebuild(spans, by=by)


@given(strategies.stored_spans(), strategies.stored_spans(), st.integers(0, 8), st.integers(1, 8))
def test_any_batches_give_the_same_rollouts(spans, copies, most, batch):
    """So it is by rollout, whose traces may be anywhere; only their order may be another."""
    every = [*spans, *copies]
    found = shelved(every, by="rollout", most=most, batch=batch)
    assert Counter(map(repr, found)) == Counter(map(repr, rebuild(every, by="rollout")))


@pytest.mark.parametrize("by", ["trace", "request", "rollout"])
def test_a_file_gives_the_same_reports_as_in_memory(path, by, monkeypatch):
    """A file of more spans than memory holds gives what it gives to one who holds all of them."""
    expected = read_files([path], by=by)
    monkeypatch.setattr(limits, "HELD_SPANS", 3)
    monkeypatch.setattr(limits, "BATCH_SPANS", 1)
    with iter_reports([path], by=by) as reports:
        assert (reports.spans, reports.skips, reports.skipped) == (80, 1, expected.skipped)
        assert sorted(reports, key=repr) == sorted(expected, key=repr)
    assert len(expected) == (20 if by == "rollout" else 40)


@pytest.mark.usefixtures("few")
def test_reports_can_be_gone_through_again(path):
    """What is stored is there until it is closed, so two loops find the same."""
    with iter_reports([path]) as reports:
        assert [*reports] == [*reports]


@pytest.mark.usefixtures("few")
def test_rollouts_that_share_traces_come_whole(tmp_path):
    """Traces that are tied together by rollouts, one to the next, are put together however they are read back."""
    file = tmp_path / "traces.jsonl"
    spans = [
        server(1, None, told(failure("a")), own="a", rollout="r1", trace=ONE),
        server(2, None, told(failure("b")), own="b", rollout="r2", trace=OTHER),
        server(3, None, told(failure("c")), own="c", rollout="r1", trace=THIRD),
        server(4, None, told(failure("d")), own="d", rollout="r2", trace=THIRD),
    ]
    file.write_bytes(b"".join(exported([one]) for one in spans))
    with iter_reports([file], by="rollout") as reports:
        assert {report.key: set(report.report.events) for report in reports} == {"r1": {"a", "c"}, "r2": {"b", "d"}}


@pytest.mark.usefixtures("few")
def test_nothing_is_left_behind(path, tmp_path, monkeypatch):
    """The temporary file has no name that could stay behind, even while it is in use."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    before = {*tmp_path.iterdir()}
    with iter_reports([path]):
        assert {*tmp_path.iterdir()} == before


@pytest.mark.parametrize(("large", "left"), [(50, 2), (51, 51)], ids=["large", "not large"])
def test_of_a_large_trace_comes_back_what_matters(large, left):
    """Memory does not grow with the spans of a large trace that tell of nothing, only with those that matter."""
    shelf = Shelf(by_rollout=True, most=10, batch=1, large=large)
    for one in (server(1, None, end=99), client(2, 1, told(failure("f"))), *(client(n, 1) for n in range(3, 52))):
        shelf.add(one)
    (batch,) = shelf.batches()
    shelf.close()
    assert len(batch) == left


@given(strategies.stored_spans(), st.none() | st.sampled_from(["agent", "模型"]))
def test_a_span_comes_back_as_it_was(spans, service):
    """What a file tells of a span, read or not yet read, it tells after it was on the shelf, its service too."""
    lines = [as_line(replace(one, service=service)) + "\n" for one in spans]
    expected = [*parse_lines(lines, Tally())]
    shelf = Shelf(by_rollout=False, most=0, batch=1)
    for one in expected:
        shelf.add(one)
    found = [one for batch in shelf.batches() for one in batch]
    shelf.close()
    assert [(type(one), whole(one)) for one in sorted(found, key=ids)] == [
        (type(one), whole(one)) for one in sorted(expected, key=ids)
    ]


def test_a_wrong_unit_is_refused_before_anything_is_read(tmp_path):
    """What reports are made of is made sure of first, so that nobody waits for the answer."""
    with pytest.raises(ValueError, match="by is 'span', and not one of trace, request, rollout"):
        iter_reports([tmp_path / "not there"], by="span")
