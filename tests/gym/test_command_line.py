"""NeMo Gym by its own command line, whose servers have environments in which this package is not installed."""

import subprocess
from collections import Counter

import pytest

from gym_failures.reading import read_files
from gym_failures.rows import read_row
from gym_venv import WITHOUT_US
from tests.gym.bed.launched import ATTEMPTS, PROCESSES, ROLLOUTS, SERVERS, WORKERS, launch
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
    """Each attempt of a rollout has a row and a trace, which show what they show where the package is installed."""
    case, index = CASES[scenario], ROLLOUTS.index(scenario)
    rows = [row for row in launched.all_rows if row["_ng_task_index"] == index]
    assert len(rows) == launched.seen[scenario, "/v1/responses"] == (ATTEMPTS if case.chain else 1)
    for row in rows:
        assert_shows(read_row(row).report, case, case.chain)
    told = {report.key: report for report in read_files(launched.traces, by="rollout")}
    for key in (f"{index}-0", f"{index}-0-a1") if case.chain else ():
        assert_shows(told[key].report, case, case.chain)


def test_nothing_else_is_told(launched):
    """No failure is told of but those of the rollouts: nothing of a start, of the head server or of Ray."""
    assert {report.key for report in read_files(launched.traces, by="rollout")} == {"1-0", "1-0-a1", "2-0", "2-0-a1"}
    assert "gym-failures: not active" not in launched.output


def test_each_process_writes_a_file_of_its_own(launched):
    """Spans are written by the servers, each worker of one, and by the three commands, and by no process of Ray."""
    writers = Counter(path.name.rsplit("-", 2)[0] for path in launched.traces)
    assert set(writers) == {*SERVERS, "nemo-gym"}
    assert writers["nemo-gym"] == 1 + ATTEMPTS
    assert writers["relay"] <= WORKERS
    assert {name for name, files in writers.items() if files > 1} <= {"nemo-gym", "relay"}


def test_each_process_that_serves_is_traced(launched):
    """Workers of one server, in which its app is imported anew, are traced, also those to which no request came."""
    assert launched.serving == (True,) * PROCESSES
