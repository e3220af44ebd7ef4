"""What the page on asking what failed says to type, typed."""

import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.demo.conftest import COMMAND

pytestmark = pytest.mark.timeout(300)  # the demo may have to be run first

PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "ask-what-failed-in-a-run.md").read_text(encoding="utf-8")
RUN = [line for text in re.findall(r"^```sh\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE) for line in text.splitlines()]


@pytest.mark.parametrize("line", RUN)
def test_lines_of_shell(demo, tmp_path, line):
    """Each line that needs no server ends well on the demo's traces, and prints something."""
    (tmp_path / "traces").symlink_to(demo.folder)
    path = f"{COMMAND.parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["/bin/sh", "-ec", line],
        cwd=tmp_path, env={**os.environ, "PATH": path}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0
    assert done.stdout.strip()
