"""Make the files of `tests/data/`: one run of the demo, as real programs store it. `python tools/samples.py FOLDER`.

Needs the programs that `make backends` makes. The README there says which file is whose.
"""

import json
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Any

from backends.processes import LOOPBACK, Process, free_ports
from backends.programs import COLLECTOR, ROOT
from backends.stack import Jaeger
from gym_failures.demo import plan
from gym_failures.reading.sources.jaeger_grpc import JaegerGrpc

SEED = 0
SHOWN = (
    plan.HEALTHY,
    plan.PROVIDER_401,
    plan.PROVIDER_429,
    plan.CONNECTION_RESET,
    plan.STREAM_BROKEN,
    plan.AGENT_TIMEOUT,
    plan.GAP,
)
"""A rollout of each of these is kept, so that the files stay small."""

CONFIG = """
receivers: {{otlp: {{protocols: {{http: {{endpoint: "{http}"}}}}}}}}
exporters:
  file/json: {{path: "{folder}/collector.jsonl"}}
  file/json-zstd: {{path: "{folder}/collector.json.zst", compression: zstd}}
  file/proto: {{path: "{folder}/collector.pb", format: proto}}
  file/proto-zstd: {{path: "{folder}/collector.pb.zst", format: proto, compression: zstd}}
  otlp_grpc/jaeger: {{endpoint: "{jaeger}", tls: {{insecure: true}}}}
extensions: {{health_check: {{endpoint: "{health}"}}}}
service:
  extensions: [health_check]
  telemetry: {{metrics: {{level: none}}}}
  pipelines:
    traces:
      receivers: [otlp]
      exporters: [file/json, file/json-zstd, file/proto, file/proto-zstd, otlp_grpc/jaeger]
"""


def main(folder: Path) -> None:
    """Run the demo, keep some rollouts of it, and have them stored."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as run:
        subprocess.run(
            [Path(sys.executable).with_name("gym-failures"), "demo", "--folder", run, "--seed", str(SEED)],
            stdout=subprocess.DEVNULL,
            check=True,
        )
        lines = keep(Path(run, "spans"), folder / "sdk")
    with tempfile.TemporaryDirectory() as state:
        store(lines, folder, Path(state))


def keep(spans: Path, folder: Path) -> list[str]:
    """Copy the lines of the rollouts that are kept, and return them."""
    rollouts = {next(one.rollout_id for one in plan.plan(SEED) if one.fault == fault) for fault in SHOWN}
    stored = {path.name: _anywhere(path.read_text()).splitlines() for path in sorted(spans.glob("*.jsonl"))}
    traces = set()
    for line in stored["collection.jsonl"]:
        for span in spans_of(line):
            of = {pair["key"]: pair["value"].get("stringValue") for pair in span.get("attributes", ())}
            if of.get("nemo.gym.rollout.id") in rollouts:
                traces.add(span["traceId"])
    folder.mkdir(exist_ok=True)
    kept = []
    for name, lines in stored.items():
        of_these = [line for line in lines if {span["traceId"] for span in spans_of(line)} <= traces]
        if of_these:
            (folder / name).write_text("".join(f"{line}\n" for line in of_these))
        kept += of_these
    return kept


def _anywhere(text: str) -> str:
    """Take out where this tree and Python happen to lie, which the tracebacks of exceptions tell."""
    return text.replace(f"{ROOT}/", "/app/").replace(sys.base_prefix, "/usr")


def spans_of(line: str) -> list[dict[str, Any]]:
    """Return the spans of a line."""
    return [
        span
        for resource in json.loads(line)["resourceSpans"]
        for scope in resource["scopeSpans"]
        for span in scope["spans"]
    ]


def store(lines: list[str], folder: Path, state: Path) -> None:
    """Send `lines` to a Collector, which writes its files, and to the Jaeger behind it; save that one's answers."""
    http, health = (f"{LOOPBACK}:{port}" for port in free_ports(0, 0))
    with Jaeger(state, storage="badger") as jaeger:
        config = state / "collector.yaml"
        config.write_text(CONFIG.format(http=http, health=health, folder=folder.resolve(), jaeger=jaeger.grpc))
        collector = Process(
            "collector",
            [COLLECTOR.find(), f"--config={config}"],
            ready=f"http://{health}/",
            folder=state,
            environment={},
        )
        with collector:
            for line in lines:
                call(f"http://{http}/v1/traces", line.encode())
            wanted = {span["spanId"] for line in lines for span in spans_of(line)}
            query = f"{jaeger.url}/api/traces?service=agent&limit=100&lookback=1h"
            while {one["spanID"] for trace in json.loads(call(query))["data"] for one in trace["spans"]} != wanted:
                time.sleep(0.2)
        (folder / "jaeger.json").write_bytes(call(query))
        now = time.time_ns()
        asked = JaegerGrpc(f"grpc://{jaeger.query_grpc}")
        with asked.failing(["agent"], since_ns=now - 3_600 * 10**9, until_ns=now) as found:
            (folder / "jaeger.pb").write_bytes(found.read())


def call(url: str, body: bytes | None = None) -> bytes:
    """Return what a server on this machine answers."""
    request = urllib.request.Request(url, body, {"Content-Type": "application/json"})  # noqa: S310 - on loopback
    with urllib.request.urlopen(request, timeout=30) as answer:  # noqa: S310 - as above
        data: bytes = answer.read()
        return data


if __name__ == "__main__":
    main(Path(sys.argv[1]))
