"""NeMo Gym with this package does what it does without.

Compared are two runs of the bed: what it writes, what it answers, how often its handlers and the provider are called.
What differs between any two runs of NeMo Gym alone is taken out first, by name.
"""

import json
import re

import pytest

from gym_failures.rows import KEYS
from gym_failures.semconv import HEADER_NAME
from tests.gym.bed import scenarios
from tests.gym.bed.run import lines

VOLATILE = {
    # Times and ids.
    "completed_at", "duration_ms", "latency_ms", "latency_ttft_ms", "model_call_id", "started_at", "timestamp",
    # Read from files that another process may not have written yet; the files themselves are compared.
    "_ng_trajectory", "ng_agent_observations", "ng_model_call_capture", "ng_perf", "ng_trajectory", "perf_summary",
}  # fmt: skip


def steady(value):
    """Return a JSON value without what differs between two runs anyway, and without our keys."""
    if isinstance(value, dict):
        return {key: steady(one) for key, one in value.items() if key not in VOLATILE and key not in KEYS}
    if isinstance(value, list):
        return [steady(one) for one in value]
    if isinstance(value, str):
        return re.sub(r"[0-9a-f]{32}", "<id>", re.sub(r"127\.0\.0\.1:\d+", "<host>", value))
    return value


ELSEWHERE = {
    "rollouts.jsonl", "rollouts_failures.jsonl",  # compared row by row
    "data.jsonl", "found.json", "handlers.jsonl", "replies.jsonl", "settings.json",  # made by the bed itself
}  # fmt: skip


def files(run):
    """Return the files that a run wrote, but for those that are compared elsewhere."""
    found = {path for path in run.folder.rglob("*.json*") if path.is_file() and path.name not in ELSEWHERE}
    return sorted(found - {*run.traces})


def content(path):
    """Return the values of a file of JSON or of JSON lines, in an order of their own."""
    read = lines(path) if path.suffix == ".jsonl" else json.loads(path.read_text())
    values = read if isinstance(read, list) else [read]
    # Whether a call that is cancelled is still captured is decided by a race in NeMo Gym.
    kept = [steady(value) for value in values if value.get("error_category") != "cancelled"]
    return sorted(json.dumps(value, sort_keys=True) for value in kept)


@pytest.mark.parametrize("scenario", scenarios.ROLLOUTS)
def test_rows_are_the_same(plain, traced, scenario):
    """A rollout ends in the same file with the same row, but for our keys."""
    assert (scenario in traced.failed) == (scenario in plain.failed)
    assert steady(traced.rows[scenario]) == steady(plain.rows[scenario])


@pytest.mark.parametrize("scenario", [*scenarios.ROLLOUTS, *scenarios.CALLS])
def test_replies_are_the_same(plain, traced, scenario):
    """Every reply has the same status, headers and body, but for our header and the last comment of a broken stream."""
    if scenario not in plain.replies:
        assert plain.found["calls"][scenario] == traced.found["calls"][scenario]
        return
    before, after = plain.replies[scenario], traced.replies[scenario]
    assert (after.server, after.path, after.status) == (before.server, before.path, before.status)
    names = [[name.lower() for name, _ in reply.headers] for reply in (before, after)]
    assert [name for name in names[1] if name != HEADER_NAME] == names[0]
    if before.body is not None:
        assert steady(re.sub(r"(?m)^: gym-failure-report \S+\n", "", after.body)) == steady(before.body)


def test_handlers_and_the_provider_are_called_as_often(plain, traced):
    """No call is made twice and none is left out: not at a resources server, not at the provider."""
    assert traced.handled == plain.handled
    assert traced.seen == plain.seen


def test_other_files_are_the_same(plain, traced):
    """What a model server captures and what the collection aggregates is the same, and no file more is written."""
    written = [
        {str(path.relative_to(run.folder)): values for path in files(run) if (values := content(path))}
        for run in (plain, traced)
    ]
    assert written[1] == written[0]


def test_rows_are_read_by_nemo_gym_as_ever(traced):
    """A run that is taken up again has nothing left to do, and rows with our keys are verified again and kept."""
    assert len(traced.all_rows) == len(scenarios.ROLLOUTS)
    assert KEYS[0] in {key for row in lines(traced.folder / "well.jsonl") for key in row}
    well = {scenarios.ROLLOUTS[row["_ng_task_index"]] for row in lines(traced.folder / "well.jsonl")}
    assert {scenarios.ROLLOUTS[row["_ng_task_index"]] for row in lines(traced.folder / "verified.jsonl")} == well
    again = {scenario for (scenario, handler), times in traced.handled.items() if handler == "verify" and times == 2}
    assert again == well


def test_no_process_more_is_started(plain, traced):
    """Below the process that starts the servers there are the servers and nothing else, as without, and no Ray."""
    assert len(plain.found["processes"]) == len(plain.found["ended"])
    assert traced.found["processes"] == plain.found["processes"]
    assert not traced.found["ray"]


def test_processes_end_as_they_do_without(plain, traced):
    """Each server ends with the status that it has without, the one that is killed too."""
    assert traced.found["ended"] == plain.found["ended"]
    assert traced.found["ended_early"] == plain.found["ended_early"]
