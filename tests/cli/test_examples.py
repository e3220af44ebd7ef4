"""The examples of every command's help, and the lines of the command on every page, typed into a shell."""

import re
from pathlib import Path

import pytest

from gym_failures.cli.app import app
from tests.typed import world

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "collector-config" / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
HELP = [
    line.strip()
    for registered in app().registered_commands
    for line in (registered.epilog or "").splitlines()
    if "gym-failures" in line
]
SHOWN = [
    line.strip()
    for page in PAGES
    for line in re.findall(r"^ {4,}((?:\w+=\S+ )*gym-failures .*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
]
LINES = [line for line in dict.fromkeys([*HELP, *SHOWN]) if not line.startswith("gym-failures demo")]
"""The demo's own tests type that."""

PRINTS = {
    "gym-failures run -- gym": " eval run | env start ",
    "gym-failures run -- python": "my app",
    "gym-failures doctor": "problem",
}
"""What a line prints, by what is in it; any other prints the failure that it finds."""
SAYS = re.compile(r"((gym-failures: reading .*|wrote .*: 1 failed, 0 recovered|rows with failures: 1; .*: 0)\n)*")
"""What a line that goes well may say on standard error."""


@pytest.fixture
def typing(tmp_path):
    """Give a world to type in."""
    with world(tmp_path) as typing:
        yield typing


@pytest.mark.parametrize("line", [line for line in LINES if "--follow" not in line])
def test_a_line_does_what_it_shows(typing, line):
    """Each line ends well, complains of nothing, and prints or writes a failure; ports are those of this machine."""
    done = typing.type(line)
    assert done.returncode == 0
    assert SAYS.fullmatch(done.stderr)
    wanted = next((prints for part, prints in PRINTS.items() if part in line), "agent_run_error|provider_unavailable")
    assert re.search(wanted, done.stdout)


@pytest.mark.parametrize("line", [line for line in LINES if "--follow" in line])
def test_a_line_that_goes_on_shows_what_is_there(typing, line):
    """A line that follows shows the failure that is there, and Ctrl-C ends it well."""
    assert typing.follow(line, "agent_run_error") == 0


def test_every_command_has_a_line():
    """No command is without an example, and the pages have lines that their commands' help has not."""
    names = {registered.name for registered in app().registered_commands}
    assert {name for name in names if any(f"gym-failures {name}" in line for line in HELP)} == names
    assert len({*SHOWN} - {*HELP}) > 5
