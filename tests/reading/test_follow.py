"""Files that are still being written, and traces whose spans are still coming in."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gym_failures import limits
from gym_failures.reading import rebuild
from gym_failures.reading.sources.tail import Tail
from gym_failures.reading.window import Window
from tests.spans import failure, relayed, server, span, told
from tests.strategies import stored_spans

AGENT = server(1, None, relayed(failure("m")), told(failure("a", "m"), at=1), own="a")
MODEL = server(2, 1, told(failure("m")), own="m")
FINE = server(3, None, trace="3" * 32)


class Followed:
    """A file, what was read of it, and what was complained of."""

    def __init__(self, path):
        """Begin with a file that is empty."""
        self.path = path
        self.path.touch()
        self.tail = Tail()
        self.skipped = []

    def read(self):
        """Return what came since the last time."""
        with self.path.open("rb") as file:
            return b"".join(self.tail.texts(file, lambda line, _: self.skipped.append(line)))

    def append(self, text):
        """Write on."""
        with self.path.open("ab") as file:
            file.write(text)


@pytest.fixture
def tail(tmp_path):
    """Give the tail of an empty file."""
    return Followed(tmp_path / "traces.jsonl")


def test_a_line_is_read_once_its_end_has_come(tail):
    """A line that is being written is left alone until it ends, and no line is read twice."""
    tail.append(b"one\ntw")
    assert tail.read() == b"one\n"
    assert tail.read() == b""
    tail.append(b"o\nthree\n")
    assert tail.read() == b"two\nthree\n"
    assert tail.tail.lines == 3


def test_lines_longer_than_a_block(tail):
    """A line may be longer than what is read at once."""
    long = b"x" * (3 * limits.READ_BLOCK) + b"\n"
    tail.append(b"one\n" + long + b"two\n" + long[:-1])
    assert tail.read() == b"one\n" + long + b"two\n"
    tail.append(b"\n")
    assert tail.read() == long


@given(st.lists(st.binary(max_size=10), max_size=5))
def test_pieces_make_the_file(tmp_path_factory, pieces):
    """However a file is written, what is read of it is its whole lines."""
    tail = Followed(tmp_path_factory.mktemp("tail") / "file")
    found = b""
    for piece in pieces:
        tail.append(piece)
        found += tail.read()
    whole, end, _ = b"".join(pieces).rpartition(b"\n")
    assert found == whole + end


def test_a_file_that_was_truncated_is_read_anew(tail):
    """A file that is shorter than it was begins again."""
    tail.append(b"one\ntwo\n")
    tail.read()
    tail.path.write_bytes(b"new\n")
    assert (tail.read(), tail.tail.lines) == (b"new\n", 1)


def test_a_file_that_was_written_anew_is_read_anew(tail):
    """A file whose number is that of one which is gone begins at its start, however long it is."""
    tail.append(b"one\n")
    tail.read()
    tail.path.write_bytes(b"two\nthree\n")
    assert (tail.read(), tail.tail.lines) == (b"two\nthree\n", 2)


def test_a_line_that_never_ends_is_passed_over(tail, monkeypatch):
    """Of a line that is too long nothing is held, it is complained of once, and what comes after it is read."""
    monkeypatch.setattr(limits, "STORED_RECORD", 10)
    tail.append(b"one\n" + b"x" * 11)
    assert (tail.read(), tail.skipped) == (b"one\n", [2])
    tail.append(b"x" * 11)
    assert (tail.read(), tail.skipped) == (b"", [2])
    tail.append(b"x\nthree\n" + b"x" * 10)
    assert (tail.read(), tail.skipped) == (b"three\n", [2])
    assert tail.tail.lines == 3
    tail.append(b"\n")
    assert tail.read() == b"x" * 10 + b"\n"


def window_of(by, **settings):
    """Return a window that calls back in ways that a test says, and else not at all."""
    return Window(by=by, **{"cut": pytest.fail, "gone": pytest.fail} | settings)


def keys(reports):
    """Return the ids of the events of each report."""
    return [[*report.report.events] for report in reports]


def test_a_trace_is_given_when_it_is_quiet():
    """Until no span has come for a while, nothing is given; then each report once."""
    window = window_of("trace", quiet=6)
    window.add(MODEL, 0.0)
    assert keys(window.ready(5.9)) == []
    window.add(AGENT, 5.9)
    assert keys(window.ready(6.0)) == []
    assert keys(window.ready(11.9)) == [["m", "a"]]
    assert keys(window.ready(100.0)) == []


def test_a_trace_is_given_again_when_it_changed():
    """What comes late changes the report, which is given again; what changes nothing is not."""
    window = window_of("request", quiet=1)
    window.add(MODEL, 0.0)
    assert keys(window.ready(1.0)) == [["m"]]
    window.add(AGENT, 2.0)
    assert keys(window.ready(3.0)) == [["m", "a"]]
    window.add(AGENT, 4.0)
    assert keys(window.ready(5.0)) == []


def test_a_report_that_is_anothers_now_is_gone():
    """Once the rollout of a trace is known, what was given without it is taken back; what stays as it was is not."""
    gone = []
    window = window_of("rollout", quiet=0, gone=gone.append)
    window.add(MODEL, 0.0)
    (unnamed,) = window.ready(0.0)
    window.add(server(1, None, rollout="r1"), 1.0)
    window.add(server(5, None, told(failure("x"))), 1.0)
    named, beside = sorted(window.ready(1.0), key=lambda report: report.key or "")[::-1]
    assert (unnamed.key, named.key, beside.key) == (None, "r1", None)
    assert gone == []
    window.add(server(5, 1, end=9), 2.0)
    assert keys(window.ready(2.0)) == [["m", "x"]]
    assert gone == [beside]


def test_what_is_left_is_given_in_the_end():
    """At the end traces are given that were not quiet yet."""
    window = window_of("trace", quiet=60)
    window.add(MODEL, 0.0)
    window.add(FINE, 0.0)
    assert keys(window.rest()) == [["m"]]
    assert keys(window.rest()) == []


def test_what_is_held_is_bounded():
    """Of more spans than may be held the oldest traces are forgotten, and what they told is given first."""
    window = window_of("trace", quiet=60, most=10)
    for number in range(1, 101):
        trace = f"{number:032x}"
        window.add(server(1, None, told(failure(f"f{number}")), own=f"f{number}", trace=trace), float(number))
    assert window._held == 10
    assert keys(window.ready(100.0)) == [[f"f{number}"] for number in range(1, 91)]


def test_one_trace_beyond_the_bound_keeps_what_tells():
    """Of a trace alone beyond the bound what it told is given, and only spans that tell of failures are kept."""
    cut = []
    window = window_of("trace", quiet=0, most=10, cut=cut.append)
    window.add(MODEL, 0.0)
    for number in range(3, 50):
        window.add(span(number, 1), 0.0)
        assert window._held <= 10
    assert set(cut) == {MODEL.trace_id}
    assert keys(window.due()) == [["m"]]
    window.add(server(60, 1, told(failure("late"), at=1)), 1.0)
    assert [sorted(events) for events in keys(window.rest())] == [["late", "m"]]


def test_one_trace_of_many_failures_begins_anew():
    """Where what tells of failures takes more than half of the bound itself, it is given and forgotten too."""
    cut = []
    window = window_of("trace", quiet=0, most=10, cut=cut.append)
    for number in range(1, 34):
        window.add(server(number, None, told(failure(f"f{number}"))), 0.0)
        assert window._held <= 10
    given = [event for report in keys(window.rest()) for event in report]
    assert sorted(given) == sorted(f"f{number}" for number in range(1, 34))
    assert len(cut) == 3


def test_what_an_interrupt_broke_off_is_given_again():
    """A report that was being shown when Ctrl-C came, and those after it, are given in the end."""
    window = window_of("request", quiet=0)
    for number in (1, 2, 3):
        window.add(server(number, None, told(failure(f"f{number}"))), 0.0)
    shown = window.ready(0.0)
    assert keys([next(shown), next(shown)]) == [["f1"], ["f2"]]
    shown.close()
    assert keys(window.rest()) == [["f2"], ["f3"]]


def test_a_large_trace_is_not_put_together_at_each_pause(monkeypatch):
    """A trace that changed is given again, the later the more spans it has."""
    monkeypatch.setattr(limits, "FOLLOWED_AGAIN", 1)
    window = window_of("trace", quiet=1)
    for number in range(3, 12):
        window.add(span(number, 1), 0.0)
    window.add(MODEL, 0.0)
    assert keys(window.ready(1.0)) == [["m"]]
    window.add(AGENT, 2.0)
    assert keys(window.ready(10.9)) == []
    assert keys(window.ready(11.0)) == [["m", "a"]]


@given(stored_spans(), st.sampled_from(["trace", "request", "rollout"]))
def test_in_the_end_everything_was_given(spans, by):
    """Whatever came, what is given in the end is what is rebuilt of each trace."""
    window = window_of(by, quiet=1)
    for record in spans:
        window.add(record, 0.0)
    latest_first = dict.fromkeys(record.trace_id for record in reversed(spans))
    expected = [
        report
        for trace_id in reversed(latest_first)
        for report in rebuild([record for record in spans if record.trace_id == trace_id], by=by)
    ]
    assert [*window.rest()] == expected
