"""What the README says to type, typed; what it shows, compared with what there is."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from gym_failures.cli.app import app
from tests.demo.conftest import COMMAND

pytestmark = pytest.mark.timeout(300)  # the demo may have to be run first

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```", README, re.DOTALL | re.MULTILINE)
PROSE = re.sub(r"^```.*?^```", "", README, flags=re.DOTALL | re.MULTILINE)
TYPED = re.findall(r"^ {4}(\S.*)$", PROSE, re.MULTILINE)


# What serves the README's app, asks it with the README's client, and prints what the client raises.
DRIVER = """
import asyncio, socket, threading
import uvicorn
from gym_failures import FailureReport
from gym_failures.errors import FailureError
from gym_failures.propagation import get_report

listening = socket.create_server(("127.0.0.1", 0))
server = uvicorn.Server(uvicorn.Config(app, log_level="critical"))
thread = threading.Thread(target=server.run, args=([listening],))
thread.start()
try:
    asyncio.run(ask(f"http://127.0.0.1:{listening.getsockname()[1]}/v1/responses"))
except FailureError as error:
    print(error)
finally:
    server.should_exit = True
    thread.join()
"""


def blocks(language):
    """Return the README's blocks of one language."""
    return [text for of, text in BLOCKS if of == language]


def test_every_block_is_of_a_language_that_is_tested():
    """No example stands in the README untested: each block is of a language that a test below runs."""
    assert {language for language, _ in BLOCKS} == {"python", "sh", "promql"}


def test_blocks_are_short():
    """Each job takes fewer than 15 lines."""
    assert max(text.count("\n") for _, text in BLOCKS) < 15


def test_a_server_and_its_caller(tmp_path):
    """The README's server answers with a report, and the README's client raises what it says."""
    server, client, _ = blocks("python")
    script = tmp_path / "script.py"
    script.write_text(server + client + DRIVER)
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert done.stdout == "transport_unreachable at model: the provider is down\n"


def test_reports_in_a_program(demo, tmp_path):
    """The README's loop over reports prints each rollout with its failure."""
    (tmp_path / "traces").symlink_to(demo.folder)
    script = tmp_path / "script.py"
    script.write_text(blocks("python")[2])
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True, cwd=tmp_path)
    printed = [line.split() for line in done.stdout.splitlines()]
    assert len(printed) == 31
    assert {tuple(line[1:]) for line in printed} >= {("provider_unavailable", "3"), ("recovered", "1")}


@pytest.mark.parametrize("line", [line for text in blocks("sh") for line in text.splitlines()])
def test_lines_of_shell(demo, tmp_path, line):
    """Each line of shell ends well and prints failures; the run of the demo is the one that all tests here share."""
    if line == "gym-failures demo --folder traces":
        assert demo.status == 0
        return
    (tmp_path / "traces").symlink_to(demo.folder)
    path = f"{COMMAND.parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["/bin/sh", "-ec", line],
        cwd=tmp_path, env={**os.environ, "PATH": path}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert "provider_unavailable" in done.stdout


def test_queries_are_those_that_are_run_against_prometheus():
    """The README's queries stand in the how-to page, all of whose queries are run against the real Prometheus."""
    page = (ROOT / "docs" / "how-to" / "query-metrics-by-failure-kind.md").read_text(encoding="utf-8")
    for query in "".join(blocks("promql")).splitlines():
        assert f"```promql\n{query}\n```" in page


@pytest.mark.parametrize("line", TYPED)
def test_lines_to_type(line):
    """What else the README says to type exists: a target of the Makefile, a command, or an extra of the package."""
    if target := re.fullmatch(r"make ([\w-]+)", line):
        assert re.search(rf"^{target[1]}:.*## ", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    elif command := re.match(r"gym-failures (\w+)\b", line):
        assert command[1] in {registered.name for registered in app().registered_commands}
    elif line != "python -m pip install -U pip":
        (extra,) = re.fullmatch(r"python -m pip install '\.\[(\w+)\]'", line).groups()
        assert extra in tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]


def test_pip_is_renewed_before_it_installs():
    """An old pip finds no versions that fit together, so a line that renews it stands before each that installs."""
    installs = [number for number, line in enumerate(TYPED) if line.startswith("python -m pip install '")]
    assert installs
    assert {TYPED[number - 1] for number in installs} == {"python -m pip install -U pip"}


@pytest.mark.parametrize("target", sorted(set(re.findall(r"\]\(([^)#]+)", README))))
def test_links_lead_somewhere(target):
    """Each file that the README points to is there."""
    assert target.startswith("https://") or (ROOT / target).exists()


def test_the_picture_shows_what_the_demo_shows(demo):
    """The README's picture is of the demo as it is: it has the same table, and a tree."""
    picture = ET.parse(ROOT / "docs" / "images" / "demo.svg")  # noqa: S314 - our own file
    rows = {}
    for text in picture.iter("{http://www.w3.org/2000/svg}text"):
        rows.setdefault(text.get("y"), []).append("".join(text.itertext()))
    shown = {tuple(" ".join(parts).split()) for parts in rows.values()}
    table = demo.output[demo.output.index("kind  ") : demo.output.index("* no registered kind")]
    for line in table.splitlines():
        assert tuple(line.split()) in shown
    assert ("└──", "agent_request_failed", "at", "collection") in shown


def test_the_picture_loads_nothing():
    """The README's picture asks nobody for fonts or images."""
    picture = (ROOT / "docs" / "images" / "demo.svg").read_text(encoding="utf-8")
    assert "url(http" not in picture
    assert "@font-face" not in picture
