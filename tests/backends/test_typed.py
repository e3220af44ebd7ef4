"""The lines with which `collector-config/README.md` starts programs, typed; each program looks at them and ends."""

import os
import re
import subprocess

import pytest

from backends.programs import COLLECTOR, CONFIG, JAEGER, PROMETHEUS

LOOKS = {COLLECTOR: 'validate "$@"', JAEGER: 'validate "$@"', PROMETHEUS: '"$@" --version'}
"""How each program is had to read its arguments, and the files that they name if it can, without being started."""
PAGE = (CONFIG / "README.md").read_text(encoding="utf-8")
NAMES = "|".join(program.name for program in LOOKS)
LINES = re.findall(
    rf"^(?:[A-Z_]+=\S+ )*(?:{NAMES}) --.*$",
    re.sub(r"^ +", "", re.sub(r" \\\n +", " ", PAGE), flags=re.MULTILINE),
    re.MULTILINE,
)


@pytest.fixture
def path(tmp_path):
    """Give a search path with a stand-in for each program, which has the real one look at what it is given."""
    for program, looks in LOOKS.items():
        script = tmp_path / program.name
        script.write_text(f"#!/bin/sh\nexec '{program.find()}' {looks}\n")
        script.chmod(0o700)
    return f"{tmp_path}{os.pathsep}{os.environ['PATH']}"


@pytest.mark.parametrize("line", LINES)
def test_a_line_starts_a_program(path, line):
    """Each line is of options that the real program knows, and of files and variables that it accepts."""
    done = subprocess.run(
        ["/bin/sh", "-ec", line],
        cwd=CONFIG, env={**os.environ, "PATH": path}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_line_is_typed():
    """No line that starts one of the programs is left out, however it is broken."""
    assert len(LINES) == len(re.findall(rf"^ {{4,}}.*\b(?:{NAMES}) --", PAGE, re.MULTILINE)) > len(LOOKS)
