"""The vocabulary and the records of the real package, and ours."""

import json
import subprocess

import pytest

from gym_failures import kinds
from gym_venv import WITH_US
from tests.gym.bed.run import HERE

FAILURES = {
    "nothing known": {"failure_reason": "", "terminal": False},
    "all known": {"failure_reason": "gone", "terminal": True, "failure_kind": "session_lost", "stage": "cleanup"},
    "a namespaced kind": {"failure_reason": "x", "terminal": False, "failure_kind": "flaky:odd", "stage": "seed"},
    "an unregistered kind": {"failure_reason": "x", "terminal": False, "failure_kind": "my_new_kind"},
    "the longest reason": {"failure_reason": "é" * 2_000, "terminal": True, "stage": "admission"},
}


@pytest.fixture(scope="module")
def theirs():
    """Give what the real package says."""
    done = subprocess.run(
        [WITH_US.python, HERE / "vocabulary.py"],
        input=json.dumps([*FAILURES.values()]),
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)


def test_every_kind_of_nemo_gym_is_registered(theirs):
    """The vocabulary holds every kind that the installed NeMo Gym has registered, and its stages are the same."""
    assert set(theirs["kinds"]) <= kinds.FAILURE_KINDS
    assert [stage.value for stage in kinds.FailureStage] == theirs["stages"]


@pytest.mark.parametrize("case", FAILURES)
def test_records_of_nemo_gym_go_in_and_out(theirs, case):
    """A failure that NeMo Gym has recorded is the same as our record, and back again, alone and in a saved row."""
    ways = theirs["passed"][[*FAILURES].index(case)]
    assert {name for name, record in ways.items() if record != FAILURES[case]} == set()
