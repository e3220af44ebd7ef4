"""Reports from every kind of source."""

import io
import json
import os
import threading
import tracemalloc

import pytest

from gym_failures import limits
from gym_failures.reading import Reports, read_reports, rebuild
from tests.spans import failure, server, span, told

FINE_TRACE = "1" * 32
FAILED = [server(1, None, told(failure("f")), own="f"), span(2, 1)]
JUNK = "junk"


def as_otlp(record):
    """Return a span record as OTLP JSON has it; of its attributes only text, which is all that these tests use."""
    return {
        "traceId": record.trace_id,
        "spanId": record.span_id,
        "parentSpanId": record.parent_id or "",
        "name": record.name,
        "kind": int(record.kind),
        "startTimeUnixNano": str(record.start_ns),
        "endTimeUnixNano": str(record.end_ns),
        "attributes": [{"key": key, "value": {"stringValue": value}} for key, value in record.attributes.items()],
        "events": [
            {
                "name": event.name,
                "timeUnixNano": str(event.time_ns),
                "attributes": [
                    {"key": key, "value": {"stringValue": value}} for key, value in event.attributes.items()
                ],
            }
            for event in record.events
        ],
    }


def exported(spans):
    """Return one line of several spans as exporters write it."""
    document = {"resourceSpans": [{"scopeSpans": [{"spans": list(map(as_otlp, spans))}]}]}
    return json.dumps(document, separators=(",", ":")).encode() + b"\n"


TEXT = "\n".join(
    json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [as_otlp(one)]}]}]})
    for one in (server(1, trace=FINE_TRACE), FAILED[1], FAILED[0])
)


@pytest.fixture
def path(tmp_path):
    """Give the path of a file of spans, the last line of which is junk."""
    file = tmp_path / "traces.jsonl"
    file.write_text(f"{TEXT}\n{JUNK}")
    return file


def from_pipe(data):
    """Return the reading end of a pipe that `data` is written into."""
    reader, writer = os.pipe()

    def write():
        with os.fdopen(writer, "wb") as file:
            file.write(data)

    threading.Thread(target=write).start()
    return os.fdopen(reader, "rb")


SOURCES = {
    "a path": lambda path: path,
    "a path as text": str,
    "text": lambda path: path.read_text(),
    "bytes": lambda path: path.read_bytes(),
    "a file open in binary": lambda path: path.open("rb"),
    "a file open as text": lambda path: path.open(encoding="utf-8"),
    "a text buffer": lambda path: io.StringIO(path.read_text()),
    "a pipe": lambda path: from_pipe(path.read_bytes()),
}


@pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES)
def test_sources(source, path):
    """Every source of the same text gives the same reports and the same account of what could not be read."""
    opened = source(path)
    try:
        found = read_reports(opened, by="request")
    finally:
        if isinstance(opened, io.IOBase):
            assert not opened.closed
            opened.close()
    assert found == rebuild(FAILED, by="request")
    assert (found.spans, found.skips) == (3, 1)
    assert [skip.line for skip in found.skipped] == [4]


def test_an_open_file_is_read_from_where_it_stands(path):
    """What was read of a file before is not read again."""
    with path.open("rb") as file:
        file.readline()
        assert read_reports(file).spans == 2


def test_an_indented_document(tmp_path):
    """A file that is one indented document is read as that, both times."""
    file = tmp_path / "one.json"
    file.write_text(json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [*map(as_otlp, FAILED)]}]}]}, indent=2))
    assert read_reports(file) == rebuild(FAILED)


def test_spans():
    """Spans give what `rebuild` gives, from any iterable, and nothing is skipped."""
    found = read_reports(iter(FAILED), by="request")
    assert found == rebuild(FAILED, by="request")
    assert (type(found), found.spans, found.skipped, found.skips) == (Reports, 2, (), 0)


def test_what_is_skipped_is_logged_once(path, caplog):
    """Damage gives one warning, with how much it is and where it begins, and not what stands there."""
    path.write_text(f"{TEXT}\n" + f"{JUNK}\n" * (limits.SKIPS_NAMED + 1))
    read_reports(path)
    (record,) = caplog.records
    assert record.getMessage().startswith(f"skipped {limits.SKIPS_NAMED + 1} unreadable places, the first in line 4: ")
    assert JUNK not in record.getMessage()


def test_nothing_is_logged_when_nothing_is_skipped(caplog):
    """Reading that goes well says nothing."""
    read_reports(TEXT)
    assert caplog.records == []


NO_SPANS = {"empty text": "", "blank text": " \n", "no bytes": b"", "no spans": [], "an empty file": io.BytesIO()}


@pytest.mark.parametrize("source", NO_SPANS.values(), ids=NO_SPANS)
def test_nothing_to_read(source):
    """A source without spans has no reports, and that is no error."""
    found = read_reports(source)
    assert (list(found), found.spans, found.skips) == ([], 0, 0)


def test_a_path_that_is_not_there(tmp_path):
    """A path that cannot be opened is the error that opening it raises."""
    with pytest.raises(FileNotFoundError, match=r"missing\.jsonl"):
        read_reports(str(tmp_path / "missing.jsonl"))


@pytest.mark.parametrize("source", [[1], ["text"], [{"resourceSpans": []}]], ids=repr)
def test_what_is_no_span_is_an_error(source):
    """An iterable of something else says what is wrong with it."""
    with pytest.raises(TypeError, match="neither a span nor a source of spans"):
        read_reports(source)


def test_a_wrong_by_is_an_error(path):
    """A grouping that does not exist is an error for files too."""
    with pytest.raises(ValueError, match="day"):
        read_reports(path, by="day")


def peak_of_reading(path):
    """Return the most memory that reading a file takes, in bytes."""
    tracemalloc.start()
    try:
        assert len(read_reports(path)) == 1
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("batch", [1, 100])
def test_memory_grows_with_the_failing_traces_only(tmp_path, batch):
    """However much more traces did not fail, reading takes the memory of those that did and of a block of the file."""
    path = tmp_path / "traces.jsonl"
    path.write_bytes(exported([FAILED[0]]))
    healthy = exported([server(number, trace=FINE_TRACE) for number in range(2, batch + 2)])
    peaks = []
    for size in (4, 40):
        with path.open("ab") as file:
            file.write(healthy * (size * limits.READ_BLOCK // len(healthy)))
        peaks.append(peak_of_reading(path))
    assert peaks[1] - peaks[0] < limits.READ_BLOCK  # while the file grew by forty
