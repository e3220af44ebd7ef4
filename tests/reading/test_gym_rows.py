"""Saved rows of rollouts, read like traces."""

import gzip
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gym_failures import limits
from gym_failures.attributes import from_attributes, to_attributes
from gym_failures.ids import new_id, time_of, uuid7
from gym_failures.kinds import FailureBoundary
from gym_failures.reading import Skip, read_files, read_reports
from gym_failures.records import FailureReport
from gym_failures.rows import with_failures
from tests.spans import TRACE, failure, server, told
from tests.strategies import failure_reports, gym_rows, mangled_gym_rows

REFUSED = failure("m", kind="provider_unavailable", boundary=FailureBoundary.MODEL)
REPORT = FailureReport(events={"m": REFUSED, "a": failure("a", "m")}, failure_id="a")
FINE = {"reward": 1.0, "_ng_task_index": 0, "_ng_rollout_index": 0}


def row(report=REPORT, *, task=3, rollout=1, trace_id=None, **more):
    """Return a row that tells of a report."""
    return with_failures(
        {"reward": 0.0, "_ng_task_index": task, "_ng_rollout_index": rollout, **more}, report, trace_id=trace_id
    )


def lines(*rows):
    """Return rows as a file has them."""
    return b"".join(json.dumps(one).encode() + b"\n" for one in rows)


def only(*rows, by="rollout"):
    """Return the one report that rows tell."""
    (report,) = read_reports(lines(*rows), by=by)
    return report


def test_a_row_is_a_report():
    """A row gives the report that is in it, under the id that NeMo Gym gives its rollout."""
    found = only(FINE, row())
    assert (found.report, found.key, found.failed, found.root) == (REPORT, "3-1", True, REFUSED)
    assert (found.remote_only, found.services, found.missing_causes) == ((), {}, ())


@given(failure_reports(min_size=1))
def test_any_report_comes_back(report):
    """Whatever a row tells of failures is read as a trace that tells it would be, own failure and causes included."""
    found = only(row(report))
    assert found.report.events == {
        event_id: from_attributes(to_attributes(event)) for event_id, event in report.events.items()
    }
    assert (found.report.failure_id, found.failed) == (report.failure_id, report.failure_id is not None)


def test_a_row_of_nemo_gym_alone():
    """A row that was saved without this package tells of its one failure."""
    found = only({**FINE, "mask_sample": True, "failure_kind": "judge_failed", "failure_reason": "no answer"})
    assert found.root.failure_kind == "judge_failed"
    assert found.root.boundary is FailureBoundary.RESOURCES_SERVER


IDS = {
    "indices": ({}, "3-1"),
    "an attempt": ({"_ng_attempt_index": 2}, "3-1-a2"),
    "the rollout's own id": ({"_ng_rollout_id": "r7"}, "r7"),
    "an episode": ({"episode_id": {"rollout_id": "e", "attempt": 1}}, "e-a1"),
}


@pytest.mark.parametrize(("more", "key"), IDS.values(), ids=IDS)
def test_rollouts_are_named_as_in_traces(more, key):
    """A row's rollout has the id that the spans of its requests have."""
    assert only(row(**more)).key == key


def test_a_row_and_its_trace_are_one_report():
    """Where the trace is at hand too, the row adds nothing: each failure is one, as its own process told it."""
    spans = {
        "resourceSpans": [
            {
                "resource": {"attributes": [{"key": "service.name", "value": {"stringValue": "agent"}}]},
                "scopeSpans": [
                    {"spans": [_otlp(server(1, None, told(REFUSED), told(failure("a", "m"), at=1), own="a"))]}
                ],
            }
        ]
    }
    (found,) = read_files([lines(row(trace_id=TRACE)), json.dumps(spans).encode()], by="trace")
    assert found.report == REPORT
    assert found.services == {"m": "agent", "a": "agent"}
    assert found.remote_only == ()


def _otlp(span):
    return {
        "traceId": span.trace_id,
        "spanId": span.span_id,
        "kind": 2,
        "attributes": [{"key": "failure.id", "value": {"stringValue": "a"}}],
        "events": [
            {
                "name": event.name,
                "timeUnixNano": str(event.time_ns),
                "attributes": [
                    {"key": key, "value": {"stringValue": value}} for key, value in event.attributes.items()
                ],
            }
            for event in span.events
        ],
    }


def test_reading_twice_gives_the_same():
    """Ids are made of what rows say: the same rows give the same spans, and other rows others."""
    rows = [row(task=task) for task in range(3)]
    first, second = (read_reports(lines(*rows)) for _ in range(2))
    assert first == second
    assert len({(report.trace_id, report.span.span_id) for report in first}) == 3


def test_times_are_those_of_the_ids():
    """When something failed is known from its id, where that is one of ours."""
    event_id = new_id()
    found = only(row(FailureReport(events={event_id: failure(event_id)}, failure_id=event_id)))
    assert found.times[event_id] == found.span.start_ns == time_of(event_id) > 0
    assert only(row()).times == {"m": 0, "a": 0}


def test_an_id_of_a_time_that_cannot_be_one_has_none():
    """An id whose time is beyond what 64 bits hold leaves it unknown."""
    event_id = "f" * 12 + uuid7()[12:]
    found = only(row(FailureReport(events={event_id: failure(event_id)}, failure_id=event_id)))
    assert (found.span.start_ns, found.times[event_id]) == (0, 0)


def test_a_time_is_read_of_a_uuid7_alone():
    """Only an id of that version has a time in it."""
    assert time_of(uuid7()) is not None
    assert time_of("f") is time_of("0" * 32) is time_of(uuid7().upper()) is None


def test_damaged_rows_are_told_of():
    """A row that cannot be read costs itself, and is told of with its line."""
    text = lines(FINE, row()) + b'{"_ng_failure_events": \n\n' + lines({**FINE, "_ng_failure_events": 5}, row(task=4))
    found = read_reports(text)
    assert len(found) == 2
    assert [skip.line for skip in found.skipped] == [3, 5]
    assert found.spans == 4


@pytest.mark.parametrize("seconds", [10**400, -5, True, 1e308, float("nan"), "x"])
def test_a_row_of_an_impossible_time_has_none(seconds):
    """What a row says of its response's time costs no failure, whatever it is."""
    gym = {"_ng_failure_class": "agent_run_error", "response": {"created_at": seconds}}
    assert only({**FINE, **gym}).times.popitem()[1] == 0


def test_a_row_nested_too_deeply_costs_itself():
    """Ids nested as deeply as can be decoded, which cannot be encoded again, are a skip and not the end of reading."""
    text = b"".join(
        json.dumps(row()).encode()[:-1] + b',"_ng_task_id":' + b"[" * depth + b"]" * depth + b"}\n"
        for depth in range(900, 1_100)
    )
    found = read_reports(text + lines(row(task=4)))
    assert found.skips + len(found) == 201
    assert "4-1" in {report.key for report in read_reports(text + lines(row(task=4)), by="rollout")}


@pytest.mark.parametrize("key", ["resourceSpans", "resource_spans"])
@pytest.mark.parametrize("separators", [(",", ":"), (", ", ": ")])
def test_spans_behind_rows_are_told_of(key, separators):
    """Of rows and spans in one stream, as `cat` makes it, the spans are not read, and each of their lines is a skip."""
    spans = json.dumps({key: []}, separators=separators).encode() + b"\n"
    found = read_reports(lines(row(), FINE) + spans * 2 + lines(row(task=4)))
    assert (len(found), found.spans, [skip.line for skip in found.skipped]) == (2, 3, [3, 4])


@pytest.mark.parametrize("number", [1, 2_000], ids=["few rows", "rows beyond the first look"])
def test_lines_of_failures_behind_rows_are_told_of(number):
    """Of rows and a log in one stream the failures of the rows are read, and each failure's line is a skip."""
    logged = b'INFO: {"event":"gym.failure","failure.id":"f"}\n'
    found = read_reports(lines(*[FINE] * number, row()) + logged * 2)
    assert (len(found), [skip.line for skip in found.skipped]) == (1, [number + 2, number + 3])


def test_a_row_is_no_record_because_of_its_first_member():
    """A first member whose name begins as those of OTLP do does not make spans of rows."""
    assert len(read_reports(lines({"resources_server": "math", **row()}))) == 1


@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "gzip"])
def test_long_rows(pack):
    """A row may be longer than what is looked at to tell formats apart."""
    long = {"response": "x" * 100_000, **row()}
    assert len(read_reports(pack(lines(long, row(task=4))))) == 2


FIRST = {
    "a row that was cut": (lines(row(task=9))[:-20] + b"\n", 1),
    "a blank line": (b"\n \n", 0),
    "a byte order mark": (b"\xef\xbb\xbf", 0),
    "what a library printed": (b'"failure_kind": ...\n', 1),
    "a long row that was cut": (lines({**row(task=9), "response": "x" * limits.ROW_START})[:-20] + b"\n", 1),
    "many damaged rows": (b'{"failure_kind": \n' * 9_000, 9_000),
}


@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "gzip"])
@pytest.mark.parametrize(("first", "skips"), FIRST.values(), ids=FIRST)
def test_a_damaged_beginning_costs_itself(first, skips, pack):
    """What stands before the first whole row does not make rows something else (collector-contrib#22747)."""
    found = read_reports(pack(first + lines(row(), row(task=4))))
    assert (len(found), found.spans, found.skips) == (2, 2, skips)


@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "gzip"])
def test_a_first_row_of_any_length(pack):
    """A row that is too long to be decoded for a look is read as any other."""
    assert len(read_reports(pack(lines({"response": "x" * limits.ROW_START, **row()}, row(task=4))))) == 2


def test_a_row_without_end_costs_itself(monkeypatch):
    """A row that is longer than any record is told of with its number, and the rows beside it are read."""
    monkeypatch.setattr(limits, "STORED_RECORD", 200_000)
    found = read_reports(lines(row(), {"response": "x" * 300_000, **FINE}, row(task=4)))
    assert (len(found), found.spans) == (2, 2)
    assert [*found.skipped] == [Skip(2, "too long to be read")]


def test_a_file_that_begins_with_something_else_is_no_rows():
    """A first line that is whole and not a row, or too much that says nothing, leaves a file what it was."""
    assert read_reports(b'{"reward": 1}\n' + lines(row())).spans == 0
    assert read_reports((b"x" * 999 + b"\n") * (limits.ROW_START // 900) + lines(row())).spans == 0


@given(st.lists(mangled_gym_rows() | gym_rows(), max_size=4))
def test_no_rows_make_reading_raise(rows):
    """Whatever stands in a row, the rows beside it are read."""
    found = read_reports(lines(row(), *rows, row(task=4)), by="trace")
    assert len(found) >= 2
