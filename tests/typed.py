"""Lines as people type them into a shell, in a folder that holds all that they name, with servers of this machine."""

import gzip
import json
import os
import signal
import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path

from gym_failures import semconv
from gym_failures.attributes import to_attributes
from gym_failures.cli.app import EXAMPLE
from gym_failures.kinds import FailureBoundary
from gym_failures.records import FailureReport
from gym_failures.rows import with_failures
from tests import jaeger
from tests.answering import answering
from tests.grpc import peer
from tests.spans import failure, server, told
from tests.stored import as_line

BIN = Path(sys.executable).parent
REFUSED = failure("m", kind="provider_unavailable", boundary=FailureBoundary.MODEL)
FAILED = failure("a", "m")
REPLY = f"HTTP/1.1 500 No\nGym-Failure-Report: {EXAMPLE}\n\n{{}}\n"
STAND_INS = {
    "gym": 'echo "$0" "$@" "$GYM_FAILURES_TRACES"',  # NeMo Gym's own is for the tests in tests/gym
    "curl": f"cat <<'END'\n{REPLY}END",
}
"""What these programs do here, as scripts."""


class World:
    """A folder in which one types, and what is there."""

    def __init__(self, folder, urls):
        """Type in `folder`, and go to the servers of `urls` instead of those that they stand for."""
        self.folder = folder
        self.urls = urls
        path = f"{folder / 'bin'}{os.pathsep}{BIN}{os.pathsep}{os.environ['PATH']}"
        self.environment = {name: value for name, value in os.environ.items() if not name.startswith(("OTEL_", "GYM_"))}
        self.environment |= {"PATH": path, "OTEL_EXPORTER_OTLP_ENDPOINT": urls["http://localhost:4318"]}

    def _here(self, line):
        for url, real in self.urls.items():
            line = line.replace(url, real)
        return ["/bin/sh", "-ec", line]

    def type(self, line):
        """Run a line to its end and return how that was; what it wrote to new files is behind its output."""
        before = {*self.folder.rglob("*")}
        done = subprocess.run(
            self._here(line), cwd=self.folder, env=self.environment, capture_output=True, text=True, check=False
        )
        for path in sorted({*self.folder.rglob("*")} - before):
            if path.is_file():
                done.stdout += path.read_text(encoding="utf-8")
        return done

    def follow(self, line, said):
        """Run a line that does not end until it has said that, and interrupt it as Ctrl-C does; return its status."""
        process = subprocess.Popen(
            self._here(f"exec {line}"), cwd=self.folder, env=self.environment, stdout=subprocess.PIPE, text=True
        )
        with process:
            try:
                while said not in process.stdout.readline():
                    assert process.poll() is None
                process.send_signal(signal.SIGINT)
                process.communicate(timeout=60)
            finally:
                process.kill()
        return process.returncode


@contextmanager
def world(folder):
    """Give a world in which one rollout has failed, in traces, rows and logs, in two Jaegers, and in a reply."""
    now = time.time_ns()
    span = server(2, None, told(REFUSED, at=now), told(FAILED, at=now), own="a", rollout="r07", service="agent")
    line = as_line(span) + "\n"
    for name in ("agent.jsonl", "model.jsonl", "traces/1.jsonl", "traces/spans/1.jsonl", "after/1.jsonl"):
        _written(folder / name, line)
    _written(folder / "gym-failures-traces" / "1.jsonl", line)
    _written(folder / "before" / "fine.jsonl", "")
    row = with_failures({"_ng_rollout_id": "r07"}, FailureReport(events={"m": REFUSED, "a": FAILED}, failure_id="a"))
    _written(folder / "rollouts.jsonl", json.dumps(row) + "\n")
    _written(folder / "model.log", json.dumps({"event": semconv.EVENT_NAME, **to_attributes(REFUSED)}) + "\n")
    _written(folder / "reply.txt", REPLY)
    _written(folder / "app.py", "print('my app')\n")
    for name in ("traces.jsonl.gz", "traces/1.jsonl.gz"):
        (folder / name).write_bytes(gzip.compress(line.encode()))
    for name, does in STAND_INS.items():
        _written(folder / "bin" / name, f"#!/bin/sh\n{does}\n").chmod(0o700)
    with ExitStack() as stack:
        http = stack.enter_context(jaeger.served(jaeger.trace(7, kind="agent_run_error", start=now // 1_000)))
        grpc = stack.enter_context(peer.served(peer.trace(7, kind="provider_unavailable", start=now)))
        taker = stack.enter_context(_taking(folder / "received"))
        yield World(
            folder,
            {"http://localhost:16686": http.url, "grpc://localhost:16685": grpc.url, "http://localhost:4318": taker},
        )


def _written(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


@contextmanager
def _taking(path):
    """Run a receiver that writes to `path` what it takes, and give its URL."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            path.write_bytes(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

    with answering(Handler) as url:
        yield url
