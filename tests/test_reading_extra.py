"""Reading where the extra is not installed."""

import subprocess
import sys

BLOCKED = """
import sys
sys.modules["msgspec"] = None
from gym_failures.reading import read_reports
"""


def run(code):
    """Run `code` in a fresh interpreter that has no msgspec."""
    return subprocess.run([sys.executable, "-c", BLOCKED + code], capture_output=True, text=True, check=False)


def test_spans_need_no_extra():
    """Spans in memory are read with the core dependencies alone."""
    assert run("print(len(read_reports([])))").stdout == "0\n"


def test_text_needs_the_extra():
    """Text without the extra is an error that says what to install."""
    done = run("read_reports('{}')")
    assert done.stderr.rstrip().endswith("which is not installed: pip install 'gym-failures[reading]'")
