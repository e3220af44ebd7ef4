"""Pass records between NeMo Gym's own classes and this package's; it runs in NeMo Gym's environment.

Takes a list of failures as JSON on standard input, and prints what either side makes of them.
"""

import json
import sys
import typing

from nemo_gym import failure_kinds as theirs
from nemo_gym.episode_types import EpisodeFailure as TheirFailure
from nemo_gym.rollout_outcomes import RolloutFailure

from gym_failures.records import EpisodeFailure

AROUND = {
    "episode_id": {"rollout_id": "3-1", "attempt": 2},
    "run_id": "run",
    "source": "environment",
    "delivery": "delivered",
}
"""What a saved row says around a failure."""


def passed(fields):
    """Return what a failure is after each way there and back, as JSON."""
    their = TheirFailure.model_validate(fields)
    ours = EpisodeFailure.model_validate(their)
    row = RolloutFailure(**AROUND, failure=their).model_dump(mode="json")
    row["failure"] = EpisodeFailure.model_validate(row["failure"]).model_dump(mode="json")
    return {
        "theirs": their.model_dump(mode="json"),
        "as model": ours.model_dump(mode="json"),
        "as text": EpisodeFailure.model_validate_json(their.model_dump_json()).model_dump(mode="json"),
        "back": TheirFailure.model_validate_json(ours.model_dump_json()).model_dump(mode="json"),
        "in a row": RolloutFailure.model_validate(row).model_dump(mode="json")["failure"],
    }


answer = {
    "kinds": sorted(theirs.FAILURE_KINDS),
    "stages": typing.get_args(theirs.FailureStage),
    "passed": [passed(fields) for fields in json.load(sys.stdin)],
}
json.dump(answer, sys.stdout)
