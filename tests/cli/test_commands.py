"""What the commands do with files: good ones, bad ones, and none."""

import gzip
import os
import pty
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import gym_failures
from gym_failures import limits
from gym_failures.cli.app import app
from tests.cli.conftest import as_line
from tests.spans import failure, relayed, server, span, told

COMMAND = Path(sys.executable).with_name("gym-failures")
JUNK = "junk"

RECOVERED = server(1, None, told(failure("x")), rollout="r1", trace="1" * 32)
FAILED = server(2, None, told(failure("m", kind="cancelled")), told(failure("a", "m"), at=1), own="a", rollout="r2")
FINE = server(3, None, rollout="r3", trace="3" * 32)
COMMANDS = ("show", "count")


def test_show_prints_a_tree_for_each_rollout_that_failed(command, write):
    """`show` prints what failed, and how many rollouts are only recovered."""
    ended = command("show", write(RECOVERED, FAILED, FINE))
    assert (ended.status, ended.errors) == (0, "")
    assert ended.output.splitlines() == [
        f"✗ rollout r2  cancelled at agent  trace {FAILED.trace_id}",
        "└── cancelled at agent",
        "    └── agent_run_error at agent",
        "",
        "1 rollouts failed, 1 recovered (--all shows them)",
    ]


def test_show_all_prints_what_was_recovered_from_too(command, write):
    """`show --all` has a tree for every rollout with a failure in it, in the order of their times."""
    ended = command("show", "--all", write(FAILED, RECOVERED, FINE))
    assert [line for line in ended.output.splitlines() if line[:1] in {"✓", "✗"}] == [
        f"✓ rollout r1  recovered from 1  trace {RECOVERED.trace_id}",
        f"✗ rollout r2  cancelled at agent  trace {FAILED.trace_id}",
    ]
    assert ended.output.endswith("\n1 rollouts failed, 1 recovered\n")


@pytest.mark.parametrize("unit", ["rollout", "request", "trace"])
def test_show_by(command, write, unit):
    """`show --by` says what a tree is made of."""
    ended = command("show", "--by", unit, write(FAILED))
    assert ended.output.startswith(f"✗ {unit} ")
    assert ended.output.endswith(f"1 {unit}s failed\n")


def test_files_are_read_together(command, write):
    """The spans of one rollout are found in the files of several servers."""
    agent = server(1, None, told(failure("a", "m")), own="a", rollout="r")
    model = server(2, 1, told(failure("m", kind="cancelled")), own="m")
    ended = command("show", write(agent, name="agent.jsonl"), write(model, name="model.jsonl"))
    assert "1 rollouts failed\n" in ended.output
    assert "no span tells" not in ended.output


def test_count_prints_a_table(command, write):
    """`count` has a row for each kind, the most frequent first, and a column for each boundary that saw any."""
    kinds = ("my_new_kind", "cancelled", "cancelled", "server:kind")
    events = [told(failure(str(number), kind=kind), at=number) for number, kind in enumerate(kinds)]
    ended = command("count", write(server(1, None, *events, told(failure("a", "0"), at=9), own="a")))
    assert (ended.status, ended.errors) == (0, "")
    assert [line.split() for line in ended.output.splitlines() if line.strip("─ ")] == [
        ["root"],
        ["kind", "agent", "total", "causes"],
        ["cancelled", "2", "2", "2"],
        ["agent_run_error", "1", "1"],
        ["my_new_kind", "*", "1", "1", "1"],
        ["server:kind", "1", "1", "1"],
        ["total", "5", "5", "4"],
        ["*", "no", "registered", "kind:", "metrics", "count", "it", "as", "_OTHER"],
    ]


def test_count_says_what_the_table_cannot(command, write):
    """Failures known from replies only, and causes that are nowhere, are told beneath the table."""
    spans = server(1, None, relayed(failure("r")), told(failure("a", "gone"), at=1), own="a")
    output = command("count", write(spans)).output
    assert "1 known from replies only: the process that observed them stored no span\n" in output
    assert "1 causes are named but not there: up to as many root causes are none\n" in output


def test_a_failure_counts_once_however_many_tell_of_it(command, write):
    """A failure that three replies carried is one failure, wherever its spans are."""
    hops = [server(n, None, relayed(failure("f")), trace=str(n) * 32) for n in (2, 3, 4)]
    output = command("count", write(server(1, None, told(failure("f")), own="f"), *hops)).output
    assert re.search(r"^total +1 +1 +1$", output, re.MULTILINE)
    assert "known from replies" not in output


def test_count_of_nothing(command, write):
    """Where nothing failed, `count` says so."""
    assert command("count", write(FINE)) == (0, "no failures\n", "")


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize(("spans", "status"), [((FAILED,), 1), ((FINE,), 0)], ids=["failed", "fine"])
def test_exit_code_tells_whether_anything_failed(command, write, name, spans, status):
    """With `--exit-code` a failure is a status of 1, for scripts; without it, none is."""
    path = write(*spans)
    assert command(name, "--exit-code", path).status == status
    assert command(name, path).status == 0


def test_a_recovered_rollout_did_not_fail(command, write):
    """For `show --exit-code` a rollout that recovered is well."""
    assert command("show", "--exit-code", write(RECOVERED)).status == 0


@pytest.mark.parametrize("name", COMMANDS)
def test_standard_input(command, name):
    """A dash reads standard input."""
    ended = command(name, "-", given=as_line(FAILED).encode())
    assert (ended.status, ended.errors) == (0, "")
    assert "agent_run_error" in ended.output


@pytest.mark.parametrize("name", COMMANDS)
def test_an_unreadable_place_is_named_and_costs_nothing_else(command, write, name):
    """A damaged line is skipped, and named with its file on standard error; the rest is read."""
    path = write(FAILED)
    path.write_text(f"{JUNK}\n{path.read_text()}")
    ended = command(name, path)
    assert ended.status == 0
    assert "agent_run_error" in ended.output
    assert ended.errors.startswith(f"skipped: {path}, line 1: ")


def test_many_unreadable_places_are_counted(command, write):
    """Of many damaged lines the first are named, and all are counted."""
    path = write(FAILED)
    path.write_text(path.read_text() + f"{JUNK}\n" * 50)
    errors = command("count", path).errors.splitlines()
    assert len(errors) == limits.SKIPS_SHOWN + 1
    assert errors[-1] == "skipped: 50 places in all"


@pytest.mark.parametrize("name", COMMANDS)
def test_a_file_of_something_else_is_an_error(command, write, name):
    """A file in which nothing can be read ends the command with status 3, and without a result."""
    path = write()
    path.write_text(JUNK)
    ended = command(name, path)
    assert (ended.status, ended.output) == (3, "")
    assert "no span can be read; is this OTLP JSON?" in ended.errors


def test_an_empty_file_is_no_error(command, write):
    """A server that served nothing has written nothing; that is not worth an error."""
    assert command("count", write()) == (0, "no failures\n", "")


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize(
    ("wrong", "said"),
    {
        "no file": ((), "Missing argument"),
        "a file that is not there": (("nowhere.jsonl",), "gym-failures: nowhere.jsonl: No such file or directory"),
        "a folder": (("/",), "gym-failures: /: Is a directory"),
        "an option that is none": (("--nothing", "-"), "No such option"),
    }.values(),
    ids=["no file", "not there", "a folder", "no option"],
)
def test_wrong_use_is_an_error(command, name, wrong, said):
    """A call that cannot be meant ends with status 2, and says on standard error what was wrong."""
    ended = command(name, *wrong)
    assert (ended.status, ended.output) == (2, "")
    assert said in ended.errors


def test_a_file_name_is_no_more_than_text(command, tmp_path):
    """A file's name can hold anything, and is shown without effect on the terminal."""
    path = tmp_path / "\x1b[2J[red].jsonl"
    path.write_text(JUNK)
    errors = command("show", path).errors
    assert "\x1b" not in errors
    assert r"\x1b[2J[red].jsonl" in errors


def test_version(command):
    """`--version` names the command and the version of the package."""
    assert command("--version") == (0, f"gym-failures {gym_failures.__version__}\n", "")


def test_without_a_command_help_is_shown(command):
    """The command alone shows what there is."""
    assert "Commands:" in "".join(command()[1:])


@pytest.mark.parametrize("name", ["demo", *COMMANDS])
def test_help(command, name):
    """Each command has a help with examples, by either option."""
    long, short = command(name, "--help"), command(name, "-h")
    assert long == short
    assert (long.status, long.errors) == (0, "")
    assert f"Examples:\n    gym-failures {name}" in long.output


def examples():
    """Return the examples of the commands that read files."""
    return [
        line.strip()
        for registered in app.registered_commands
        for line in (registered.epilog or "").splitlines()
        if "gym-failures" in line and "gym-failures demo" not in line
    ]


@pytest.mark.parametrize("example", examples())
def test_examples_of_the_help_run(tmp_path, example):
    """Each example of the help does what it shows, in a shell and on files of the names that it has."""
    line = as_line(FAILED) + "\n"
    (tmp_path / "traces").mkdir()
    for name in ("agent.jsonl", "model.jsonl", "traces/1.jsonl", "traces/2.jsonl"):
        (tmp_path / name).write_text(line)
    (tmp_path / "traces.jsonl.gz").write_bytes(gzip.compress(line.encode()))
    path = f"{COMMAND.parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["/bin/sh", "-ec", example],
        cwd=tmp_path, env={**os.environ, "PATH": path}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert "agent_run_error" in done.stdout


def test_a_terminal_gets_colours(write):
    """Colours are for terminals."""
    output = on_terminal("count", write(FAILED))
    assert "\x1b[" in output
    assert "agent_run_error" in output


def test_a_pipe_gets_none(write):
    """What goes into a pipe is text without colours, in lines that are not broken."""
    long = server(1, None, told(failure("a", reason="x" * 150)), own="a")
    done = subprocess.run([COMMAND, "show", write(long)], capture_output=True, text=True, check=True)
    assert "\x1b" not in done.stdout
    assert "x" * 150 in done.stdout


def test_a_terminal_that_wants_no_colours_gets_none(write, monkeypatch):
    """NO_COLOR is heeded."""
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[3" not in on_terminal("count", write(FAILED))


def test_output_in_a_narrow_encoding(write):
    """Where the output's encoding lacks a character, it is written out and the command goes on."""
    done = subprocess.run(
        [COMMAND, "show", write(server(1, None, told(failure("a", reason="深")), own="a"))],
        env={**os.environ, "PYTHONIOENCODING": "ascii"}, capture_output=True, check=True,
    )  # fmt: skip
    assert rb"\u6df1" in done.stdout


def on_terminal(*arguments):
    """Run the command on a terminal and return what it shows there."""
    inner, outer = pty.openpty()
    with subprocess.Popen([COMMAND, *map(str, arguments)], stdout=outer, stderr=outer, stdin=outer) as process:
        os.close(outer)
        shown = b""
        try:
            while chunk := os.read(inner, 65_536):
                shown += chunk
        except OSError:  # Linux says so when the other end is closed
            pass
        assert process.wait() == 0
    os.close(inner)
    return shown.decode()


WITHOUT = """
import sys

class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == {module!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Refuse())
sys.argv = ["gym-failures", *{arguments!r}]
from gym_failures.cli import main
main()
"""


@pytest.mark.parametrize(
    ("module", "arguments", "extra"),
    [
        ("typer", "--help", "cli"),
        ("rich", "--help", "cli"),
        ("msgspec", "count -", "reading"),
        ("aiohttp", "demo", "demo"),
        ("fastapi", "demo", "demo"),
        ("uvicorn", "demo", "demo"),
    ],
)
def test_a_missing_extra_is_named(module, arguments, extra):
    """Where something is not installed, the command says in one line which extra brings it, and ends with status 2."""
    code = WITHOUT.format(module=module, arguments=shlex.split(arguments))
    done = subprocess.run([sys.executable, "-c", code], input="{}", capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        f"gym-failures: {module} is not installed; it comes with the extra {extra}:"
        f" pip install 'gym-failures[{extra}]'\n"
    )


def test_a_fault_of_ours_is_no_missing_extra():
    """A module of this package that cannot be found is a fault, and no extra is blamed for it."""
    code = "import sys; sys.modules['gym_failures.cli.app'] = None; from gym_failures.cli import main; main()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "ModuleNotFoundError" in done.stderr


def test_a_span_alone_is_nothing(command, write):
    """A file of spans without failures shows none."""
    assert command("show", write(span(1))) == (0, "0 rollouts failed\n", "")
