"""Rollouts collected with NeMo Gym's own functions, one at a time: how each ends, in its row and on its span."""

import json
import subprocess

import pytest

from gym_failures.rows import read_row, without_failures
from gym_venv import WITH_US
from tests.gym.bed.run import HERE

ROLLOUT = {
    "nemo.gym.rollout.id": "3-1-a2",
    "nemo.gym.task_index": 3,
    "nemo.gym.rollout_index": 1,
    "nemo.gym.attempt_index": 2,
}


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """Give what came of each case."""
    file = tmp_path_factory.mktemp("collecting") / "found.json"
    done = subprocess.run([WITH_US.python, HERE / "collecting.py", file], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4_000:]
    return json.loads(file.read_text())


def own_of(row):
    """Return what a row says of its own failure, by boundary and kind, and of its cause; None without one."""
    report = read_row(row).report
    if report.failure_id is None:
        return None
    own = report.events[report.failure_id]
    return f"{own.boundary.value}:{own.failure_kind}", own.cause_id


def kind_of(event):
    """Return what an event is, whatever its id."""
    return event.boundary.value, event.failure_kind


@pytest.mark.parametrize(
    ("case", "own", "events", "counted"),
    [
        ("recovered", None, 1, 0),
        ("failed", ("collection:agent_run_error", "theirs"), 2, 1),
        ("gateway", ("collection:agent_request_failed", None), 1, 1),
        ("unreadable", ("collection:protocol_violation", None), 1, 1),
        ("masked", ("resources_server:session_lost", None), 1, 1),
        ("given up", ("collection:timeout_exceeded", None), 1, 1),
        ("degraded", None, 1, 1),
    ],
)
def test_a_row_and_its_span_tell_the_same(found, case, own, events, counted):
    """The row has the failures of the rollout's span and its own one, and names the trace (NVIDIA-NeMo/Gym#316).

    A sample that is masked failed, and one that an agent gave up; one that only says what went wrong did not.
    """
    came = found[case]
    row, (span,) = came["row"], came["spans"]
    assert own_of(row) == own
    report = read_row(row)
    assert len(report.report.events) == events
    assert [*report.report.events] == span["events"]
    assert report.trace_id == span["trace_id"]
    assert span["attributes"].get("failure.id") == report.report.failure_id
    assert span["status"] == ("UNSET" if own is None else "ERROR")
    assert span["attributes"].items() >= ROLLOUT.items()
    assert (came["failures"], came["requests"]) == (counted, 0 if own is None else 1)


@pytest.mark.parametrize(
    ("case", "expected"),
    [("failed", "agent_run_error"), ("given up", "_OTHER"), ("recovered", None), ("left", None)],
)
def test_the_span_of_a_failed_rollout_says_the_type_of_its_error(found, case, expected):
    """A span that is ERROR has `error.type`, the kind by the name it counts under, and any other has none."""
    (span,) = found[case]["spans"]
    assert span["attributes"].get("error.type") == expected


def test_a_rollout_that_goes_well_has_a_span_and_no_key(found):
    """Nothing is told where nothing failed."""
    came = found["well"]
    assert came["row"] == {"reward": 1.0}
    assert came["spans"] == [{"attributes": ROLLOUT, "status": "UNSET", "trace_id": f"{1:032x}", "events": []}]


def test_an_error_that_ends_the_collection_is_on_the_span(found):
    """Where failures are not routed to a file the same exception is raised, and the span has ended and tells it."""
    came = found["not routed"]
    assert came["raised"] == "ClientResponseError"
    (span,) = came["spans"]
    assert (span["status"], span["attributes"]["failure.kind"]) == ("ERROR", "agent_run_error")


def test_a_rollout_that_is_given_up_is_cancelled(found):
    """Cancelling a rollout ends its span, with a cancelled failure and without an error (opentelemetry-python#4484)."""
    (span,) = found["left"]["spans"]
    assert (span["status"], span["attributes"]["failure.kind"]) == ("UNSET", "cancelled")
    assert found["left"]["failures"] == 1


def test_rollouts_of_one_task_are_kept_apart(found):
    """A task that collects one rollout after the other has a span for each, and no failure of one is in the other."""
    came = found["twice"]
    first, second = [set(read_row(row).report.events) for row in came["row"]]
    assert "theirs" in first
    assert second == {"others"}
    assert [set(span["events"]) for span in came["spans"]] == [first, second]
    assert len({span["trace_id"] for span in came["spans"]}) == 2


def test_a_run_within_a_request_is_no_rollout_of_its_own(found):
    """An environment server that calls an agent's run leaves the reply, and its trace, to its own request."""
    assert found["within"] == {"row": [{"reward": 1.0}] * 2, "spans": [], "failures": 0, "requests": 0}


def test_a_log_of_ones_own_around_rollouts_changes_none_of_them(found):
    """Rows, spans and counts are as without it, and in the end it has their failures, none of which is its own."""
    came, alone = found["around"], found["twice"]
    reports = [[read_row(row).report for row in rows] for rows in (came["row"]["rows"], alone["row"])]
    around, without = [[sorted(report.events.values(), key=kind_of) for report in one] for one in reports]
    assert [[kind_of(event) for event in events] for events in around] == [
        [kind_of(event) for event in events] for events in without
    ]
    assert [span["events"] for span in came["spans"]] == [[*report.events] for report in reports[0]]
    assert [span["status"] for span in came["spans"]] == [span["status"] for span in alone["spans"]]
    assert (came["failures"], came["requests"]) == (alone["failures"], alone["requests"]) == (1, 1)
    assert sorted(came["row"]["around"]) == sorted(event_id for report in reports[0] for event_id in report.events)
    assert came["row"]["own"] is None


def test_an_error_of_a_rollout_that_leaves_a_log_around_it_is_one_failure(found):
    """The exception of the rollout is known to the log around it: one event, though both have failed with it."""
    came = found["left through"]
    assert came["raised"] == "ClientResponseError"
    assert [span["attributes"]["failure.kind"] for span in came["spans"]] == ["agent_request_failed"]
    assert (came["failures"], came["requests"]) == (1, 2)


def test_a_row_names_no_trace_that_nobody_has(found):
    """Where the rollout's span is not sampled the row tells the failures alone (collector-contrib#29024)."""
    row = found["not sampled"]["row"]
    assert [*read_row(row).report.events] == ["theirs"]
    assert "_ng_failure_trace_id" not in row


def test_switched_off_a_row_is_as_ever(found):
    """With everything switched off NeMo Gym makes the same row as under our hooks but for the keys of ours."""
    assert found["switched off"]["row"] == without_failures(found["failed"]["row"])
    assert found["switched off"]["spans"] == []


def test_a_key_that_is_refused_is_one_failure(found):
    """NeMo Gym's error for it holds no reply, and still is the failure of the reply that refused the key.

    A later call, which it refuses by itself, is a failure of its own.
    """
    (first,), (second,) = found["refused key"]
    assert (first["failure.kind"], first["http.response.status_code"]) == ("provider_unavailable", 401)
    assert first["failure.attempt_id"].endswith(".1")
    assert (second["failure.kind"], second["exception.type"]) == (
        "provider_unavailable",
        "nemo_gym.openai_utils.PermanentEndpointError",
    )
