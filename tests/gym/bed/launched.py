"""NeMo Gym brought up by its own command line: `gym env start`, then `gym eval run --no-serve`.

Each server gets an environment of its own, as NeMo Gym makes them: one without this package.
"""

import json
import os
import re
import signal
import subprocess
import time
from contextlib import contextmanager
from dataclasses import dataclass

import psutil

from backends.processes import LOOPBACK, answers, free_ports
from gym_venv import WITH_US, WITHOUT_US
from tests.gym.bed import configuration, run, scenarios
from tests.gym.bed.provider import Provider

ROLLOUTS = ("relay-ok", "relay-m401", "relay-vraise")
"""The rollouts that are collected, in order: the position is the task's index."""
SERVERS = {
    "model": ("responses_api_models", "openai_model"),
    "resources": ("resources_servers", "flaky"),
    "agent": ("responses_api_agents", "simple_agent"),
    scenarios.RELAY: ("environment_servers", "legacy_agent"),
}
"""Type and implementation of each server. The last is NeMo Gym's own: here everything starts Ray in any case."""
WORKERS = 2
"""Processes of the environment server: uvicorn imports the app anew in each."""
ATTEMPTS = 2
"""How often a rollout that fails is collected."""
PATIENCE = 240
"""Longest time that the servers may take to be ready, in seconds; they take half a minute on a machine of their own."""
PROCESSES = 1 + len(SERVERS) - 1 + WORKERS
"""Processes that serve: the command itself, with the head server, and one for each other server but for the workers."""
_STARTED = re.compile(r"Started server process \[(\d+)\]")
"""What uvicorn says in each of them."""


@dataclass(frozen=True)
class Launched(run.Run):
    """A run of NeMo Gym's own command line."""

    serving: tuple[bool, ...] = ()
    """Whether each process that serves is traced, be there requests for it or not."""


def launch(folder):
    """Collect the rollouts in `folder`, and those that failed once more; return what that left.

    `gym-failures run --` stands in front of each command.
    """
    (head,) = free_ports(0)
    config, data = folder / "bed.yaml", folder / "data.jsonl"
    (folder / "resources_servers").symlink_to(run.HERE / "resources_servers")
    data.write_text("".join(json.dumps(scenarios.row(scenario)) + "\n" for scenario in ROLLOUTS))
    with Provider() as provider:
        config.write_text(json.dumps(_config(folder, head, provider.url)))
        with _servers(folder, config, head):
            for again in ((), ("--resume",)):
                _gym(
                    folder, "eval", "run", "--no-serve", "--no-health-check", *again,
                    "--config", config, "--input", data, "--output", folder / "rollouts.jsonl",
                    "+route_failures_to_sidecar=true",
                    "+environment_routing_mode=legacy", f"+environment_server_name={scenarios.RELAY}",
                ).wait(PATIENCE)  # fmt: skip
            serving = _serving(folder)
        return Launched(folder, _output(folder), provider.seen, provider.metrics, scenarios=ROLLOUTS, serving=serving)


def _config(folder, head, provider):
    """Return the bed's configuration with these servers only."""
    whole = configuration.config(folder, head, provider)
    config = {name: part for name, part in whole.items() if name in SERVERS or not isinstance(part, dict)}
    for name, (kind, implementation) in SERVERS.items():
        ((_, settings),) = whole[name][kind].items()
        config[name] = {kind: {implementation: settings}}
        if name == scenarios.RELAY:
            settings["num_workers"] = WORKERS
        environment = folder / "environments" / kind / implementation / ".venv"
        environment.parent.mkdir(parents=True)
        environment.symlink_to(WITHOUT_US.folder)
    return config | {"head_server": whole["head_server"]}


@contextmanager
def _servers(folder, config, head):
    """Run the servers, and end them as one does at a keyboard."""
    start = _gym(
        folder, "env", "start", "--config", config,
        f"+uv_venv_dir={folder / 'environments'}", "+skip_venv_if_present=true",
    )  # fmt: skip
    try:
        begun = time.monotonic()
        while not answers(f"http://{LOOPBACK}:{head}/readyz"):
            assert start.poll() is None, _output(folder)[-4000:]
            assert time.monotonic() < begun + PATIENCE, _output(folder)[-4000:]
            time.sleep(0.2)
        yield
    finally:
        start.send_signal(signal.SIGINT)
        try:
            assert start.wait(60) == 0
        finally:
            if start.poll() is None:
                os.killpg(start.pid, signal.SIGKILL)


def _serving(folder):
    """Wait until each process that serves has started, and return whether it is traced.

    Which worker gets a request is up to the kernel, so that is not seen by what they write. A process that is traced
    has the compiled part of wrapt, which neither NeMo Gym nor its libraries import, mapped into its memory.
    """
    begun = time.monotonic()
    while len(started := _STARTED.findall(_output(folder))) < PROCESSES:
        assert time.monotonic() < begun + PATIENCE, _output(folder)[-4000:]
        time.sleep(0.2)
    return tuple(any("wrapt" in one.path for one in psutil.Process(int(pid)).memory_maps()) for pid in started)


def _gym(folder, *words):
    """Start a command of NeMo Gym, traced; in a session of its own, so that all that it starts can be ended."""
    # A shell would have activated the environment, and NeMo Gym looks on PATH for uv.
    path = os.pathsep.join([str(WITH_US.folder / "bin"), os.environ["PATH"]])
    with (folder / f"{words[0]}.log").open("wb") as log:
        return subprocess.Popen(
            [*run.tracing(folder), "gym", *words],
            cwd=folder,  # where the commands leave what they write
            env=run.surroundings(folder) | {"PATH": path, "NEMO_GYM_MAX_ROLLOUT_ATTEMPTS": str(ATTEMPTS)},
            stdout=log,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )


def _output(folder):
    """Return what the commands printed."""
    return "".join(log.read_text(errors="replace") for log in sorted(folder.glob("*.log")))
