"""Rollouts of one id, in several runs."""

import gzip
import json
from dataclasses import replace

import pytest

from gym_failures import limits, semconv
from gym_failures.reading import iter_reports, read_files, rebuild
from gym_failures.reading.runs import ROW_SERVICE, ROW_SPAN_NAME
from tests.spans import failure, server, span, told
from tests.stored import as_line

A, B, C, D = (letter * 32 for letter in "abcd")


def of_run(run, record):
    """Return a span of a process that was started for a run."""
    return replace(record, resource={"service.name": "nemo-gym", semconv.NEMO_RUN_ID: run})


def rollout(number, event_id, trace, *, run="collection", end):
    """Return the span of a rollout that failed, from `number` to `end`, as the collection client stores it."""
    said = {"own": event_id, "rollout": "3-1", "trace": trace, "name": semconv.ROLLOUT_SPAN_NAME, "end": end}
    return of_run(run, span(number, None, told(failure(event_id)), **said))


def request(number, event_id, trace, *, run="servers"):
    """Return the span of a request that failed, in a trace of its own, which names the same rollout."""
    return of_run(run, server(number, None, told(failure(event_id)), own=event_id, rollout="3-1", trace=trace))


def told_together(*spans):
    """Return what failed, for each rollout."""
    found = rebuild(spans, by="rollout")
    assert {report.key for report in found} == {"3-1"}
    return [set(report.report.events) for report in found]


FIRST, SECOND = rollout(100, "first", A, end=200), rollout(300, "second", B, end=400)

OF_NEMO_GYM = replace(
    rollout(120, "r", C, end=180),
    attributes={semconv.NEMO_GYM_ROLLOUT_ID: "3-1", semconv.NEMO_GYM_SERVER_NAME: "agent"},
)
"""The span of an agent's request as NeMo Gym's own telemetry has it, of the same name as that of a rollout."""

TOGETHER = {
    "a request that NeMo Gym's own telemetry tells of": ((FIRST, OF_NEMO_GYM), [{"first", "r"}]),
    "two collections": ((FIRST, SECOND), [{"first"}, {"second"}]),
    "two at the same time": (
        (rollout(100, "first", A, end=200), rollout(150, "second", B, end=180)),
        [{"first"}, {"second"}],
    ),
    "a request within a rollout": ((FIRST, request(120, "r", C)), [{"first", "r"}]),
    "a request within each": (
        (FIRST, SECOND, request(350, "late", C), request(150, "early", D)),
        [{"first", "early"}, {"second", "late"}],
    ),
    "a request that goes on longer": (
        (FIRST, replace(request(150, "r", C), end_ns=250), SECOND),
        [{"first", "r"}, {"second"}],
    ),
    "a request that reaches into the next rollout": (
        (FIRST, replace(request(150, "r", C), end_ns=350), SECOND),
        [{"first", "r"}, {"second"}],
    ),
    "a request known from a log": (
        (FIRST, replace(request(150, "r", C), end_ns=0), SECOND),
        [{"first", "r"}, {"second"}],
    ),
    "a request at another time": ((FIRST, request(250, "r", C), SECOND), [{"first"}, {"r"}, {"second"}]),
    "requests of one run": ((request(1, "r", A), request(9, "s", B)), [{"r", "s"}]),
    "requests of two runs": ((request(1, "r", A), request(9, "s", B, run="others")), [{"r"}, {"s"}]),
    "requests of no known run": (
        (replace(request(1, "r", A), resource={}), replace(request(9, "s", B), resource={})),
        [{"r", "s"}],
    ),
}


@pytest.mark.parametrize(("spans", "expected"), TOGETHER.values(), ids=TOGETHER)
def test_traces_of_one_run_are_one_rollout(spans, expected):
    """An id names another rollout in each run: what was done in the time of one is of it, else what is of one run."""
    assert told_together(*spans) == expected
    assert told_together(*reversed(spans)) == expected


SECOND_NS = 10**9


def later(seconds, record):
    """Return a span that begins and ends that much later."""
    return replace(record, start_ns=record.start_ns + seconds * SECOND_NS, end_ns=record.end_ns + seconds * SECOND_NS)


def saved(event_id, *, at=0):
    """Return the span of a saved row that names no trace, of a response created at that second; 0 is unknown."""
    said = {"own": event_id, "rollout": "3-1", "trace": event_id * 32, "name": ROW_SPAN_NAME}
    row = replace(span(1, None, told(failure(event_id)), **said), service=ROW_SERVICE)
    return replace(row, start_ns=at * SECOND_NS, end_ns=at * SECOND_NS)


EARLY, LATE = later(100, FIRST), later(9_000, SECOND)
SERVED, SERVED_LATE = later(100, request(1, "r", C)), later(9_000, request(1, "s", D, run="others"))

ROWS = {
    "the only row and the only rollout": ((EARLY, saved("1")), [{"1", "first"}]),
    "within the second of its time": ((EARLY, LATE, saved("1", at=100)), [{"first", "1"}, {"second"}]),
    "two rows of two runs": (
        (EARLY, LATE, saved("1", at=100), saved("2", at=9_000)),
        [{"first", "1"}, {"second", "2"}],
    ),
    "of another time": ((EARLY, saved("1", at=5_000)), [{"first"}, {"1"}]),
    "of no known time, of either": ((saved("1"), EARLY, LATE), [{"1"}, {"first"}, {"second"}]),
    "two rows, either the rollout's": ((saved("1"), saved("2"), EARLY), [{"1"}, {"2"}, {"first"}]),
    "with requests only": ((SERVED, saved("1")), [{"1", "r"}]),
    "with requests at its time": ((SERVED, SERVED_LATE, saved("1", at=9_000)), [{"r"}, {"s", "1"}]),
    "rows only": ((saved("1"), saved("2")), [{"1"}, {"2"}]),
    "a program's spans of the name": (
        tuple(replace(request(1, event_id, event_id * 32), name=ROW_SPAN_NAME) for event_id in "ab"),
        [{"a", "b"}],
    ),
}


@pytest.mark.parametrize(("spans", "expected"), ROWS.values(), ids=ROWS)
def test_a_row_goes_with_what_its_run_traced(spans, expected):
    """A row beside traces is no second rollout where its time, or that there is no other, says whose it is."""
    assert sorted(map(sorted, told_together(*spans))) == sorted(map(sorted, expected))


def test_a_row_that_names_its_trace():
    """A row in a trace of its rollout takes no time from that, so requests of another time stay apart."""
    row = replace(saved("1"), trace_id=A)
    assert sorted(map(sorted, told_together(row, EARLY, later(-50, SERVED)))) == [["1", "first"], ["r"]]


def test_files_of_two_runs(tmp_path, monkeypatch):
    """Runs whose files lie in one folder stay apart, held in memory or not."""
    for number, one in enumerate((FIRST, SECOND, request(350, "late", C))):
        (tmp_path / f"{number}.jsonl").write_text(as_line(one) + "\n")
    for held in (limits.HELD_SPANS, 0):
        monkeypatch.setattr(limits, "HELD_SPANS", held)
        with iter_reports(sorted(tmp_path.iterdir()), by="rollout") as found:
            assert [set(report.report.events) for report in found] == [{"first"}, {"second", "late"}]


def test_rows_of_two_runs_that_say_the_same(tmp_path):
    """Rows of NeMo Gym alone say no more of a run than where they are: those of two folders are of two runs."""
    row = {"_ng_task_index": 3, "_ng_rollout_index": 1, "_ng_failure_class": "agent_run_error"}
    paths = [tmp_path / run / "rollouts_failures.jsonl" for run in ("one", "other")]
    for path in paths:
        path.parent.mkdir()
        path.write_text(json.dumps(row) + "\n")
    assert [report.key for report in read_files(paths, by="rollout")] == ["3-1", "3-1"]
    assert len({event_id for report in read_files(paths) for event_id in report.report.events}) == 2


@pytest.mark.parametrize(
    "again", ["rollouts.jsonl", "rollouts_failures.jsonl", "rollouts.jsonl.gz", "latest/rollouts.jsonl"]
)
def test_a_row_that_a_run_saved_twice(tmp_path, again):
    """A row that is in the file of failures too, or in a folder of two names, is one."""
    row = json.dumps({"_ng_task_index": 3, "_ng_rollout_index": 1, "_ng_failure_class": "agent_run_error"}).encode()
    (tmp_path / "latest").symlink_to(tmp_path)
    first, other = tmp_path / "rollouts.jsonl", tmp_path / again
    for path in (first, other):
        path.write_bytes(gzip.compress(row) if path.suffix == ".gz" else row)
    (one,) = read_files([first], by="rollout")
    (both,) = read_files([first, other], by="rollout")
    assert both == one
