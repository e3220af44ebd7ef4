"""An old run, sent from its saved rows into a real Jaeger."""

import json
import time

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
        app(["export", *map(str, arguments)])
    except SystemExit as end:
        return end.code or 0
    return None


def test_rows_that_are_sent_twice_are_there_once(jaeger, tmp_path, eventually):
    """Rows are found in Jaeger with the reports that they hold, under their rollouts, however often they are sent."""
    path = tmp_path / "rollouts.jsonl"
    rows = [with_failures({"_ng_task_index": n, "_ng_rollout_index": 0}, report(n)) for n in range(20)]
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    for _ in range(2):
        assert export("--to", jaeger.http, path) == 0

    def told():
        found = Source(jaeger.url).failing(["rollouts"], since_ns=time.time_ns() - HOUR, until_ns=time.time_ns() + HOUR)
        return {one.key: one.report for one in read_reports(found, by="rollout")}

    eventually(told, {f"{n}-0": report(n) for n in range(20)})
    assert all(len(trace["spans"]) == 1 for trace in jaeger.find("rollouts"))
