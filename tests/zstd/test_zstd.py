"""Files that Zstandard compressed, as a whole or record by record."""

import subprocess
import sys

import pytest

from gym_failures import limits
from gym_failures.reading import Skip, read_reports
from gym_failures.reading.sources.stream import NOBODY, Stream
from gym_failures.reading.sources.unpacking import unpacked
from tests.reading.test_packed import LINES, TEXT, framed, traces

try:
    from compression import zstd
except ModuleNotFoundError:
    from backports import zstd

PACKED = {
    "one frame": zstd.compress(TEXT),
    "a frame a line": b"".join(map(zstd.compress, LINES)),
    "frames that part a line": zstd.compress(TEXT[:100]) + zstd.compress(TEXT[100:]),
    "records, each compressed": framed(*map(zstd.compress, LINES)),
    "records, some compressed": framed(LINES[0], *map(zstd.compress, LINES[1:])),
    "records, compressed as a whole": zstd.compress(framed(*LINES)),
}


@pytest.mark.parametrize("packed", PACKED.values(), ids=PACKED)
def test_what_is_packed_is_read_as_what_is_not(packed):
    """A packed file gives the reports of the plain one."""
    found = read_reports(packed)
    assert (found, found.spans, found.skips) == (read_reports(TEXT), 8, 0)


@pytest.mark.parametrize("length", [5, 50, -4])
def test_a_file_that_was_cut_says_so(length):
    """A compressed file that was cut gives what can be unpacked, and says that it was cut (collector-contrib#22747)."""
    found = read_reports(zstd.compress(TEXT)[:length])
    assert Skip(0, "the compressed data ends too soon") in found.skipped


def test_frames_before_the_cut_are_read():
    """Of a file of many frames, which is how a running program writes, all whole ones are read."""
    found = read_reports(PACKED["a frame a line"][:-4])
    assert traces(found) >= [*range(1, 8)]


def test_a_damaged_record_costs_itself():
    """A record that cannot be unpacked is told of with its number, and those beside it are read."""
    first, second, *rest = map(zstd.compress, LINES)
    for place in (0, 1):
        records = [first, second]
        records[place] = records[place][:8] + b"\xff" * 8 + records[place][16:]
        found = read_reports(framed(*records, *rest))
        assert len(found) == 7
        assert found.skipped == (Skip(place + 1, "the compressed record is damaged, or too large"),)


def test_a_record_that_unpacks_to_too_much_is_refused(monkeypatch):
    """What a record unpacks to is bounded."""
    monkeypatch.setattr(limits, "STORED_RECORD", 2_000)
    found = read_reports(framed(zstd.compress(LINES[0] + bytes(3_000)), zstd.compress(LINES[1])))
    assert (traces(found), [skip.line for skip in found.skipped]) == ([2], [1])


def test_no_more_is_unpacked_at_once_than_a_block():
    """A small file that unpacks to a huge one comes in parts of a bounded size, and whole."""
    stream = unpacked(Stream([zstd.compress(bytes(50 * limits.READ_BLOCK))]), NOBODY)
    sizes = [*iter(lambda: len(stream.read(10 * limits.READ_BLOCK)), 0)]
    assert max(sizes) <= limits.READ_BLOCK
    assert sum(sizes) == 50 * limits.READ_BLOCK


def test_the_missing_extra_is_named(tmp_path):
    """Where nothing can unpack it, the error names the file's format and the extra."""
    path = tmp_path / "traces.zst"
    path.write_bytes(PACKED["one frame"])
    code = (
        "import sys; sys.modules['compression'] = sys.modules['backports'] = None\n"
        f"from gym_failures.reading import read_reports; read_reports({str(path)!r})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stderr.rstrip().endswith("which is not installed: pip install 'gym-failures[zstd]'")
