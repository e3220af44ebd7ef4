"""How far reading is, and how many processes share it."""

import errno
import io
import tempfile
from concurrent.futures.process import BrokenProcessPool

import pytest
import typer
from rich.console import Console

from gym_failures import limits
from gym_failures.cli.files import files_read
from gym_failures.cli.progress import progress, size_of, workers_for

LARGE = limits.LARGE_FILES


def test_a_bar_on_a_terminal():
    """On a terminal a bar shows how much of a large file is read, and is gone in the end."""
    terminal = Console(file=io.StringIO(), force_terminal=True, width=80, color_system=None, _environ={})
    with progress(LARGE, terminal) as watch:
        watch(LARGE)
    shown = terminal.file.getvalue()
    assert "33.6/67.1 MB" in shown
    assert shown.endswith("\x1b[2K")


@pytest.mark.parametrize(("size", "terminal"), [(LARGE, False), (LARGE - 1, True)], ids=["piped", "small"])
def test_no_bar(size, terminal):
    """Nothing is shown where nobody looks, nor of what does not take long."""
    console = Console(file=io.StringIO(), force_terminal=terminal, _environ={})
    with progress(size, console) as watch:
        assert watch is None
    assert console.file.getvalue() == ""


def test_the_size_of_files(tmp_path):
    """Files count with their bytes; an open file, a text, and what is not there count as nothing."""
    path = tmp_path / "traces.jsonl"
    path.write_bytes(b"12345")
    assert size_of([path, str(path), io.BytesIO(b"123"), b"{}", tmp_path / "gone"]) == 10


def test_small_files_are_read_by_one_process():
    """Below the size from which it is worth it, no process is started."""
    assert workers_for(limits.SHARED_FILES - 1) == 1
    assert 1 <= workers_for(limits.SHARED_FILES) <= limits.WORKERS


def test_a_process_that_is_ended_from_outside(capsys):
    """Where a process that reads dies, such as for lack of memory, the command says so and how to do without."""
    with pytest.raises(typer.Exit) as ended, files_read():
        raise BrokenProcessPool
    assert ended.value.exit_code == 2
    assert "--workers 1" in capsys.readouterr().err


def test_a_full_disk(capsys):
    """Where there is no room for what memory does not hold, the command says where that is missing."""
    with pytest.raises(typer.Exit) as ended, files_read():
        raise OSError(errno.ENOSPC, "No space left on device")
    assert ended.value.exit_code == 2
    assert capsys.readouterr().err == f"gym-failures: {tempfile.gettempdir()}: No space left on device\n"
