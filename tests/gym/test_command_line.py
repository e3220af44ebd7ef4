"""NeMo Gym by its own command line, whose servers have environments in which this package is not installed."""

import subprocess

import pytest

from gym_failures.reading import read_files
from gym_failures.rows import read_row
from gym_venv import WITHOUT_US
from tests.gym.bed.launched import ROLLOUTS, SERVERS, launch
from tests.gym.cases import ROLLOUTS as CASES
from tests.gym.seeing import assert_shows


@pytest.fixture(scope="module")
def launched(tmp_path_factory):
    """Give a run that `gym env start` and `gym eval run --no-serve` have made."""
    return launch(tmp_path_factory.mktemp("launched"))


def test_the_servers_have_not_installed_it():
    """The environment of the servers has NeMo Gym and OpenTelemetry, but not this package."""
    code = "import nemo_gym, opentelemetry.sdk; from importlib.util import find_spec; print(find_spec('gym_failures'))"
    done = subprocess.run([WITHOUT_US.python, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "None\n"


@pytest.mark.parametrize("scenario", ROLLOUTS)
def test_rows_and_traces_tell_the_same_as_ever(launched, scenario):
    """A rollout's row and its trace show what they show where the package is installed."""
    case = CASES[scenario]
    assert_shows(read_row(launched.rows[scenario]).report, case, case.chain)
    found = [
        report for report in read_files(launched.traces, by="rollout") if report.key == f"{ROLLOUTS.index(scenario)}-0"
    ]
    assert len(found) == bool(case.chain)
    for report in found:
        assert_shows(report.report, case, case.chain)


def test_nothing_else_is_told(launched):
    """No failure is told of but those of the rollouts: nothing of a start, of the head server or of Ray."""
    assert {report.key for report in read_files(launched.traces, by="rollout")} == {"1-0", "2-0"}
    assert "gym-failures: not active" not in launched.output


def test_each_server_writes_a_file_of_its_own(launched):
    """Spans are written by the four servers and the two commands, and by no process of Ray."""
    writers = sorted(path.name.rsplit("-", 2)[0] for path in launched.traces)
    assert writers == sorted([*SERVERS, "nemo-gym", "nemo-gym"])
