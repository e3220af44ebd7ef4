"""The command that runs the demo: how it ends, and that nothing of it stays behind."""

import os
import signal
import subprocess
import time

import psutil
import pytest

from gym_failures.cli.app import app
from gym_failures.demo import DemoError
from gym_failures.demo.check import Agreement
from gym_failures.demo.run import Run
from tests.demo.conftest import COMMAND, call

pytestmark = pytest.mark.timeout(300)  # six servers start on a machine that may be busy


def test_show_repeats_the_trees(demo):
    """`show --all` on the files of the demo prints the trees that the demo printed."""
    shown = call("show", "--all", *demo.spans)
    assert (shown.returncode, shown.stderr) == (0, "")
    assert shown.stdout in demo.output


def test_count_repeats_the_table(demo):
    """`count` on the files of the demo prints the table that the demo printed."""
    counted = call("count", *demo.spans)
    assert (counted.returncode, counted.stderr) == (0, "")
    assert counted.stdout in demo.output


def test_the_last_line_can_be_typed(demo):
    """What the demo says to type in the end is the program as it was called, and shows the trees again."""
    _, _, line = demo.output.rstrip("\n").rpartition("\nlook again: ")
    again = subprocess.run(["/bin/sh", "-c", line], capture_output=True, text=True, check=True, env={"PATH": "/bin"})
    assert "rollouts failed" in again.stdout


def test_a_folder_with_something_in_it_is_refused(tmp_path):
    """Files of another run would be taken for those of this one, so the folder has to be empty."""
    (tmp_path / "spans").mkdir()
    refused = call("demo", "--folder", tmp_path)
    assert refused.returncode == 2
    assert "is not empty" in refused.stderr


@pytest.mark.parametrize("url", ["localhost:4318", "http://127.0.0.1:1"])
def test_an_endpoint_that_cannot_be_used_is_refused(tmp_path, url):
    """Before anything is run, the command asks whether there is anybody to send to."""
    refused = call("demo", "--folder", tmp_path / "run", "--otlp", url)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "Invalid value for --otlp" in refused.stderr
    assert not (tmp_path / "run").exists()


def ran(*unsent):
    """Return what stands for a run: servers whose files are empty, some of which had more to send."""

    def run(folder, **_):
        (folder / "spans").mkdir()
        (folder / "spans" / "agent.jsonl").touch()
        return Run([], 1.0, list(unsent))

    return run


def test_a_difference_ends_the_demo_with_status_1(tmp_path, monkeypatch, capsys):
    """Where a reply and its trace differ, the demo says where, and scripts hear of it."""
    monkeypatch.setattr("gym_failures.demo.run.run", ran())
    monkeypatch.setattr(
        "gym_failures.demo.check.compare", lambda *_: Agreement(2, 1, {"abc": ["e1 is in the reply only"]})
    )
    with pytest.raises(SystemExit) as end:
        app()(["demo", "--folder", str(tmp_path)])
    output = capsys.readouterr().out
    assert end.value.code == 1
    assert "2 replies, 1 of them with a report, were compared with their traces: 1 say the same\n" in output
    assert "  the reply to span abc: e1 is in the reply only\n" in output


def test_what_could_not_be_sent_ends_the_demo_with_status_1(tmp_path, monkeypatch, capsys):
    """Where an endpoint did not take everything, the demo names the processes that had more to send."""
    monkeypatch.setattr("gym_failures.demo.run.run", ran("agent", "model"))
    monkeypatch.setattr("gym_failures.demo.check.compare", lambda *_: Agreement(1, 1, {}))
    with pytest.raises(SystemExit) as end:
        app()(["demo", "--folder", str(tmp_path)])
    assert end.value.code == 1
    assert "not all was taken there of: agent, model; see the logs\n" in capsys.readouterr().out


def test_a_process_that_ends_too_soon_ends_the_demo_with_status_1(tmp_path, monkeypatch, capsys):
    """When a process of the demo fails, the command says what that one said last."""

    def fail(*_, **__):
        raise DemoError("the process agent ended; the end of its log:\nOSError: no space")

    monkeypatch.setattr("gym_failures.demo.run.run", fail)
    with pytest.raises(SystemExit) as end:
        app()(["demo", "--folder", str(tmp_path)])
    assert end.value.code == 1
    assert capsys.readouterr().err.endswith("gym-failures: OSError: no space\n")


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGKILL], ids=["interrupted", "killed"])
def test_no_process_outlives_the_command(tmp_path, sent):
    """However the command ends, its servers end too."""
    command = subprocess.Popen(
        [COMMAND, "demo", "--folder", tmp_path / "run"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    try:
        children = _wait_for(7, of=psutil.Process(command.pid))
        os.kill(command.pid, sent)
        _, alive = psutil.wait_procs(children, timeout=60)
        assert alive == []
    finally:
        command.kill()
        command.communicate()


def _wait_for(number, *, of):
    """Return the child processes when there are that many."""
    while of.is_running() and of.status() != psutil.STATUS_ZOMBIE:
        children = of.children()
        if len(children) >= number:
            return children
        time.sleep(0.05)
    pytest.fail("the command ended before its servers had started")
