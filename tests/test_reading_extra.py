"""Reading where the extra is not installed."""

import subprocess
import sys

import pytest

BLOCKED = """
import sys
sys.modules[{missing!r}] = None
from gym_failures.reading import read_reports
"""


def run(code, missing="msgspec"):
    """Run `code` in a fresh interpreter where a package is missing."""
    return subprocess.run(
        [sys.executable, "-c", BLOCKED.format(missing=missing) + code], capture_output=True, text=True, check=False
    )


def test_spans_need_no_extra():
    """Spans in memory are read with the core dependencies alone."""
    assert run("print(len(read_reports([])))").stdout == "0\n"


@pytest.mark.parametrize("missing", ["msgspec", "stringzilla"])
def test_text_needs_the_extra(missing):
    """Text without the extra is an error that says what to install."""
    done = run("read_reports('{}')", missing)
    assert done.stderr.rstrip().endswith("which is not installed: pip install 'gym-failures[reading]'")
