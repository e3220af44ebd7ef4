"""Python programs as processes of their own, below `gym-failures run` or as it has them run."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from gym_failures.cli.run import environment

PROGRAMS = Path(__file__).with_name("apps")
COMMAND = Path(sys.executable).with_name("gym-failures")
_FOREIGN = ("OTEL_", "GYM_FAILURES_", "_GYM_FAILURES_", "NEMO_", "PYTHON", "COVERAGE_")


PATIENCE = 100.0  # seconds until a program is taken for hung


class Ended(NamedTuple):
    """How a program ended."""

    status: int
    output: str
    errors: str

    def told(self):
        """Return what it printed as JSON in its last line."""
        assert self.output, self.errors
        return json.loads(self.output.splitlines()[-1])


def surroundings(**variables: str) -> dict[str, str]:
    """Return this process's variables without any that tracing or Python would obey, and with these."""
    ours = {name: value for name, value in os.environ.items() if not name.startswith(_FOREIGN)}
    return {**ours, **variables}


def hooked(folder: Path, **variables: str) -> dict[str, str]:
    """Return the variables that `gym-failures run` would give to a program that writes its traces into `folder`."""
    return environment(surroundings(**variables), folder / "traces")


def ran(*command: str | Path, env: Mapping[str, str], cwd: Path | None = None) -> Ended:
    """Run a command to its end."""
    done = subprocess.run(command, env=env, cwd=cwd, capture_output=True, text=True, check=False, timeout=PATIENCE)
    return Ended(done.returncode, done.stdout, done.stderr)


def files(folder: Path) -> list[Path]:
    """Return the files of traces that programs have written."""
    return sorted((folder / "traces").glob("*.jsonl"))


def resources(folder: Path) -> list[dict[str, object]]:
    """Return the attributes of the resource of each line of those files."""
    lines = [json.loads(line) for file in files(folder) for line in file.read_text().splitlines()]
    return [
        {one["key"]: one["value"].get("stringValue") for one in part["resource"]["attributes"]}
        for line in lines
        for part in line["resourceSpans"]
    ]
