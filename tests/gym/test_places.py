"""Every function that is hooked is there in the real package, and what is put round it can be called as it is."""

import json
import subprocess

import pytest

from gym_venv import WITH_US
from tests.gym.bed.run import HERE
from tests.servers.test_nemo_gym import hooked

PLACES = sorted(f"{module}: {place}" for module, places in hooked().items() for place in places)


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """Give the parameters of every place."""
    file = tmp_path_factory.mktemp("places") / "found.json"
    subprocess.run([WITH_US.python, HERE / "places.py", file], check=True, capture_output=True)
    return json.loads(file.read_text())


@pytest.mark.parametrize("place", PLACES)
def test_a_hooked_function_takes_what_it_takes(found, place):
    """Parameters that the wrapper names are the function's, in its order: callers give them by position or by name."""
    theirs, ours = found[place]["theirs"], found[place]["ours"]
    assert ours == theirs[: len(ours)]
