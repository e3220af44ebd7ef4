"""What `diff` says of two runs."""

import json

import pytest

from gym_failures.kinds import FailureBoundary
from tests.spans import failure, server, told

MODEL = FailureBoundary.MODEL


def run(**numbers):
    """Return the spans of a run in which each kind failed so often at the model server, each time in a rollout."""
    kinds = [kind for kind, number in numbers.items() for _ in range(number)]
    return [
        server(
            1, None, told(failure(f"{kind}{n}", kind=kind, boundary=MODEL)), own=f"{kind}{n}", rollout=f"r{n:02}",
            trace=f"{n:032x}", service="model",
        )
        for n, kind in enumerate(kinds, 1)
    ]  # fmt: skip


BEFORE = run(cancelled=2, shutdown=3, judge_failed=1, kill_shaped=2)
AFTER = run(cancelled=5, shutdown=1, kill_shaped=2, session_lost=1, my_new_kind=4)


@pytest.fixture
def runs(write):
    """Give the files of two runs."""
    return write(*BEFORE, name="before.jsonl"), write(*AFTER, name="after.jsonl")


def test_a_table_of_what_changed(command, runs):
    """What is new comes first, then what rose, fell and is gone, each with rollouts; what stayed equal is left out."""
    ended = command("diff", *runs)
    assert (ended.status, ended.errors) == (0, "")
    assert [line.split() for line in ended.output.splitlines() if line.strip("─ ")] == [
        ["kind", "boundary", "before", "after", "such", "as"],
        ["new", "my_new_kind", "*", "model", "0", "4", "r10,", "r11,", "r12"],
        ["new", "session_lost", "model", "0", "1", "r09"],
        ["rose", "cancelled", "model", "2", "5", "r01,", "r02,", "r03"],
        ["fell", "shutdown", "model", "3", "1", "r06"],
        ["gone", "judge_failed", "model", "1", "0", "r06"],
        ["failed", "rollouts:", "8", "before,", "13", "after"],
    ]


def test_runs_that_fail_alike(command, runs):
    """Where nothing changed, that is said."""
    before, _ = runs
    assert command("diff", "--exit-code", before, before) == (
        0,
        "no failure is more or less frequent\nfailed rollouts: 8 before, 8 after\n",
        "",
    )


def test_changes_as_json(command, runs):
    """The JSON of `diff` has every change with its numbers, and where to look for examples."""
    document = json.loads(command("diff", "--by", "service,kind", "--format", "json", *runs).output)
    changes = document.pop("changes")
    assert document == {"by": ["service", "kind"], "failed_before": 8, "failed_after": 13, "skipped": 0}
    assert changes[2] == {
        "service": "model",
        "kind": "cancelled",
        "change": "rose",
        "before": 2,
        "after": 5,
        "root_causes_before": 2,
        "root_causes_after": 5,
        "examples": [{"rollout": f"r0{n}", "trace_id": f"{n:032x}"} for n in (1, 2, 3)],
    }
    assert [change["change"] for change in changes] == ["new", "new", "rose", "fell", "gone"]


WORSE = {
    "a kind is new": ({}, {"cancelled": 1}, 1),
    "a kind rose": ({"cancelled": 1}, {"cancelled": 2}, 1),
    "a kind fell": ({"cancelled": 2}, {"cancelled": 1}, 0),
    "a kind is gone": ({"cancelled": 1}, {}, 0),
    "nothing changed": ({"cancelled": 1}, {"cancelled": 1}, 0),
}


@pytest.mark.parametrize(("before", "after", "status"), WORSE.values(), ids=WORSE)
def test_exit_code_tells_whether_it_got_worse(command, write, before, after, status):
    """With `--exit-code` a kind that is new or rose is a status of 1; without, it is none."""
    runs = write(*run(**before), name="before.jsonl"), write(*run(**after), name="after.jsonl")
    assert command("diff", "--exit-code", *runs).status == status
    assert command("diff", *runs).status == 0


@pytest.mark.parametrize("damaged", [0, 1])
def test_strict_is_of_both_runs(command, runs, damaged):
    """With `--strict` a damaged line in either run is a status of 4."""
    runs[damaged].write_text(runs[damaged].read_text() + "junk\n")
    assert command("diff", "--strict", "--exit-code", *runs).status == 4


def test_examples_are_of_different_rollouts(command, write):
    """A rollout that failed many times in one way is one example."""
    events = [told(failure(f"f{n}", kind="cancelled"), at=n) for n in range(9)]
    one = server(1, None, *events, own="f0", rollout="r1")
    two = server(2, None, told(failure("g", kind="cancelled")), own="g", trace="2" * 32)
    output = command("diff", write(name="before.jsonl"), write(one, two, name="after.jsonl")).output
    assert f"r1, trace {'2' * 32}" in output or f"trace {'2' * 32}, r1" in output
