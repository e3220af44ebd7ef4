"""The command on what a Jaeger answers by gRPC."""

import json
import subprocess
import sys
import time
from pathlib import Path

from tests.grpc.peer import served, trace

COMMAND = Path(sys.executable).with_name("gym-failures")
MINUTE = 60 * 10**9


def run(*arguments):
    """Run the command to its end."""
    return subprocess.run([COMMAND, *map(str, arguments)], capture_output=True, text=True, check=False)


def traces():
    """Return two traces that failed within the last hour, and one that failed before yesterday."""
    now = time.time_ns()
    return (
        trace(1, event_id="f1", start=now - MINUTE),
        trace(2, event_id="f2", start=now - 2 * MINUTE, service="model", kind="shutdown"),
        trace(3, event_id="f3", start=now - 3_000 * MINUTE),
    )


def test_show_of_a_jaeger():
    """`show --jaeger grpc://...` prints the trees of what failed within a day, and nothing beside."""
    with served(*traces()) as store:
        done = run("show", "--jaeger", store.url)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.endswith("\n2 rollouts failed, 1 of them cancelled\n")


def test_what_is_chosen_is_asked_for():
    """What is chosen is asked for as it is by HTTP: the service, the time, and the one attribute that leaves least."""
    with served(*traces()) as store:
        options = ("--service", "agent", "--kind", "cancelled", "--since", "60h")
        done = run("count", "--format", "json", "--jaeger", store.url, *options)
    assert json.loads(done.stdout)["failures"] == 2
    (query,) = store.asked
    assert (query.service_name, dict(query.attributes)) == ("agent", {"failure.kind": "cancelled"})


def test_a_page_of_a_jaeger_has_no_links(tmp_path):
    """What was asked by gRPC is no address of pages, so a report links nowhere unless it is said where they are."""
    page = tmp_path / "page.html"
    with served(*traces()) as store:
        for links, written in (((), "null"), (("--links", "http://h:1"), '"http://h:1"')):
            done = run("report", "--jaeger", store.url, "-o", page, *links)
            assert (done.returncode, done.stderr) == (0, f"wrote {page}: 2 failed, 0 recovered\n")
            assert f'"jaeger":{written}' in page.read_text("utf-8")


def test_no_jaeger_is_an_error_of_one_line():
    """Where no Jaeger answers, one line says so, also where gRPC's library has more to say; the status is 3."""
    with served() as store:
        done = run("show", "--jaeger", store.url.replace("grpc", "grpcs"))
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.startswith("gym-failures: grpcs://127.0.0.1:")
    assert len(done.stderr.splitlines()) == 1
