"""The reference page of the command says what the command does."""

import re
import shlex
from pathlib import Path

import pytest

from gym_failures.cli import exits
from gym_failures.cli.app import app
from gym_failures.reading import rebuild
from tests.cli.test_trees import TREES, drawn
from tests.spans import server

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "command.md").read_text(encoding="utf-8")


def rows(heading):
    """Return the rows of the table whose first column has that heading, as lists of cells."""
    table = PAGE.split(f"| {heading} |", 1)[1].split("\n\n", 1)[0]
    return [[cell.strip() for cell in line.strip("| ").split(" | ")] for line in table.splitlines()[2:]]


def test_statuses():
    """The page lists 0 and every status that the command has a name for."""
    named = [value for name, value in vars(exits).items() if name.isupper()]
    assert [int(status) for status, _ in rows("status")] == [0, *sorted(named)]


CALLS = [(call, status) for calls, status in rows("call") for call in re.findall(r"`((?:show|decode)[^`]*)`", calls)]


@pytest.fixture
def _in_a_clone(write, tmp_path, monkeypatch):
    """Have traces, a folder without, and a file of something else in the current folder."""
    for folder in ("traces", "docs"):
        (tmp_path / folder).mkdir()
    write(server(1), name="traces/1.jsonl")
    (tmp_path / "README.md").write_text("# Words")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GYM_FAILURES_TRACES", raising=False)


@pytest.mark.usefixtures("_in_a_clone")
@pytest.mark.parametrize(("call", "status"), CALLS, ids=[call for call, _ in CALLS])
def test_statuses_of_calls(command, call, status):
    """Each call that the page gives a status for ends with that status."""
    plainly, _, strictly = status.partition(", with `--strict` ")
    assert command(*shlex.split(call)).status == int(plainly)
    if strictly:
        assert command(*shlex.split(call), "--strict").status == int(strictly)


@pytest.mark.parametrize("row", rows("command"), ids=lambda row: row[0])
def test_options(command, row):
    """The page lists every option of each command, and none besides."""
    usage, _, options = row
    name = usage.strip("`").split()[0]
    output = command(name, "--help").output.split("Options:")[1].split("Examples:")[0]
    assert re.findall(r"^  (--[\w-]+)", output, re.MULTILINE) == re.findall(r"`(--[\w-]+)`", options)


@pytest.mark.parametrize("usage", [row[0].strip("`") for row in rows("command")])
def test_usage(command, usage):
    """The help of each command names its arguments as the page does, and by no type of Python's."""
    name, *arguments = usage.replace(" --", "").split()
    said = command(name, "--help").output
    assert said.startswith(" ".join(["Usage: gym-failures", name, "[OPTIONS]", *arguments]) + "\n")
    for argument in arguments:
        assert f"\n  {argument.strip('[]')} " in said
    assert "list[" not in said
    assert "<path>" not in said


def test_commands():
    """The page lists every command."""
    assert {row[0].strip("`").split()[0] for row in rows("command")} == {
        registered.name for registered in app().registered_commands
    }


def test_notes():
    """Every note that a tree can have is explained, and no other: the cases of the trees have them all but one."""
    shown = "\n".join(line for spans, _ in TREES.values() for report in rebuild(spans) for line in drawn(report))
    explained = {note for note, _ in rows("note")}
    found = {note for notes in re.findall(r"\(([a-z0-9 ,]+)\)$", shown, re.MULTILINE) for note in notes.split(", ")}
    assert {note for note in found if not note.startswith("attempt")} | {"shortened"} == explained
