"""Files that gzip compressed, and the Collector's records, each after its length."""

import gzip
import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gym_failures import limits
from gym_failures.reading import Skip, read_files, read_reports
from gym_failures.reading.sources.files import blocks
from gym_failures.reading.sources.stream import NOBODY, Stream
from gym_failures.reading.sources.unpacking import unpacked
from tests.spans import failure, server, told
from tests.stored import as_line

LINES = [
    as_line(server(number, None, told(failure(f"f{number}")), own=f"f{number}", trace=f"{number:032x}")).encode()
    + b"\n"
    for number in range(1, 9)
]
TEXT = b"".join(LINES)


def traces(reports):
    """Return the numbers of the traces that have a report."""
    return [int(report.trace_id, 16) for report in reports]


def framed(*records):
    """Return records as the Collector's file exporter writes them."""
    return b"".join(len(record).to_bytes(4) + record for record in records)


PACKED = {
    "one member": gzip.compress(TEXT),
    "a member a line": b"".join(map(gzip.compress, LINES)),
    "members that part a line": gzip.compress(TEXT[:100]) + gzip.compress(TEXT[100:]),
    "zeros behind": gzip.compress(TEXT) + bytes(1_000),
    "records": framed(*LINES),
    "records without an end of line": framed(*(line.rstrip() for line in LINES)),
    "records of several lines": framed(*(json.dumps(json.loads(line), indent=1).encode() for line in LINES)),
    "records, compressed as a whole": gzip.compress(framed(*LINES)),
}


@pytest.mark.parametrize("packed", PACKED.values(), ids=PACKED)
def test_what_is_packed_is_read_as_what_is_not(packed, tmp_path):
    """A packed file gives the reports of the plain one, from a path, from bytes and from an open file."""
    path = tmp_path / "traces"
    path.write_bytes(packed)
    plain = read_reports(TEXT)
    for source in (path, packed, io.BytesIO(packed)):
        found = read_reports(source)
        assert (found, found.spans, found.skips) == (plain, 8, 0)


def test_an_open_file_is_unpacked_from_where_it_stands():
    """What was read of an open file before is not read again, though the file is read twice."""
    file = io.BytesIO(b"before" + gzip.compress(TEXT))
    file.read(6)
    assert traces(read_reports(file)) == [*range(1, 9)]


@given(st.integers(0, len(gzip.compress(TEXT)) - 1))
def test_a_file_that_was_cut_gives_its_whole_lines(length):
    """A compressed file cut anywhere gives the lines before the cut, and says that it was (collector-contrib#34832)."""
    cut = gzip.compress(TEXT)[:length]
    found = read_files([cut]) if length else read_files([])
    assert traces(found) == [*range(1, len(found) + 1)]
    assert (found.skips > 0) is (length > 0)


def test_the_cut_is_named():
    """Of a file that ends too soon, what is said names the file, and no line."""
    found = read_reports(gzip.compress(TEXT)[:-4])
    assert traces(found) == [*range(1, 9)]
    assert found.skipped == (Skip(0, "the compressed data ends too soon"),)
    assert found.skipped[0].where == "the text"


def test_damage_in_the_middle_costs_what_comes_after():
    """Of a file that is damaged in the middle, all before the damage is read, and that it is damaged is said."""
    first = gzip.compress(TEXT)
    found = read_reports(first + b"\x1f\x8b\x08\x00junk that is no member")
    assert traces(found) == [*range(1, 9)]
    assert [skip.reason.partition(";")[0] for skip in found.skipped] == ["the compressed data is damaged"]


def test_no_more_is_unpacked_at_once_than_a_block():
    """A small file that unpacks to a huge one comes in parts of a bounded size, and whole."""
    stream = unpacked(Stream([gzip.compress(bytes(50 * limits.READ_BLOCK))]), NOBODY)
    sizes = [*iter(lambda: len(stream.read(10 * limits.READ_BLOCK)), 0)]
    assert max(sizes) <= limits.READ_BLOCK
    assert sum(sizes) == 50 * limits.READ_BLOCK


def test_a_hole_takes_no_memory():
    """Of the NULs before a line, which a file has that was truncated under its writer, a few are held."""
    hole = Stream(iter([bytes(limits.READ_BLOCK)] * 200 + [LINES[0][:9], LINES[0][9:]]))
    (text,) = blocks(hole)
    assert len(text) <= limits.READ_BLOCK
    assert traces(read_reports(text)) == [1]


OVERLONG = {
    "lines": LINES[0] + b"x" * 300_000 + b"\n" + LINES[1],
    "a line that begins with its text": LINES[0] + LINES[2].rstrip() + b" " * 300_000 + b"\n" + LINES[1],
    "a last line": LINES[0] + b"x" * 300_000,
}


@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "gzip"])
@pytest.mark.parametrize("data", OVERLONG.values(), ids=OVERLONG)
def test_a_line_without_end_costs_itself(data, pack, monkeypatch):
    """A line that is longer than any record is told of with its number, and the lines beside it are read."""
    monkeypatch.setattr(limits, "STORED_RECORD", 200_000)
    found = read_reports(pack(data))
    assert traces(found) == ([1, 2] if data.endswith(LINES[1]) else [1])
    assert [*found.skipped] == [Skip(2, "too long to be read")]


def test_a_document_without_end_is_told_of(monkeypatch):
    """A small file that unpacks to a huge document is not held, and told of."""
    monkeypatch.setattr(limits, "STORED_DOCUMENT", 1_000_000)
    for start in (b'{"data":[', b'{"result":'):
        found = read_reports(gzip.compress(start + b" " * 2_000_000 + b"]}"))
        assert (found, [*found.skipped]) == ([], [Skip(0, "the document is too long to be read")])


DAMAGED = {
    "the end of a record is missing": (framed(*LINES)[:-3], 7, [(8, "the record is cut off")]),
    "half a length at the end": (framed(*LINES) + b"\0\0", 8, [(9, "no record begins here")]),
    "a length that nothing has": (framed(*LINES) + b"\xff\xff\xff\xffx", 8, [(9, "no record begins here")]),
    "an empty record": (framed(LINES[0], b"", *LINES[1:]), 8, []),
    "a record of something else": (framed(LINES[0], b"{junk", *LINES[1:]), 8, [(2, "")]),
}


@pytest.mark.parametrize(("data", "read", "skipped"), DAMAGED.values(), ids=DAMAGED)
def test_a_damaged_record_costs_itself(data, read, skipped):
    """What is wrong with a record is told with its number, and the whole records beside it are read."""
    found = read_reports(data)
    assert len(found) == read
    assert [skip.line for skip in found.skipped] == [number for number, _ in skipped]
    for skip, (_, reason) in zip(found.skipped, skipped, strict=True):
        assert skip.reason.startswith(reason)


def test_zeros_of_a_truncated_file_are_no_records():
    """A file that was truncated under a running exporter begins with zeros; its lines are read all the same."""
    found = read_reports(bytes(1_000) + b"\n" + TEXT)
    assert (traces(found), found.skips) == ([*range(1, 9)], 1)


@given(st.binary(max_size=200))
def test_bytes_of_any_kind(data):
    """No bytes make reading raise, whatever format they start like."""
    for start in (b"", b"\x1f\x8b\x08", b"\0\0\0\x05{", b'{"data":'):
        assert list(read_reports(start + data)) == []
