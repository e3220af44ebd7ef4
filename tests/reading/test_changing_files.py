"""Files that change while they are read, as those of a running server do (logrotate's `create` and `copytruncate`)."""

import os

import pytest

from gym_failures import limits
from gym_failures.reading import Skip, iter_reports
from gym_failures.reading.census import Requests
from gym_failures.reading.sources.noted import Noted, ReplacedError
from tests.reading.test_read_reports import exported
from tests.spans import failure, server, told


def line(number):
    """Return the line of a request that failed."""
    return exported([server(1, None, told(failure(f"f{number}")), own=f"f{number}", trace=f"{number:032x}")])


def rotate(path):
    """Rename the file, and begin another of its name that is as long."""
    text = path.read_bytes()
    path.rename(path.with_suffix(".1"))
    path.write_bytes(text)


def truncate(path):
    """Empty the file, and go on writing it."""
    path.write_bytes(line(99))


def grow(path):
    """Write one more failure, and the half of another one."""
    with path.open("ab") as file:
        file.write(line(98) + line(99)[:100])


@pytest.fixture(params=[1, 2], ids=["one process", "several"])
def read(request, tmp_path, monkeypatch):
    """Give what reads a file of ten failures, and does something to it once it has looked for them."""
    monkeypatch.setattr(limits, "PART_BYTES", 700)
    path = tmp_path / "traces.jsonl"
    path.write_bytes(b"".join(map(line, range(10, 20))))
    left = path.stat().st_size

    def read_while(change):
        def watch(size):
            nonlocal left
            before, left = left, left - size
            if left <= 0 < before:
                change(path)

        with iter_reports([path], requests=True, workers=request.param, watch=watch) as reports:
            return [*reports], reports

    return read_while


@pytest.mark.parametrize("change", [rotate, truncate])
def test_a_file_that_is_replaced(read, change):
    """A file that is another one, or shorter, when it is read again is told of, and is no run without failures."""
    reports, known = read(change)
    assert (reports, known.spans, known.skips) == ([], 0, 1)
    assert [skip._replace(source="") for skip in known.skipped] == [Skip(0, "the file was replaced while it was read")]


def test_a_file_that_is_cut_while_it_is_read(tmp_path):
    """A file that ends before the place where it ended is told of by reading it, and not taken for the whole."""
    path = tmp_path / "traces.jsonl"
    path.write_bytes(bytes(4 * limits.READ_BLOCK))
    with Noted.of(path).open() as file:
        assert file.read(1) == b"\0"
        os.truncate(path, 1)
        with pytest.raises(ReplacedError):
            file.read()


@pytest.mark.parametrize("size", [-1, 8, 1_000_000])
def test_how_far_a_file_is_read(tmp_path, size):
    """Whatever size is asked for, nothing is read beyond where the file ended when it was noted."""
    path = tmp_path / "traces.jsonl"
    path.write_bytes(b"1234567\n")
    noted = Noted.of(path)
    path.write_bytes(b"1234567\n890\n")
    with noted.open() as file:
        assert file.read(size) == b"1234567\n"
        assert file.read(size) == b""


def test_a_file_that_grows(read):
    """What is written after the reading began is no part of it, so that reports, spans and requests are of the same."""
    reports, known = read(grow)
    assert (len(reports), known.spans, known.skips) == (10, 10, 0)
    assert [*known.requests.values()] == [Requests(10, 10)]
