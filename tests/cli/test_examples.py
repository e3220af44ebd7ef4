"""The examples of every command's help, typed into a shell."""

import gzip
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gym_failures.cli.app import EXAMPLE, app
from gym_failures.kinds import FailureBoundary
from tests import jaeger
from tests.spans import failure, server, told
from tests.stored import as_line

COMMAND = Path(sys.executable).with_name("gym-failures")
ELSEWHERE = (
    "gym-failures demo",
    "gym-failures doctor",
    "gym-failures export",
    "gym-failures report",
    "gym-failures rows",
    "gym-failures run",
    "--follow",
    "curl",
)
"""Examples that start servers, ask one, write a page, or do not end; they have tests of their own."""


def examples():
    """Return the examples that are run here."""
    return [
        line.strip()
        for registered in app.registered_commands
        for line in (registered.epilog or "").splitlines()
        if "gym-failures" in line and not any(start in line for start in ELSEWHERE)
    ]


@pytest.fixture
def world(tmp_path):
    """Give a folder with files of all the names that examples have, and a Jaeger."""
    now = time.time_ns()
    refused = failure("m", kind="provider_unavailable", boundary=FailureBoundary.MODEL)
    span = server(2, None, told(refused, at=now), told(failure("a", "m"), at=now), own="a", rollout="r07")
    line = as_line(span) + "\n"
    for folder in ("traces", "before", "after"):
        (tmp_path / folder).mkdir()
    (tmp_path / "before" / "fine.jsonl").write_text("")
    for name in ("agent.jsonl", "model.jsonl", "traces/1.jsonl", "traces/2.jsonl", "after/1.jsonl"):
        (tmp_path / name).write_text(line)
    (tmp_path / "reply.txt").write_text(f"HTTP/1.1 500 No\nGym-Failure-Report: {EXAMPLE}\n\n{{}}\n")
    (tmp_path / "traces.jsonl.gz").write_bytes(gzip.compress(line.encode()))
    with jaeger.served(jaeger.trace(7, kind="agent_run_error", start=now // 1_000)) as store:
        yield tmp_path, {"http://localhost:16686": store.url}


@pytest.mark.parametrize("example", examples())
def test_an_example_does_what_it_shows(world, example):
    """Each example ends well, complains of nothing, and prints a failure; ports are those of this machine."""
    folder, urls = world
    for url, real in urls.items():
        example = example.replace(url, real)
    path = f"{COMMAND.parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["/bin/sh", "-ec", example],
        cwd=folder, env={**os.environ, "PATH": path}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert "agent_run_error" in done.stdout
