"""Failures that servers of a real NeMo Gym answer with a 200, and those that are none; each server alone."""

import json
import subprocess
from dataclasses import dataclass, field
from typing import Any

import pytest

from gym_venv import WITH_US
from tests.gym.bed.run import HERE

ENVIRONMENT, MODEL, RESOURCES = "environment", "model", "resources_server"
HANDLED = "nemo_gym.base_environment_server.HandledEpisodeError"


@dataclass(frozen=True)
class Case:
    """What is to be seen of one call."""

    kind: str | None = None
    """The kind of the request's own failure; None for a request that did not fail."""
    boundary: str = ENVIRONMENT
    status: int = 200
    also: dict[str, Any] = field(default_factory=dict)
    """What else the event says."""
    beside: int = 0
    """How many failures were recovered from."""
    reported: int = 0
    """How many failures a reply to the server had reported, which are counted elsewhere."""


CASES = {
    "episode well": Case(),
    # What NeMo Gym's record says, and what its error was raised from.
    "episode told": Case(
        "environment_server_failed",
        also={
            "failure_reason": "told",
            "stage": "seed",
            "exception_type": HANDLED,
            "foreign_error": {"exception_type": "ValueError", "message": "no cookie"},
        },
    ),
    "episode told with a kind": Case(
        "session_lost", also={"failure_reason": "lost", "stage": "agent", "exception_type": HANDLED}
    ),
    "episode returned": Case("environment_server_failed", also={"failure_reason": "returned"}),
    "episode unexpected": Case(
        "environment_server_failed",
        also={"failure_reason": "unexpected", "stage": "agent", "exception_type": "RuntimeError"},
    ),
    "episode own time-out": Case(
        "transport_timeout",
        also={"failure_reason": "a call of its own", "stage": "agent", "exception_type": "TimeoutError"},
    ),
    "episode too slow": Case(
        "agent_timeout",
        also={"failure_reason": "Episode timed out", "stage": "agent", "exception_type": "TimeoutError"},
    ),
    "episode not admitted": Case(
        "environment_server_failed",
        also={
            "failure_reason": "Episode admission timed out",
            "stage": "admission",
            "exception_type": "TimeoutError",
        },
    ),
    "verify well": Case(),
    "verify judge": Case(
        "judge_failed", RESOURCES, also={"failure_reason": "judge 503", "exception_type": "nemo_gym.judge.JudgeError"}
    ),
    "verify judge behind": Case("judge_failed", RESOURCES, also={"cause_id": "theirs"}, reported=1),
    "verify broken": Case("verifier_error", RESOURCES, 500, also={"exception_type": "RuntimeError"}),
    "verify at shutdown": Case(
        "cancelled", RESOURCES, 500, also={"exception_type": "asyncio.exceptions.CancelledError"}
    ),
    "verify degraded": Case(beside=1),
    "verify masked": Case("session_lost", RESOURCES, also={"failure_reason": ""}),
    "responses plain well": Case(),
    "responses stream well": Case(),
    "responses plain broken": Case("provider_unavailable", MODEL, 500),
    "responses stream broken": Case("provider_unavailable", MODEL, also={"exception_type": "RuntimeError"}),
    "responses plain refused": Case(status=400),
    "responses stream refused": Case(),
    "chat plain well": Case(),
    "chat stream well": Case(),
    "chat plain broken": Case("provider_unavailable", MODEL, 500),
    "chat stream broken": Case("provider_unavailable", MODEL, 500),
    "chat plain refused": Case(status=400),
    "chat stream refused": Case(status=400),
}


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """Give what came of each call."""
    file = tmp_path_factory.mktemp("serving") / "found.json"
    done = subprocess.run([WITH_US.python, HERE / "serving.py", file], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4_000:]
    return json.loads(file.read_text())


def test_every_case_is_told(found):
    """The table has each call that is made, and no other."""
    assert set(found) == set(CASES)


@pytest.mark.parametrize("name", CASES)
def test_what_a_request_failed_with(found, name):
    """A failure that only the body tells of is the request's own, once, in the reply and on the span of a 200 too.

    NeMo Gym alone shows a reward of 0, or a result without one (NVIDIA-NeMo/Gym#316, #2218). A sample that is not
    masked, and a request that the server calls wrong, did not fail.
    """
    case, came = CASES[name], found[name]
    assert came["status"] == case.status
    assert came["error"] == (case.kind is not None)
    assert came["attributes"].get("failure.kind") == case.kind
    report = came["report"] or {"events": {}}
    own = report["events"].get(report.get("failure_id"))
    assert (own is not None) == (case.kind is not None)
    assert len(report["events"]) == case.beside + case.reported + (own is not None)
    if own is not None:
        assert (own["failure_kind"], own["boundary"]) == (case.kind, case.boundary)
        said = {name: value for name, value in own.items() if name in case.also or name == "foreign_error"}
        assert said == case.also


@pytest.mark.parametrize("name", [name for name in CASES if name != "episode not admitted"])  # another call runs there
def test_it_is_counted_once(found, name):
    """Each failure is counted once, however many layers of the server saw it (opentelemetry-python-contrib#5068)."""
    report = found[name]["report"] or {"events": {}}
    assert found[name]["failures"] == len(report["events"]) - CASES[name].reported


@pytest.mark.parametrize("name", [name for name in CASES if name.startswith(("episode", "verify"))])
def test_the_span_names_the_rollout(found, name):
    """An episode's id, or the one in a path, is on the server's span, with the attempt behind it."""
    attributes = found[name]["attributes"]
    assert attributes["nemo.gym.rollout.id"] == "3-1-a2"
    assert attributes.get("nemo.gym.attempt_index") == (2 if name.startswith("episode") else None)
