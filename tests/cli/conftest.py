"""The command within the process of the test, and files for it to read."""

import io
import sys
from typing import NamedTuple

import pytest

from gym_failures.cli.app import app
from tests.stored import as_line


class Ended(NamedTuple):
    """How the command ended."""

    status: int
    output: str
    errors: str


@pytest.fixture
def command(capsys, monkeypatch):
    """Give what runs the command with arguments, and with bytes as its standard input; None closes it."""

    def run(*arguments, given=b""):
        monkeypatch.setattr(sys, "stdin", None if given is None else io.TextIOWrapper(io.BytesIO(given)))
        with pytest.raises(SystemExit) as end:
            app()([*map(str, arguments)], prog_name="gym-failures")
        output, errors = capsys.readouterr()
        return Ended(end.value.code or 0, output, errors)

    return run


@pytest.fixture
def write(tmp_path):
    """Give what writes spans to a file and returns its path."""

    def written(*spans, name="traces.jsonl"):
        path = tmp_path / name
        path.write_text("".join(f"{as_line(span)}\n" for span in spans))
        return path

    return written
