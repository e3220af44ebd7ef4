"""One run of the demo for all tests, however many processes run them."""

import fcntl
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

COMMAND = Path(sys.executable).with_name("gym-failures")
SEED = 7


@dataclass(frozen=True)
class Demo:
    """A run that has ended."""

    folder: Path
    status: int
    output: str
    errors: str

    @property
    def spans(self):
        """Return the files of spans."""
        return sorted((self.folder / "spans").glob("*.jsonl"))


def call(*arguments, cwd=None, text=None, **environment):
    """Run the command and return how it ended."""
    command = [COMMAND, *map(str, arguments)]
    return subprocess.run(
        command, capture_output=True, text=True, check=False, cwd=cwd, input=text, env=environment or None
    )


@pytest.fixture(scope="session")
def demo(tmp_path_factory, worker_id):
    """Give a run of the demo; of several processes that run tests, the first makes it and the others wait."""
    shared = tmp_path_factory.getbasetemp()
    if worker_id != "master":
        shared = shared.parent
    folder, status, output, errors = (shared / f"demo{end}" for end in ("", ".status", ".out", ".err"))
    with (shared / "demo.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not status.exists():
            done = call("demo", "--folder", folder, "--seed", SEED)
            output.write_text(done.stdout)
            errors.write_text(done.stderr)
            status.write_text(str(done.returncode))
    return Demo(folder, int(status.read_text()), output.read_text(), errors.read_text())
