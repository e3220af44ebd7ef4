"""Large files that are read in parts, and by several processes."""

import gzip
import json
import signal
from functools import partial
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gym_failures import limits
from gym_failures.reading import StoredReports, Tally, iter_reports, read_files
from gym_failures.reading.scan import Intake, take_in
from gym_failures.reading.shelf import Shelf
from gym_failures.reading.sources.noted import Noted
from gym_failures.reading.sources.parts import blocks_of, cut
from gym_failures.reading.workers import failing_in, found_in, several
from tests import strategies
from tests.reading.test_read_reports import JUNK, exported
from tests.spans import failure, server, span, told
from tests.stored import as_line

FAILED = [
    one
    for number in range(1, 31)
    for one in (
        span(1, None, trace=f"{number:032x}", rollout=f"r{number}", service="collection"),
        server(2, 1, told(failure(f"f{number}")), own=f"f{number}", trace=f"{number:032x}", service="agent"),
        server(1, None, trace=f"{number + 100:032x}", service="agent"),
    )
]
LINE = exported(FAILED[:1])
ROW = json.dumps({"_ng_task_index": 1, "failure_kind": "cancelled", "failure_reason": ""}).encode()
UNCUTTABLE = {
    "compressed": gzip.compress(LINE * 9),
    "records": len(LINE).to_bytes(4) + LINE,
    "one document": json.dumps(json.loads(LINE), indent=1).encode(),
    "Jaeger's": b'{"data":[]}\n' * 9,
    "rows": (ROW + b"\n") * 9,
    "empty": b"",
    "begins with a blank line": b"\n" + LINE * 9,
}


@pytest.fixture
def small(monkeypatch):
    """Have parts be smaller than two lines, so that a small file has many."""
    monkeypatch.setattr(limits, "PART_BYTES", 700)


@pytest.fixture
def paths(tmp_path):
    """Give files of one run: one of lines as exporters write them, one of other lines, one that is compressed."""
    files = {
        "exported.jsonl": b"".join(exported([one]) for one in FAILED[::3]) + JUNK.encode(),
        "other.jsonl": f"{JUNK}\n\n".encode() + "".join(as_line(one) + "\n" for one in FAILED[1::3]).encode(),
        "packed.jsonl.gz": gzip.compress(b"".join(exported([one]) for one in FAILED[2::3])),
    }
    for name, text in files.items():
        (tmp_path / name).write_bytes(text)
    return [tmp_path / name for name in files]


def read_files_in_parts(path, size):
    """Return the reports of a file that is read in parts, its spans, and what was skipped, all by this process."""
    tallies = {str(path): Tally()}
    shelf = Shelf(by_rollout=False, most=limits.HELD_SPANS, batch=limits.BATCH_SPANS)
    parts = cut(Noted.of(path), size)
    traces = {trace_id for part in parts for trace_id in failing_in(part)}
    found = map(partial(found_in, traces=traces, with_census=False), parts)
    take_in({str(path): parts}, found, Intake(shelf, tallies, None))
    with StoredReports(shelf, "trace", tallies.items(), None) as reports:
        return [*reports], reports.spans, reports.skips, reports.skipped


@given(st.lists(st.sampled_from([LINE, b"\n", b"junk\n", b'{"resourceSpans":[{\n'])), st.binary(max_size=9), st.data())
def test_parts_are_the_file(lines, last, data):
    """A file that is cut has each of its lines in exactly one part, whole, whatever the lines are."""
    text = LINE + b"".join(lines) + last
    with TemporaryDirectory() as folder:
        path = Path(folder) / "traces.jsonl"
        path.write_bytes(text)
        texts = [b"".join(blocks_of(part)) for part in cut(Noted.of(path), data.draw(st.integers(1, len(text) + 1)))]
    assert b"".join(texts) == text
    assert all(part.endswith(b"\n") for part in texts[:-1])


@pytest.mark.parametrize("text", UNCUTTABLE.values(), ids=UNCUTTABLE)
def test_what_is_not_cut(text, tmp_path):
    """What is not plain lines, each of which can be read without the others, is left whole."""
    path = tmp_path / "traces"
    path.write_bytes(text)
    assert cut(Noted.of(path), 1) == []


def test_a_line_that_is_too_long_to_look_for_its_end(tmp_path, monkeypatch):
    """Where no line ends for long, nothing is cut any more, so that no line is ever looked through for nothing."""
    monkeypatch.setattr(limits, "STORED_RECORD", 100)
    path = tmp_path / "traces.jsonl"
    path.write_bytes(LINE.replace(b"work", b"w" * 1_000) + LINE)
    (part,) = cut(Noted.of(path), 1)
    assert (part.start, part.end) == (0, path.stat().st_size)


@given(strategies.stored_spans(), st.lists(st.integers(0, 8), max_size=3), st.integers(1, 2_000))
def test_any_parts_give_the_same_reports(spans, junk, size):
    """However a file is cut, its parts tell together what the whole file tells, skipped lines and their numbers too."""
    lines = [LINE, *(exported([one]) for one in spans)]
    for place in junk:
        lines.insert(1 + place % len(lines), b"junk {\n")
    with TemporaryDirectory() as folder:
        path = Path(folder) / "traces.jsonl"
        path.write_bytes(b"".join(lines))
        expected = read_files([path])
        found = read_files_in_parts(path, size)
    assert found == (expected, expected.spans, expected.skips, expected.skipped)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("by", ["trace", "request", "rollout"])
def test_several_processes_read_what_one_reads(paths, by):
    """Whether one process reads or several do, and whatever can be cut, everything that is known is the same."""
    expected = read_files(paths, by=by, requests=True)
    with iter_reports(paths, by=by, requests=True, workers=2) as reports:
        assert sorted(reports, key=repr) == sorted(expected, key=repr)
        assert (reports.spans, reports.skips, reports.requests) == (expected.spans, 2, expected.requests)
        assert reports.skipped == expected.skipped


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("workers", [1, 2])
def test_how_far_it_is(paths, workers):
    """What is read of files is told as it is read, and a file is read twice."""
    read = []
    with iter_reports(paths, workers=workers, watch=read.append):
        total = 2 * sum(path.stat().st_size for path in paths)
        # To tell what a file holds, its first bytes are read once more.
        assert total <= sum(read) <= total + 4 * len(paths) * limits.RECOGNISED_START


def test_a_file_that_is_not_there(tmp_path):
    """What cannot be opened is an OSError with the name of the file, whoever reads it."""
    with pytest.raises(FileNotFoundError) as raised:
        iter_reports([tmp_path / "gone.jsonl"], workers=2)
    assert raised.value.filename == str(tmp_path / "gone.jsonl")


@pytest.mark.parametrize("workers", [1, 2])
def test_what_is_no_file(tmp_path, workers):
    """What has no end that could be noted, such as a folder, is opened all the same, and what that raises is raised."""
    with pytest.raises(IsADirectoryError) as raised:
        iter_reports([tmp_path], workers=workers)
    assert raised.value.filename == str(tmp_path)


def test_ctrl_c_is_for_the_first_process():
    """A terminal interrupts all processes at once; those that only read leave it to the one that was asked."""
    before = signal.getsignal(signal.SIGINT)
    with several(1) as run:
        assert [*run(signal.getsignal, [signal.SIGINT])] == [signal.SIG_IGN]
    assert signal.getsignal(signal.SIGINT) is before


def test_how_far_several_are_ahead():
    """However slowly results are taken, no more things are begun than there are workers and one, and order is kept."""
    things = count()
    with several(2) as run:
        results = run(abs, things)
        assert next(things) == 3
        assert [next(results) for _ in range(3)] == [0, 1, 2]
        assert next(things) == 7


class Work:
    """Work that tells how often this process packed and unpacked it."""

    packed = unpacked = 0

    def __call__(self, _):
        """Return how often it was unpacked."""
        return Work.unpacked

    def __getstate__(self):
        """Count, and hold nothing."""
        Work.packed += 1
        return True

    def __setstate__(self, _):
        """Count."""
        Work.unpacked += 1


def test_what_workers_hold_is_sent_once():
    """What all workers have to know, such as the traces that failed, is packed once, and unpacked once by each."""
    Work.packed = 0
    with several(2) as run:
        assert [*run(Work(), range(20))] == [1] * 20
    assert Work.packed == 1
