"""Lines of failures in a server's log, read like spans."""

import json
import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gym_failures import semconv
from gym_failures.attributes import from_attributes, to_attributes
from gym_failures.config import Config
from gym_failures.kinds import FailureBoundary
from gym_failures.reading import EventRecord, read_files, read_reports
from gym_failures.reading.otlp_json import parse
from gym_failures.recording import record_failure
from gym_failures.testing import Telemetry
from tests.spans import TRACE, client, failure, relayed, server, span_id, told
from tests.stored import as_line
from tests.strategies import failure_events, mangled_attributes

REFUSED = failure("m", kind="provider_unavailable", boundary=FailureBoundary.MODEL, reason="401")
SERVING = "INFO:     Uvicorn running on http://127.0.0.1:8000 (Press CTRL+C to quit)"
TEXT = ("Traceback (most recent call last):", '{"level": "info", "message": "gym.failure"}', "[", SERVING, "模型")


def line(event, *, number=2, trace=TRACE, at=7, before="", **more):
    """Return the line that a server writes of a failure of which span `number` would have told."""
    names = {} if number is None else {"trace_id": trace, "span_id": span_id(number)}
    told_of = {"event": "gym.failure", "time_unix_nano": at, **names, **more, **to_attributes(event, root=True)}
    return before + json.dumps(told_of, separators=(",", ":"))


def text(*lines):
    """Return the lines of a file."""
    return "".join(f"{one if isinstance(one, str) else as_line(one)}\n" for one in lines).encode()


def only(*files, by="trace"):
    """Return the one report that is told by files, each given as its lines."""
    (report,) = found = read_files([text(*lines) for lines in files], by=by)
    assert found.skips == 0
    return report


@given(failure_events())
def test_any_failure_comes_back(event):
    """A line is read as the event that it was written from."""
    report = only([line(event)])
    assert [*report.report.events.values()] == [
        from_attributes(to_attributes(event)).model_copy(update={"cause_id": None})
    ]
    assert report.trace_id == TRACE
    assert [*report.times.values()] == [7]


def test_what_is_written_is_what_is_read(caplog):
    """The lines that the recorder writes while a span is open are read as what the span tells when it has ended."""
    with Telemetry(Config(log_lines="always")) as telemetry:
        with telemetry.span("request") as span:
            span.set_attribute(semconv.NEMO_GYM_ROLLOUT_ID, "r7")
            record_failure(REFUSED)
        (stored,) = telemetry.reports(by="rollout")
    logged = [record.getMessage() for record in caplog.records if record.name == semconv.LOGGER_FAILURES]
    found = only(logged, by="rollout")
    assert (found.key, found.trace_id, found.span.span_id) == ("r7", stored.trace_id, stored.span.span_id)
    assert found.report.events == stored.report.events


@pytest.mark.parametrize("turn", [1, -1], ids=["spans first", "lines first"])
def test_a_line_and_a_span_are_one_by_their_id(turn):
    """What a span tells and a line too is one failure, and the span is as it was stored."""
    stored = server(
        2, None, told(REFUSED, at=5), own="m", rollout="r1", service="model", name="POST /v1/responses", end=9
    )
    alone = only([stored], by="rollout")
    both = only(*[[stored], [line(REFUSED)]][::turn], by="rollout")
    assert (both.report, both.key, both.services, both.failed) == (alone.report, "r1", {"m": "model"}, True)
    assert (both.span.name, both.span.kind, both.span.end_ns) == (stored.name, stored.kind, 9)


def test_a_lost_span_has_its_place_among_those_that_were_stored():
    """Of a killed server its callers and those that it called tell, and its lines stand with what they tell."""
    collection = server(1, None, told(failure("c", kind="transport_peer_drop"), at=9), own="c", rollout="r1")
    provider = client(3, 2, told(failure("p", kind="provider_unavailable"), at=5))
    for unit in ("trace", "request"):
        report = only([line(failure("a", "p"), number=2)], [provider], by=unit)
        assert {*report.report.events} == {"a", "p"}
        assert report.report.events["a"].cause_id == "p"
    report = only(
        [line(failure("a", "p"), number=2, **{semconv.NEMO_GYM_ROLLOUT_ID: "r1"})], [collection, provider], by="rollout"
    )
    assert (report.key, report.failed, {*report.unlinked}) == ("r1", True, {"a", "p"})
    assert report.root.failure_kind == "transport_peer_drop"


def test_lines_alone_are_not_taken_for_recovered():
    """Where lines are all there is, nothing says that anybody recovered: it failed, and how is not known."""
    report = only([line(REFUSED)])
    assert (report.failed, report.root, report.recovered) == (True, None, ())


def test_who_saw_the_end_has_the_last_word():
    """Where a span tells how it ended, a line of a failure beneath changes nothing: it was recovered from."""
    top = server(1, None, relayed(REFUSED), rollout="r1")
    report = only([top], [line(REFUSED, number=2, **{semconv.NEMO_GYM_ROLLOUT_ID: "r1"})], by="rollout")
    assert (report.failed, report.recovered, report.remote_only) == (False, ("m",), ())


def test_lines_of_one_lost_request_are_one_report():
    """The lines of one span are one request, under the id of that span."""
    report = only([line(REFUSED), line(failure("a", "m"))], by="request")
    assert (report.key, {*report.report.events}, report.missing_causes) == (span_id(2), {"m", "a"}, ())


def test_a_line_without_a_trace():
    """Where there is no tracing at all, each failure stands alone, and is one however often it is read."""
    logged = [line(REFUSED, number=None), line(failure("a"), number=None)]
    assert [{*report.report.events} for report in read_files([text(*logged), text(*logged)])] == [{"m"}, {"a"}]


@pytest.mark.parametrize("before", ["", "WARNING:gym_failures.failures:", "2026-05-01 14:30:00,123 [7] "])
def test_a_log_has_other_lines(before):
    """What else stands in a log, and what it puts before a line, is passed over, spans among it are read."""
    stored = server(1, None, told(failure("x")), own="x")
    found = read_reports(text(*TEXT, line(REFUSED, before=before), "]", as_line(stored), *TEXT), by="request")
    assert ([{*report.report.events} for report in found], found.skips, found.spans) == ([{"x"}, {"m"}], 0, 2)


def test_lines_among_spans():
    """Lines of failures are read behind spans too, in one file, whichever of both somebody looks for first."""
    fine = [server(number, None, trace=f"{number:032x}") for number in range(3, 9)]
    found = read_reports(text(*fine, server(1), line(REFUSED), *fine))
    assert ([{*report.report.events} for report in found], found.skips) == ([{"m"}], 0)


def test_a_line_that_was_cut():
    """A line that cannot be read to its end is a skip, and so is one that names no failure."""
    cut = [line(REFUSED)[:-9], '{"event":"gym.failure"}', '{"event":"gym.failure","failure.id":']
    found = read_reports(text(line(failure("a")), *cut))
    assert [(skip.line, skip.reason) for skip in found.skipped] == [
        (number, "the line of a failure is damaged") for number in (2, 3, 4)
    ]
    assert len(found) == 1


OTHER = "2" * 32
FIRST, SECOND = line(failure("f1")), line(failure("f2"), trace=OTHER)
STORED = as_line(server(1, None, told(failure("s")), own="s", trace="3" * 32)).replace(": ", ":").replace(", ", ",")
IN_ONE = {
    "half a line": (FIRST[:60] + SECOND, {"f2"}, 1),
    "half a line and a record": (FIRST[:60] + STORED, {"s"}, 1),
    "half a record": (STORED[:60] + SECOND, {"f2"}, 1),
    "a line": (FIRST + SECOND, {"f1", "f2"}, 0),
    "a line and a record": (FIRST + STORED, {"f1", "s"}, 0),
    "a record": (STORED + SECOND, {"s", "f2"}, 0),
    "a record and a line without a trace": (STORED + line(failure("f3"), number=None), {"s", "f3"}, 0),
}


@pytest.mark.parametrize(("written", "told_of", "skips"), IN_ONE.values(), ids=IN_ONE)
@pytest.mark.parametrize("before", [SERVING, as_line(server(9, trace="9" * 32))], ids=["in a log", "behind spans"])
def test_what_goes_on_in_a_line(written, told_of, skips, before):
    """A writer that was killed leaves half a line: what comes behind it in the same line is read, and half is told."""
    found = read_reports(text(before, line(failure("f0"), number=None), written))
    assert {event_id for report in found for event_id in report.report.events} == told_of | {"f0"}
    assert found.skips == skips


@pytest.mark.parametrize("before", [("{", '  "port": 1', "}"), ("[",)], ids=["object", "list"])
def test_a_log_that_begins_like_a_document(before):
    """A first line that leaves open what it opens does not make one document of a log: each failure is read."""
    found = read_reports(text(*before, SERVING, FIRST, SECOND, SERVING))
    assert ([{*report.report.events} for report in found], found.skips) == ([{"f1"}, {"f2"}], 0)


BEGINNINGS = ('{"level": "info"}', "0", "(resources_server) INFO started", '{"resources_server": {}}')


@pytest.mark.parametrize("beginning", BEGINNINGS)
def test_a_log_is_told_whatever_it_begins_with(beginning):
    """Other JSON, or names like those of records, before a failure far behind them make no skips of a log's lines."""
    found = read_reports(text(beginning, *[SERVING] * 2_000, FIRST, SERVING, SECOND))
    assert ([{*report.report.events} for report in found], found.skips) == ([{"f1"}, {"f2"}], 0)


@given(
    st.dictionaries(st.sampled_from(["trace_id", "span_id", "time_unix_nano"]), st.integers() | st.text()),
    mangled_attributes(),
)
def test_nothing_in_a_line_makes_reading_fail(names, attributes):
    """Whatever stands in a line, it is a failure, one that cannot be read, or a skip."""
    logged = json.dumps({"event": "gym.failure", **names, **attributes}, default=repr)
    found = read_reports(text(logged, line(REFUSED, trace="2" * 32)))
    assert found.skips == (not isinstance(json.loads(logged).get(semconv.FAILURE_ID), str | int | float))
    assert {"m"} <= {event_id for report in found for event_id in report.report.events}


def test_a_log_handler_as_programs_have_them(caplog):
    """What Python's own format of a log makes of a line is read."""
    with Telemetry(Config(log_lines="always")):
        record_failure(REFUSED)
    (record,) = caplog.records
    formatted = logging.Formatter("%(asctime)s %(levelname)s [%(name)s] %(message)s (%(process)d)").format(record)
    assert {*only([SERVING, formatted]).report.events} == {"m"}


def test_what_is_no_plain_value_is_left_out_and_counted():
    """Lists and objects are no values of a line, however deep; null is none, and an id that is a list is damage."""
    deep = "[" * 400 + "]" * 400
    (span,) = parse(
        f'{{"event":"gym.failure","failure.id":"m","a":null,"b":{deep},"nemo.gym.rollout.id":{deep}}}'
    ).spans
    assert span.events == [EventRecord("gym.failure", attributes={semconv.FAILURE_ID: "m"}, dropped_attributes=2)]
    assert not span.attributes
    assert read_reports(f'{{"event":"gym.failure","failure.id":{deep}}}'.encode()).skips == 1
