"""One run of the bed, started from the tests' environment: `run(folder).rows`."""

import json
import os
import subprocess
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from backends.processes import free_ports
from gym_failures.header import decode_reports
from gym_failures.semconv import HEADER_NAME
from gym_failures.streams import CommentReader
from gym_venv import WITH_US
from tests.gym.bed import scenarios
from tests.gym.bed.configuration import calls, config
from tests.gym.bed.provider import Provider

HERE = Path(__file__).parent
PATIENCE = 300
"""Longest time that a run may take before it is killed, in seconds; it takes a tenth of it."""
TRACES = "traces"
"""Folder of the spans in the folder of a run."""


@dataclass(frozen=True)
class Reply:
    """A reply that the driver got."""

    server: str
    path: str
    scenario: str
    status: int
    headers: list[list[str]]
    body: str | None

    @property
    def report(self):
        """The report in its headers, or None."""
        return decode_reports([value for name, value in self.headers if name.lower() == HEADER_NAME])

    @property
    def last_comment(self):
        """The report that stands behind a stream that broke, or None."""
        comments = CommentReader()
        comments.feed((self.body or "").encode())
        return comments.report


@dataclass(frozen=True)
class Run:
    """A run of the bed that has ended."""

    folder: Path
    output: str
    seen: Counter
    metrics: list[bytes]
    scenarios: tuple[str, ...] = scenarios.ROLLOUTS
    """Those of the data set, in its order."""

    @cached_property
    def found(self):
        """What the driver found."""
        return json.loads((self.folder / "found.json").read_text())

    @cached_property
    def all_rows(self):
        """Rows of rollouts, of both files that the collection writes."""
        return [*lines(self.folder / "rollouts.jsonl"), *lines(self.folder / "rollouts_failures.jsonl")]

    @cached_property
    def rows(self):
        """The last row of each rollout, by scenario."""
        return {self.scenarios[row["_ng_task_index"]]: row for row in self.all_rows}

    @cached_property
    def failed(self):
        """Scenarios whose row is in the file of failures."""
        return {self.scenarios[row["_ng_task_index"]] for row in lines(self.folder / "rollouts_failures.jsonl")}

    @cached_property
    def replies(self):
        """Replies of the driver's calls, by scenario."""
        return {reply["scenario"]: Reply(**reply) for reply in lines(self.folder / "replies.jsonl")}

    @cached_property
    def handled(self):
        """How often each handler of the resources servers was entered, by scenario."""
        return Counter((one["scenario"], one["handler"]) for one in lines(self.folder / "handlers.jsonl"))

    @property
    def traces(self):
        """Files of spans."""
        return sorted((self.folder / TRACES).glob("*.jsonl"))


def lines(path):
    """Return what a file of JSON lines holds; nothing where there is none."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def run(folder, *before, **environment):
    """Run the bed in `folder`, with the words `before` in front of its command; return what it left.

    `{provider}` in a variable of `environment` stands for the address of what lies around NeMo Gym.

    Raises AssertionError with the end of its output when it fails.
    """
    (head,) = free_ports(0)
    data, settings, log = folder / "data.jsonl", folder / "settings.json", folder / "driver.log"
    data.write_text(scenarios.dataset())
    with Provider() as provider:
        collection = {
            "input_jsonl_fpath": str(data),
            "output_jsonl_fpath": str(folder / "rollouts.jsonl"),
            "route_failures_to_sidecar": True,
            "environment_routing_mode": "legacy",
            "environment_server_name": scenarios.RELAY,
            "environment_server_routes": {name: name for name in (scenarios.TURN, scenarios.FRAGILE)},
        }
        settings.write_text(
            json.dumps(
                {
                    "folder": str(folder),
                    "config": config(folder, head, provider.url),
                    "collection": collection,
                    "calls": calls(),
                    "provider": provider.url,
                }
            )
        )
        told = {name: value.format(provider=provider.url) for name, value in environment.items()}
        with log.open("wb") as file:
            done = subprocess.run(
                [*before, WITH_US.python, HERE / "driver.py", settings],
                cwd=HERE,
                env=surroundings(folder) | told,
                stdout=file,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                timeout=PATIENCE,
                check=False,
            )
        output = log.read_text(errors="replace")
        assert done.returncode == 0, output[-4000:]
        return Run(folder, output, provider.seen, provider.metrics)


def surroundings(folder):
    """Return the environment of the bed: nothing that a shell says to OpenTelemetry or to NeMo Gym is meant for it."""
    inherited = {key: os.environ[key] for key in ("PATH", "HOME", "TMPDIR") if key in os.environ}
    # One attempt, so that a run which is taken up again has nothing left to do.
    return inherited | {"BED_FOLDER": str(folder), "HF_HUB_OFFLINE": "1", "NEMO_GYM_MAX_ROLLOUT_ATTEMPTS": "1"}


def tracing(folder):
    """Return what a user puts in front of a command to know why things fail, with the spans going into `folder`."""
    return (WITH_US.folder / "bin" / "gym-failures", "run", "--folder", folder / TRACES, "--")


PATIENT = """
from gym_failures import limits
limits.FLUSH_SECONDS = 8
limits.FLUSH_REQUESTS_SECONDS = limits.FLUSH_UNANSWERED_SECONDS = 4
"""


def patience(folder):
    """Return what has servers send all that they have at their end, in the time that the driver gives them.

    A busy machine can miss the time that they have in earnest.
    """
    beside = folder.with_name(f"{folder.name}-patience")  # no file more is to be in the run's own folder
    beside.mkdir()
    (beside / "sitecustomize.py").write_text(PATIENT)
    return {"PYTHONPATH": str(beside)}


def run_traced(folder, **environment):
    """Run the bed as a user does who wants to know why things fail; the counts go to the tests."""
    endpoint = {"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "{provider}/v1/metrics"}
    return run(folder, *tracing(folder), **endpoint, **patience(folder), **environment)
