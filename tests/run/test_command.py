"""What `gym-failures run` leaves as it is, and what it refuses."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from gym_failures import startup
from gym_failures.cli import exits
from gym_failures.cli.run import environment
from gym_failures.enabling.process import RUN_ID
from tests.run.programs import COMMAND, ran, surroundings

HOOK = str(Path(startup.__file__).parent)
ENDS = {
    "well": ("raise SystemExit(0)", 0),
    "with a status": ("raise SystemExit(7)", 7),
    "by a signal": ("import os, signal; os.kill(os.getpid(), signal.SIGTERM)", -signal.SIGTERM),
}


@pytest.mark.parametrize("end", ENDS)
def test_the_status_is_the_commands(end):
    """The command's exit status, or the signal that ended it, is that of `run`."""
    program, status = ENDS[end]
    assert ran(COMMAND, "run", "--", sys.executable, "-c", program, env=surroundings()).status == status


def test_the_command_takes_the_place_of_run():
    """The command has the process id of `run` and its arguments as they are, options and all, with `--` or without."""
    program = "import os, sys; print(os.getpid(), sys.argv[1:])"
    for dashes in (["--"], []):
        command = [COMMAND, "run", *dashes, sys.executable, "-c", program, "--folder", "-x", "", "--", "a b"]
        with subprocess.Popen(command, env=surroundings(), stdout=subprocess.PIPE, text=True) as process:
            output, _ = process.communicate()
        assert output == f"{process.pid} ['--folder', '-x', '', '--', 'a b']\n"


IMPORTED = """
import os, sys
os.execvpe = lambda *_: os.write(1, " ".join(sys.modules).encode())
from gym_failures.cli import main; main()
"""
"""The command, which says what it has imported when another would take its place."""


def test_what_run_does_not_need_it_does_not_import():
    """`run` is in front of whatever a user starts, so it imports no records, no rich and no other command."""
    imported = ran(sys.executable, "-c", IMPORTED, "run", "--", "true", env=surroundings()).output.split()
    assert "gym_failures.cli.run" in imported
    assert not {"gym_failures.records", "gym_failures.reading", "gym_failures.cli.show", "rich"} & {*imported}


def test_no_signal_is_ignored_that_was_not():
    """A pipe that nobody reads ends the command as ever, though Python itself goes without that signal."""
    status = ran(COMMAND, "run", "--", "cat", "/proc/self/status", env=surroundings()).output
    (ignored,) = (line.split()[1] for line in status.splitlines() if line.startswith("SigIgn"))
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        assert not int(ignored, 16) >> (number - 1) & 1


@pytest.mark.parametrize("traced", [True, False])
def test_a_command_that_is_not_there(traced):
    """A command that is not found is named, with the status that `env` and shells give to that."""
    env = surroundings(GYM_FAILURES_ENABLED=str(traced).lower())
    ended = ran(COMMAND, "run", "--", "no-such-command", env=env)
    assert (ended.status, ended.errors) == (127, "gym-failures: no-such-command: No such file or directory\n")
    assert ended.status == exits.NOT_FOUND == ran("env", "no-such-command", env=env).status


def test_a_command_that_cannot_be_run(tmp_path):
    """A file that is no program is named, with the status that `env` and shells give to that."""
    file = tmp_path / "data"
    file.touch()
    ended = ran(COMMAND, "run", "--", file, env=surroundings())
    assert (ended.status, ended.errors) == (126, f"gym-failures: {file}: Permission denied\n")
    assert ended.status == exits.NOT_RUN == ran("env", file, env=surroundings()).status


def test_an_empty_command():
    """A text without a letter is no command, which is told in one line."""
    ended = ran(COMMAND, "run", "--", "", env=surroundings())
    assert (ended.status, ended.errors) == (exits.NOT_FOUND, "gym-failures: an empty text is no command\n")


@pytest.mark.parametrize("traced", ["true", "false"])
def test_a_command_without_output(tmp_path, traced):
    """Where standard output is closed the command runs all the same."""
    env = surroundings(GYM_FAILURES_ENABLED=traced)
    assert ran("sh", "-c", f"'{COMMAND}' run -- touch '{tmp_path}/ran' >&-", env=env).status == 0
    assert (tmp_path / "ran").exists()


def test_a_folder_that_is_gone(tmp_path):
    """In a folder that is no longer there the command runs as it does without `run`."""
    (tmp_path / "gone").mkdir()
    line = f"rmdir '{tmp_path}/gone' && exec '{COMMAND}' run -- echo ran"
    ended = ran("sh", "-c", line, env=surroundings(), cwd=tmp_path / "gone")
    assert (ended.status, ended.output) == (0, "ran\n")


def test_a_wrong_configuration_is_told_before_anything_runs():
    """A variable with a value that cannot be used is an error of `run`, not of each process below."""
    ended = ran(COMMAND, "run", "--", "echo", "ran", env=surroundings(GYM_FAILURES_SCRUB="perhaps"))
    assert (ended.status, ended.output) == (exits.USAGE, "")
    assert "GYM_FAILURES_SCRUB='perhaps'" in ended.errors


ENDPOINTS = {"http://c:4317": ["spans", "counts"], "c:4317": ["spans", "counts"], "http://c:4318": []}


@pytest.mark.parametrize("endpoint", ENDPOINTS)
def test_an_exporter_that_is_not_installed_is_told_at_the_start(endpoint):
    """What an endpoint needs and nobody has installed is said once by `run`, and the command runs."""
    ended = ran(COMMAND, "run", "--", "echo", "ran", env=surroundings(OTEL_EXPORTER_OTLP_ENDPOINT=endpoint))
    assert (ended.status, ended.output) == (0, "ran\n")
    assert ended.errors.splitlines() == [
        f"gym-failures: the exporter otlp_proto_grpc is not installed: {what} do not go there; pip install"
        " opentelemetry-exporter-otlp-proto-grpc, or send OTLP over HTTP, to port 4318"
        for what in ENDPOINTS[endpoint]
    ]


def test_switched_off():
    """With GYM_FAILURES_ENABLED=false the command runs in the very same environment."""
    given = surroundings(GYM_FAILURES_ENABLED="false", PYTHONPATH="/given")
    ended = ran(COMMAND, "run", "--", "env", env=given)
    assert dict(line.split("=", 1) for line in ended.output.splitlines() if "=" in line) == given


LACKING = """
import sys; sys.modules["opentelemetry.exporter.otlp.proto.http"] = None
from gym_failures.cli import main; main()
"""
"""The command where a package is not installed that tracing needs."""


@pytest.mark.parametrize(("enabled", "status"), [("false", 7), ("true", exits.USAGE)])
def test_what_is_not_installed(enabled, status):
    """A command that is to be traced does not run where that lacks something; switched off, nothing is needed."""
    command = [sys.executable, "-c", "raise SystemExit(7)"]
    env = surroundings(GYM_FAILURES_ENABLED=enabled)
    ended = ran(sys.executable, "-c", LACKING, "run", "--", *command, env=env)
    assert ended.status == status
    assert ("pip install 'gym-failures[gym]'" in ended.errors) is (enabled == "true")


def test_without_pydantic():
    """An environment without pydantic, which reading the command line takes, is named in one line."""
    code = "import sys; sys.modules['pydantic'] = None\nfrom gym_failures.cli import main; main()"
    ended = ran(sys.executable, "-c", code, "run", "--", "true", env=surroundings())
    assert ended.status == exits.USAGE
    assert ended.errors.startswith("gym-failures: pydantic is not installed")
    assert len(ended.errors.splitlines()) == 1


PATHS = {
    "none": (None, [HOOK]),
    "empty": ("", [HOOK]),
    "others": ("/a:/b", [HOOK, "/a", "/b"]),
    "the working folder by an empty entry": ("/a::/b", [HOOK, "/a", "", "/b"]),
    "ours already, behind a server's own": (f"/server:{HOOK}:/a", [HOOK, "/server", "/a"]),
}


@pytest.mark.parametrize("name", PATHS)
def test_the_path_is_kept(name):
    """The hook is first on PYTHONPATH, once, and what was there is behind it."""
    given, expected = PATHS[name]
    variables = {"OTHER": "kept"} if given is None else {"OTHER": "kept", "PYTHONPATH": given}
    made = environment(variables, Path("traces"))
    assert made["PYTHONPATH"].split(os.pathsep) == expected
    assert made["OTHER"] == "kept"
    assert Path(made["GYM_FAILURES_TRACES"]).is_absolute()


def test_a_run_within_a_run():
    """Every call has an id of its own, and one within another keeps the outer one's."""
    outer = environment({}, Path("traces"))
    assert outer[RUN_ID] != environment({}, Path("traces"))[RUN_ID]
    assert environment(outer, Path("traces")) == outer
