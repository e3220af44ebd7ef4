"""Reports of several files together."""

import io
import json
import subprocess
import sys
from pathlib import Path

import pytest

from gym_failures.reading import Skip, read_files, read_reports
from tests.reading.test_read_reports import JUNK, TEXT, as_otlp
from tests.spans import failure, server, span, told

LINES = TEXT.splitlines()
MORE_FILES_THAN_MAY_BE_OPEN = """
import resource, sys
from gym_failures.reading import read_files
_, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (32, hard))
print(read_files(sys.argv[1:]).spans)
"""


def as_text(record):
    """Return a file of one span."""
    return json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [as_otlp(record)]}]}]}) + "\n"


@pytest.fixture
def paths(tmp_path):
    """Give the paths of three files with one span each, those of the failed trace in two of them."""
    files = [tmp_path / f"{name}.jsonl" for name in ("fine", "client", "server")]
    for file, line in zip(files, LINES, strict=True):
        file.write_text(line + "\n")
    return files


def test_a_trace_in_several_files_is_one_report(paths):
    """The spans of one trace are found in the files of all the processes that it went through."""
    together = read_files(paths)
    (whole,) = read_reports(TEXT)
    assert list(together) == [whole]
    assert together.spans == 3


def test_a_file_without_failures_tells_of_traces_that_failed_elsewhere(paths):
    """A file that has no failure is read for the traces that have one in another: here it alone names the rollout."""
    paths[1].write_text(as_text(span(2, None, rollout="r-7")))
    paths[2].write_text(as_text(server(1, 2, told(failure("f")), own="f")))
    (report,) = read_files(paths, by="rollout")
    assert report.key == "r-7"


def test_what_is_skipped_is_named_by_file_and_line(paths):
    """A place that cannot be read is named by its file and its line there."""
    paths[1].write_text(f"{LINES[1]}\n{JUNK}\n")
    together = read_files(paths)
    assert together.skips == 1
    assert [(skip.source, skip.line) for skip in together.skipped] == [(str(paths[1]), 2)]


def test_texts_are_named_by_their_number():
    """A source that has no name is named by its number, counted from 1."""
    together = read_files([TEXT, JUNK.encode(), io.BytesIO(JUNK.encode())])
    assert [skip.source for skip in together.skipped] == ["2", "3"]


def test_sources_of_one_name_are_all_read(tmp_path, monkeypatch):
    """Nothing is lost of files that have one name, as in two archives, or of one that is named like a number."""
    monkeypatch.chdir(tmp_path)
    Path("1").write_text(f"{LINES[1]}\n{JUNK}\n")
    opened = [io.BytesIO(f"{text}\n{JUNK}\n".encode()) for text in LINES]
    for file in opened:
        file.name = "traces.jsonl"
    both = read_files(opened, by="rollout")
    assert (both, [skip.source for skip in both.skipped]) == (read_files(LINES, by="rollout"), ["traces.jsonl"] * 3)
    mixed = read_files([f"{LINES[0]}\n{LINES[2]}", Path("1"), Path("1")], by="rollout")
    assert (mixed, mixed.skips) == (both, 1)


def test_one_source_needs_no_name():
    """A skip names no file where only one source was read."""
    assert [skip.source for skip in read_reports(JUNK.encode()).skipped] == [Skip(1, "").source] == [""]


def test_more_files_than_a_process_may_hold_open(tmp_path):
    """Any number of files can be read, because paths are opened one at a time."""
    files = [tmp_path / f"{number}.jsonl" for number in range(40)]
    for file in files:
        file.write_text(LINES[0] + "\n")
    command = [sys.executable, "-c", MORE_FILES_THAN_MAY_BE_OPEN, *map(str, files)]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "40\n"
