"""The sides of the load on NeMo Gym: how the servers of each are started, with what in front and around."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

import psutil
from gym_load_client import HOST

HERE: Final = Path(__file__).resolve().parent
BED: Final = HERE.parent / "tests" / "gym" / "bed"
sys.path.insert(0, str(HERE.parent / "tools"))

from backends.processes import free_ports  # noqa: E402 - from where the line above says
from gym_venv import WITH_US  # noqa: E402 - as above

BARE, ALONE, OURS, FILES = "bare", "OpenTelemetry", "run", "run, files"
SIDES: Final = (BARE, ALONE, OURS, FILES)
SENDING: Final = (ALONE, OURS)
"""Sides whose spans come to the provider."""
BATCHES: Final = {"OTEL_BSP_SCHEDULE_DELAY": "1000", "OTEL_BSP_MAX_QUEUE_SIZE": "16384"}
"""How spans are sent on both sides: the time until a batch goes, for which the SDK's own default and ours differ, and
room for the spans of a round, of which the SDK's own queue loses some when so many requests end at once."""


class Server(NamedTuple):
    """A server of NeMo Gym that serves."""

    side: str
    name: str
    process: psutil.Process
    port: int

    def memory(self) -> float:
        """Return its resident memory, in MB."""
        return float(self.process.memory_info().rss) / 1e6

    def cpu(self) -> float:
        """Return the processor's seconds that it has had."""
        times = self.process.cpu_times()
        return float(times.user + times.system)


@contextmanager
def started(side: str, folder: Path, provider: int, in_flight: int) -> Iterator[Iterator[Server]]:
    """Start the servers of a side for so many requests in flight; what is given yields them once they serve.

    The provider behind them is at the port `provider`. They are ended with the block.
    """
    folder.mkdir()
    settings = folder / "settings.json"
    settings.write_text(json.dumps({"folder": str(folder), "config": config(provider, in_flight)}))
    before = (WITH_US.folder / "bin" / "gym-failures", "run", "--folder", folder / "traces", "--")
    process = subprocess.Popen(  # noqa: S603 - our own
        [*(before if side in (OURS, FILES) else ()), WITH_US.python, HERE / "gym_load_servers.py", settings],
        cwd=BED,  # in which NeMo Gym finds the bed's own server
        env=environment(side, folder, provider),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=(folder / "launcher.log").open("wb"),
        text=True,
    )
    try:
        yield _serving(side, folder, process)
    finally:
        process.communicate()  # It ends with its input.


def _serving(side: str, folder: Path, process: "subprocess.Popen[str]") -> Iterator[Server]:
    assert process.stdout is not None  # noqa: S101 - it is a pipe
    for line in process.stdout:
        if line.startswith("{"):  # NeMo Gym prints, too
            for name, one in json.loads(line).items():
                yield Server(side, name, psutil.Process(one["process"]), one["port"])
            return
    raise RuntimeError("".join(log.read_text(errors="replace")[-2_000:] for log in folder.glob("*.log")))


def environment(side: str, folder: Path, provider: int) -> Mapping[str, str]:
    """Return the environment of a side: nothing that a shell says to OpenTelemetry or to NeMo Gym is meant for it."""
    environ = {key: os.environ[key] for key in ("PATH", "HOME", "TMPDIR") if key in os.environ}
    # One seed for all: what a dictionary costs depends on it.
    environ |= {"BED_FOLDER": str(folder), "HF_HUB_OFFLINE": "1", "PYTHONHASHSEED": "0"}
    if side in SENDING:
        environ["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"] = f"http://{HOST}:{provider}/{SIDES.index(side)}/v1/traces"
        environ |= BATCHES
    if side == ALONE:
        environ["PYTHONPATH"] = str(HERE / "gym_load_alone")
    return environ


def config(provider: int, in_flight: int) -> dict[str, object]:
    """Return NeMo Gym's configuration of both servers, which are to be asked so many requests at a time."""
    head, model, resources = free_ports(0, 0, 0)
    here = {"entrypoint": "app.py", "host": HOST}
    flaky = here | {"port": resources, "domain": "agent", "verified": False, "description": "fails on demand"}
    openai = here | {"port": model, "openai_base_url": f"http://{HOST}:{provider}/v1", "openai_api_key": "none"}
    return {
        "head_server": {"host": HOST, "port": head},
        "default_host": HOST,
        "global_aiohttp_connector_limit_per_host": in_flight,  # by itself it asks a provider 1,024 things at a time
        "model": {"responses_api_models": {"openai_model": openai | {"openai_model": "stand-in"}}},
        "resources": {"resources_servers": {"flaky": flaky}},
    }
