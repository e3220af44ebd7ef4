"""`show --follow` on files that are being written."""

import json
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest

from gym_failures import limits
from tests.spans import failure, server, span, told
from tests.stored import as_line

COMMAND = Path(sys.executable).with_name("gym-failures")


def line(number):
    """Return the line of one failed rollout."""
    record = server(
        1, None, told(failure(f"f{number}")), own=f"f{number}", rollout=f"r{number}", trace=f"{number:032x}"
    )
    return as_line(record) + "\n"


@contextmanager
def following(*arguments):
    """Run the command within the block, and interrupt it; `left` is what it printed then, `complained` what it said."""
    process = subprocess.Popen(
        [COMMAND, "show", "--follow", *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        yield process
    finally:
        process.send_signal(signal.SIGINT)
        process.left, process.complained = process.communicate()


def _read_until(process, said):
    while said not in process.stdout.readline():
        assert process.poll() is None


def append(path, text):
    """Write on."""
    with path.open("a") as file:
        file.write(text)


def test_what_fails_is_shown_as_it_appears(tmp_path):
    """Rollouts are shown when their spans come, of files that come later too, and Ctrl-C is no error."""
    first, second = tmp_path / "1.jsonl", tmp_path / "2.jsonl"
    append(first, line(1))
    with following("--format", "jsonl", "--quiet", "0", tmp_path) as process:
        assert json.loads(process.stdout.readline())["key"] == "r1"
        append(first, line(2))
        assert json.loads(process.stdout.readline())["key"] == "r2"
        append(second, line(3)[:100])
        append(second, line(3)[100:] + "junk\n" + line(4))
        assert [json.loads(process.stdout.readline())["key"] for _ in range(2)] == ["r3", "r4"]
        assert process.stderr.readline().startswith(f"skipped: {second}, line 2: ")
    assert process.returncode == 0


def test_what_is_left_is_shown_in_the_end(tmp_path):
    """Ctrl-C shows what was not quiet yet, as a tree."""
    path = tmp_path / "1.jsonl"
    append(path, line(1) + "junk\n")
    with following("--quiet", "3600", path) as process:
        process.stderr.readline()  # the file was read
    assert "✗ rollout r1  agent_run_error at agent" in process.left
    assert process.left.endswith("\n1 rollout failed\n")
    assert process.returncode == 0


def test_the_end_counts_each_rollout_once(tmp_path):
    """After Ctrl-C the last line says how many failed: a rollout that was shown again, as it changed, is one."""
    path = tmp_path / "1.jsonl"
    append(path, line(1) + line(2))
    with following("--quiet", "0", "--exit-code", path) as process:
        _read_until(process, "rollout r2")
        append(path, as_line(server(9, 1, told(failure("late")), rollout="r1", trace=f"{1:032x}")) + "\n")
        _read_until(process, "rollout r1")
    assert process.left.splitlines()[-1] == "2 rollouts failed"
    assert process.returncode == 1


def test_the_end_counts_what_got_its_rollout_late_once(tmp_path):
    """A trace that was shown before a span with the id of its rollout came is that rollout, and no second failure."""
    path = tmp_path / "1.jsonl"
    append(path, as_line(server(2, 1, told(failure("f")), own="f")) + "\n")
    with following("--quiet", "0", path) as process:
        _read_until(process, "✗ trace")
        append(path, as_line(span(1, None, rollout="r1")) + "\n")
        _read_until(process, "✗ rollout r1")
    assert process.left.splitlines()[-1] == "1 rollout failed"


def test_the_end_counts_rollouts_of_several_runs(tmp_path):
    """Rollouts of one id in two traces, which two runs have, are two, as they are where nobody follows."""
    path = tmp_path / "1.jsonl"
    append(path, line(1) + line(2).replace("r2", "r1"))
    with following("--quiet", "0", path) as process:
        _read_until(process, f"{2:032x}")
    assert process.left.splitlines()[-1] == "2 rollouts failed"


def test_a_folder_that_is_empty_is_waited_for(tmp_path):
    """Where nothing is yet, the command says so once and waits."""
    with following("--quiet", "0", tmp_path) as process:
        assert process.stderr.readline().rstrip().endswith("; waiting")
        append(tmp_path / "1.jsonl", line(1))
        assert "rollout r1" in process.stdout.readline()


def test_a_file_with_a_new_name_is_not_read_again(tmp_path):
    """A file that is renamed in its folder is read on from where it was, and what takes its name from its start."""
    path = tmp_path / "traces.jsonl"
    append(path, line(1) + "junk\n")
    with following("--format", "jsonl", "--quiet", "0", tmp_path) as process:
        assert json.loads(process.stdout.readline())["key"] == "r1"
        path.rename(tmp_path / "traces-2026.jsonl")
        append(tmp_path / "traces-2026.jsonl", line(2))
        assert json.loads(process.stdout.readline())["key"] == "r2"
        append(path, line(3))
        assert json.loads(process.stdout.readline())["key"] == "r3"
    assert process.complained.count("skipped: ") == 1


def test_a_packed_file_that_appears_is_passed_over(tmp_path):
    """A file in the folder that rotation packs is named once, as skipped, and the others are followed."""
    path, packed = tmp_path / "b.jsonl", tmp_path / "a.jsonl.gz"
    append(path, line(1))
    with following("--format", "jsonl", "--quiet", "0", tmp_path) as process:
        assert json.loads(process.stdout.readline())["key"] == "r1"
        packed.write_bytes(b"\x1f\x8b\x08")
        assert process.stderr.readline() == f"skipped: {packed}: only lines of OTLP JSON can be followed\n"
        append(path, "junk\n")
        assert process.stderr.readline().startswith(f"skipped: {path}, line 2: ")
        append(path, line(3))
        assert json.loads(process.stdout.readline())["key"] == "r3"
    assert process.returncode == 0


def test_one_trace_that_is_too_large(tmp_path):
    """Of a trace that alone has more spans than are held, what failed is shown, and what was forgotten is said."""
    path = tmp_path / "1.jsonl"
    quiet = as_line(span(0xF00000, None, trace=f"{1:032x}")) + "\n"
    append(path, line(1))
    append(path, "".join(quiet.replace("f00000", f"{number:06x}") for number in range(2, limits.FOLLOWED_SPANS + 2)))
    with following("--quiet", "3600", path) as process:
        assert "rollout r1" in process.stdout.readline()
    assert process.complained.startswith(f"gym-failures: trace {1:032x} has more than 50,000 spans; it is shown, ")
    assert process.returncode == 0


def test_strict_holds_for_what_is_followed(tmp_path):
    """With --strict the command ends with status 4 where a line could not be read."""
    path = tmp_path / "1.jsonl"
    append(path, "junk\n" + line(1))
    with following("--strict", "--quiet", "0", path) as process:
        _read_until(process, "rollout r1")
    assert process.returncode == 4


@pytest.mark.parametrize(
    "arguments",
    [("-",), ("--jaeger", "http://localhost:16686"), ("--format", "json", "."), ("--workers", "2", ".")],
    ids=str,
)
def test_what_cannot_be_followed(command, arguments):
    """Standard input, a Jaeger, one document of all that is to come, and several workers make no sense."""
    ended = command("show", "--follow", *arguments)
    assert (ended.status, ended.output) == (2, "")
    assert "follows files and folders" in ended.errors


def test_without_a_name_the_folder_of_run_is_followed(tmp_path, monkeypatch):
    """The folder into which `run` has traces written is followed where no file is named."""
    append(tmp_path / "1.jsonl", line(1))
    monkeypatch.setenv("GYM_FAILURES_TRACES", str(tmp_path))
    with following("--quiet", "0") as process:
        _read_until(process, "rollout r1")
    assert process.returncode == 0


def test_a_packed_file_cannot_be_followed(command, tmp_path):
    """A file that is not lines of JSON is an error, and not waited for."""
    path = tmp_path / "traces.gz"
    path.write_bytes(b"\x1f\x8b\x08")
    ended = command("show", "--follow", path)
    assert (ended.status, ended.output) == (2, "")
    assert ended.errors == f"gym-failures: {path}: only lines of OTLP JSON can be followed\n"
