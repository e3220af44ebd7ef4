"""Bring NeMo Gym up, collect the rollouts, make the other calls, and take it down: `driver.py SETTINGS`.

It runs in NeMo Gym's environment and does what NeMo Gym's own launcher does, without Ray and without an environment for
each server. SETTINGS is a JSON file; what is found is written into its folder. Without a collection in it, NeMo Gym is
only brought up and down.
"""

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import psutil
from nemo_gym import _resolve_under_cwd_or_install as resolve
from nemo_gym.global_config import (
    NEMO_GYM_CONFIG_DICT_ENV_VAR_NAME,
    NEMO_GYM_CONFIG_PATH_ENV_VAR_NAME,
    GlobalConfigDictParserConfig,
    get_global_config_dict,
)
from nemo_gym.rollout_collection import RolloutCollectionConfig, RolloutCollectionHelper
from nemo_gym.rollout_reverification import RolloutReverificationConfig, RolloutReverificationHelper
from nemo_gym.server_utils import HeadServer, ServerClient, get_global_aiohttp_client
from omegaconf import OmegaConf

SETTINGS = json.loads(Path(sys.argv[1]).read_text())
FOLDER = Path(SETTINGS["folder"])
KINDS = ("resources_servers", "responses_api_agents", "responses_api_models", "environment_servers")
PATIENCE = 240.0
"""Longest time that the whole run may take, in seconds; a run takes a tenth of it."""
LOOK_EVERY = 0.1
"""How often is looked which processes there are, in seconds."""
SEEN = 5
"""How often a process has to be seen to count: every server and every worker lives far longer than that takes."""
ENDING = 25.0
"""Longest time that a server may take to end before it is killed, in seconds; many times what NeMo Gym gives it, for a
machine that is busy besides, and less than OpenTelemetry's SDK would wait for a receiver."""


class Witness(ServerClient):
    """NeMo Gym's client, which also writes down what the driver gets back."""

    async def request(self, server_name, url_path, method, **options):
        """Make a call as NeMo Gym does."""
        reply = await super().request(server_name=server_name, url_path=url_path, method=method, **options)
        note(server_name, url_path, options.get("json"), reply)  # not its body: who reads it takes it away
        return reply


class Collection(RolloutCollectionHelper):
    """NeMo Gym's collection of rollouts, with a client that can be questioned afterwards."""

    def setup_server_client(self, head_server_config=None):
        """Return the client to call servers with."""
        return Witness.load_from_global_config(head_server_config)


def note(server, path, asked, reply, body=None):
    """Write down a reply, its body where that was read."""
    written = {
        "server": server,
        "path": path,
        "scenario": scenario_in(asked),
        "status": reply.status,
        "headers": [[name, value] for name, value in reply.headers.items()],
        "body": None if body is None else body.decode(),
    }
    with (FOLDER / "replies.jsonl").open("a") as file:
        file.write(json.dumps(written) + "\n")


def scenario_in(asked):
    """Return the scenario of a request by its mark; empty if it has none."""
    _, found, rest = json.dumps(asked, default=str).partition("[scenario:")
    return rest.partition("]")[0] if found else ""


@contextmanager
def servers(config):
    """Run a process for each server of the configuration, as NeMo Gym's launcher does; give them by name."""
    environment = dict(os.environ, **{NEMO_GYM_CONFIG_DICT_ENV_VAR_NAME: OmegaConf.to_yaml(config)})
    running = {}
    with ExitStack() as files:
        try:
            for name, instance in config.items():
                kind = next(iter(instance)) if OmegaConf.is_dict(instance) else None
                if kind not in KINDS:
                    continue
                place = resolve(Path(kind, next(iter(instance[kind])), "app.py")).parent
                log = files.enter_context((FOLDER / f"{name}.log").open("wb"))
                running[name] = subprocess.Popen(
                    [sys.executable, "app.py"],
                    cwd=place,
                    env=environment
                    | {
                        NEMO_GYM_CONFIG_PATH_ENV_VAR_NAME: name,
                        "PYTHONPATH": os.pathsep.join([str(place), os.environ.get("PYTHONPATH", "")]),
                    },
                    stdout=log,
                    stderr=subprocess.STDOUT,
                )
            yield running
        finally:
            for process in running.values():
                process.send_signal(signal.SIGINT)
            for process in running.values():
                try:
                    process.wait(ENDING)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()


@contextmanager
def watched():
    """Give the processes below this one that there are for a while in the block: the folder and the command of each."""
    found, seen = {}, Counter()
    over = threading.Event()

    def look():
        while not over.wait(LOOK_EVERY):
            for process in psutil.Process().children(recursive=True):
                with suppress(psutil.Error):  # it has ended since
                    place, command = Path(process.cwd()).name, process.cmdline()
                    if command:  # else it has ended, and nobody has asked how
                        seen[process] += 1
                    if command and seen[process] >= SEEN:
                        found[process] = [place, *(re.sub(r"\d+", "N", word) for word in command)]

    looking = threading.Thread(target=look)
    looking.start()
    try:
        yield found
    finally:
        over.set()
        looking.join()


def wait_for(client, running):
    """Return once every server answers."""
    while missing := [name for name in running if client.poll_for_status(name) != "success"]:
        ended = {name: running[name].poll() for name in missing if running[name].poll() is not None}
        if ended:
            raise RuntimeError(f"ended before they served: {ended}")
        time.sleep(0.1)


async def collect(**more):
    """Collect the rollouts."""
    await Collection().run_from_config(RolloutCollectionConfig(**SETTINGS["collection"], **more))


async def read_again():
    """Have NeMo Gym read the rows: take the run up again, which finds nothing left to do, and verify what was well."""
    await collect(resume_from_cache=True)
    rollouts, well = FOLDER / "rollouts.jsonl", FOLDER / "well.jsonl"
    with well.open("w") as file:
        file.writelines(line for line in rollouts.open() if not json.loads(line).get("failure_kind"))
    await RolloutReverificationHelper().run_from_config(
        RolloutReverificationConfig(
            materialized_inputs_jsonl_fpath=str(FOLDER / "rollouts_materialized_inputs.jsonl"),
            rollouts_jsonl_fpath=str(well),
            output_jsonl_fpath=str(FOLDER / "verified.jsonl"),
        )
    )


async def stream(client, call):
    """Read a reply piece by piece, and have the provider go on once the first has come."""
    reply = await ServerClient.request(
        client, server_name=call["server"], url_path=call["path"], method="POST", json=call["asked"]
    )
    body = b""
    broken = None
    try:
        async for piece in reply.content.iter_any():
            if not body:
                await tell(f"release/{call['scenario']}")
            body += piece
    except Exception as error:  # noqa: BLE001 - what a client sees of a stream that broke
        broken = type(error).__name__
    note(call["server"], call["path"], call["asked"], reply, body)
    return {"broken": broken}


async def leave(client, call):
    """Begin a call and leave it once it has come to the provider; return when the provider knows."""
    begun = asyncio.ensure_future(client.post(server_name=call["server"], url_path=call["path"], json=call["asked"]))
    await tell(f"wait/arrived/{call['scenario']}")
    begun.cancel()
    await asyncio.wait({begun})
    await tell(f"wait/left/{call['scenario']}")
    return {"cancelled": begun.cancelled()}


async def follow(client, call):
    """Make a call while the environment server has its hands full with the rollout whose resources server dies."""
    await tell("wait/arrived/fragile-vdie")
    await client.post(server_name=call["server"], url_path=call["path"], json=call["asked"])
    return {}


async def tell(path):
    """Ask the provider something, past everything that watches calls."""
    host, port = SETTINGS["provider"].removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(f"GET /{path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n".encode())
    await reader.read()
    writer.close()


async def work(client):
    """Collect the rollouts and make all calls at once; return what came of the calls, by scenario."""
    get_global_aiohttp_client()
    ways = {"stream": stream, "leave": leave, "follow": follow}
    made = [ways[call["how"]](client, call) for call in SETTINGS["calls"]]
    _, *results = await asyncio.gather(collect(), *made)
    await read_again()
    return {call["scenario"]: result for call, result in zip(SETTINGS["calls"], results, strict=True)}


def main():
    """Run the bed."""
    begun = psutil.Process().create_time()  # that of the command before `run` became this one
    config = get_global_config_dict(
        GlobalConfigDictParserConfig(
            initial_global_config_dict=OmegaConf.create(SETTINGS["config"]),
            skip_load_from_cli=True,
            skip_load_from_dotenv=True,
        )
    )
    head, thread, server = HeadServer.run_webserver()
    with watched() as processes, servers(config) as running:
        client = Witness(head_server_config=ServerClient.load_head_server_config(), global_config_dict=config)
        wait_for(client, running)
        up = time.time() - begun
        server.mark_ready()
        results = asyncio.run(asyncio.wait_for(work(client), PATIENCE)) if SETTINGS["collection"] else {}
        ended = {name: process.poll() for name, process in running.items()}
    head.should_exit = True
    thread.join(5)
    found = {
        "calls": results,
        "ended_early": {name: status for name, status in ended.items() if status is not None},
        "ended": {name: process.returncode for name, process in running.items()},
        "up": up,
        "processes": sorted(processes.values()),
        "ray": "ray" in sys.modules,
    }
    (FOLDER / "found.json").write_text(json.dumps(found))


if __name__ == "__main__":
    main()
