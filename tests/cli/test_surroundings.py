"""What the command says of itself, and how it gets on with terminals, pipes, and what is not installed."""

import os
import pty
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import gym_failures
from gym_failures.cli.app import app
from tests.spans import failure, server, told

COMMAND = Path(sys.executable).with_name("gym-failures")
FAILED = server(2, None, told(failure("m", kind="cancelled")), told(failure("a", "m"), at=1), own="a", rollout="r2")


def test_version(command):
    """`--version` names the command and the version of the package."""
    assert command("--version") == (0, f"gym-failures {gym_failures.__version__}\n", "")


def test_without_a_command_help_is_shown(command):
    """The command alone shows what there is."""
    assert "Commands:" in "".join(command()[1:])


@pytest.mark.parametrize("name", [registered.name for registered in app().registered_commands])
def test_help(command, name):
    """Each command has a help with examples, by either option."""
    long, short = command(name, "--help"), command(name, "-h")
    assert long == short
    assert (long.status, long.errors) == (0, "")
    assert f"Examples:\n    gym-failures {name}" in long.output


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


def test_what_a_shell_gives_instead_of_a_file(write):
    """A `<(...)` of a shell can be read once and not be looked into, and gives what the file gives."""
    done = subprocess.run(
        ["/bin/bash", "-c", f"{COMMAND} count --format csv <(cat {write(FAILED)})"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines()[1:] == ["agent_run_error,agent,1,0", "cancelled,agent,1,1"]


@pytest.mark.parametrize("arguments", ["show --jaeger", "count --jaeger", "export --to"])
@pytest.mark.parametrize("url", ["http://[", "ftp://host", "host:4318", "http://", "http:localhost", "http://:80"])
def test_what_is_no_url_is_said(command, write, arguments, url):
    """What is no URL that can be asked or sent to is wrong use, and an error of one line."""
    ended = command(*shlex.split(arguments), url, write(FAILED))
    assert (ended.status, ended.output) == (2, "")
    assert "is no URL" in ended.errors
    assert len(ended.errors.splitlines()) == 1


def test_a_reader_that_stops_ends_the_command(write):
    """Where nobody reads on, as behind `head`, the command ends without a word and with the status of SIGPIPE."""
    spans = [server(n, None, told(failure(f"a{n}")), own=f"a{n}", trace=f"{n:032x}") for n in range(1, 2_000)]
    for arguments in (("show",), ("show", "--format", "jsonl"), ("count", "--by", "kind")):
        reader, writer = os.pipe()
        os.close(reader)  # before the command begins, so that it writes nothing before
        with os.fdopen(writer, "wb") as output:
            done = subprocess.run(
                [COMMAND, *arguments, write(*spans)], stdout=output, stderr=subprocess.PIPE, check=False
            )
        assert (done.returncode, done.stderr) == (141, b"")


@pytest.mark.parametrize("arguments", ["show", "show --format json", "count", "count --format csv", "--version"])
def test_a_full_disk_is_said(write, arguments):
    """Where the output cannot be written, one line says so, and the status is 5."""
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [COMMAND, *shlex.split(arguments), write(FAILED)],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert (done.returncode, done.stderr) == (5, "gym-failures: the output: No space left on device\n")


def test_a_full_disk_is_said_of_rows(write, tmp_path):
    """So it is where rows are written while others are still read: no folder of temporary files is blamed."""
    rows = tmp_path / "rollouts.jsonl"
    rows.write_text('{"_ng_task_index": 3, "_ng_rollout_index": 1}\n')
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [COMMAND, "rows", rows, write(FAILED)], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert (done.returncode, done.stderr) == (5, "gym-failures: the output: No space left on device\n")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shells_can_complete(shell):
    """The command prints the completion of each usual shell."""
    done = subprocess.run(
        [COMMAND], env={**os.environ, "_GYM_FAILURES_COMPLETE": f"source_{shell}"},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert "gym-failures" in done.stdout


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
        ("grpc", "show --jaeger grpc://localhost:1", "grpc"),
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


DATA = Path(__file__).parents[1] / "data"


@pytest.mark.parametrize(
    ("blocked", "module", "file", "extra"),
    [
        ("google", "opentelemetry.proto", "collector.pb", "proto"),
        ("backports", "backports.zstd", "collector.json.zst", "zstd"),
    ],
)
def test_a_format_s_missing_extra_is_named(blocked, module, file, extra):
    """Where a file's format needs more than the command itself, the extra that is named is the format's."""
    code = "import sys; sys.modules['compression'] = None" + WITHOUT.format(
        module=blocked, arguments=["show", str(DATA / file)]
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
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
