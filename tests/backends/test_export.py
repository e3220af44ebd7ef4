"""An old run, sent from its saved rows into a real Jaeger."""

import io
import json
import sys

from gym_failures import limits
from gym_failures.cli.app import app
from gym_failures.kinds import FailureBoundary
from gym_failures.reading import read_reports
from gym_failures.reading.sources.jaeger import Jaeger as Source
from gym_failures.records import FailureEvent, FailureReport
from gym_failures.rows import with_failures

HOUR = 3_600 * 10**9


def report(number):
    """Return what failed in one rollout."""
    refused = FailureEvent(
        event_id=f"m{number}", boundary=FailureBoundary.MODEL, failure_kind="provider_unavailable", failure_reason="401"
    )
    top = FailureEvent(
        event_id=f"c{number}", cause_id=f"m{number}", boundary=FailureBoundary.COLLECTION, failure_kind="cancelled"
    )
    return FailureReport(events={f"m{number}": refused, f"c{number}": top}, failure_id=f"c{number}")


def export(*arguments):
    """Run the command and return its status."""
    try:
        app()(["export", *map(str, arguments)])
    except SystemExit as end:
        return end.code or 0
    return None


def found(jaeger, rollouts):
    """Return what is found of rollouts, by trace; rows that tell no time are all at one."""
    search = Source(jaeger.url)
    told = search.failing(["rollouts"], since_ns=limits.UNKNOWN_TIME - HOUR, until_ns=limits.UNKNOWN_TIME + HOUR)
    return {one.trace_id: one for one in read_reports(told, by="rollout") if one.key in rollouts}


def spans_of(jaeger, trace_id):
    """Return how many spans a trace has, copies too."""
    return sum(
        len(scope["spans"]) for resource in jaeger.trace(trace_id)["resourceSpans"] for scope in resource["scopeSpans"]
    )


def test_rows_that_are_sent_twice_are_there_once(jaeger, tmp_path, eventually):
    """Rows are found in Jaeger with the reports that they hold, under their rollouts, however often they are sent."""
    path = tmp_path / "rollouts.jsonl"
    rows = [with_failures({"_ng_task_index": n, "_ng_rollout_index": 0}, report(n)) for n in range(20)]
    for number in (19, 20):  # What is there only the second time shows when all has arrived.
        path.write_text("".join(f"{json.dumps(row)}\n" for row in rows[:number]))
        assert export("--to", jaeger.http, path) == 0
    expected = {f"{n}-0": report(n) for n in range(20)}
    eventually(lambda: {one.key: one.report for one in found(jaeger, expected).values()}, expected)
    assert {spans_of(jaeger, trace_id) for trace_id in found(jaeger, expected)} == {1}


def test_rows_that_nemo_gym_alone_has_saved_are_there_once(jaeger, tmp_path, eventually, monkeypatch):
    """Rows that tell no time are there once too, though their file grew, and so are those of standard input."""
    path = tmp_path / "rollouts.jsonl"
    rows = [{"_ng_task_index": n, "_ng_rollout_index": 7, "_ng_failure_class": "agent_run_error"} for n in range(3)]
    lines = [json.dumps(row).encode() + b"\n" for row in rows]
    for number in (2, 3):
        path.write_bytes(b"".join(lines[:number]))
        assert export("--to", jaeger.http, path) == 0
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(path.read_bytes())))
        assert export("--to", jaeger.http, "-") == 0
    rollouts = [f"{n}-7" for n in range(3)]
    # What file standard input was is not known, so its rows are others than those of the file.
    eventually(lambda: sorted(one.key for one in found(jaeger, rollouts).values()), sorted(2 * rollouts))
    assert {spans_of(jaeger, trace_id) for trace_id in found(jaeger, rollouts)} == {1}
