"""Jaeger's own JSON to span records."""

import base64
import json

import pytest
from hypothesis import given

from gym_failures import semconv
from gym_failures.reading import EventRecord, Skip, SpanKind, SpanLink, SpanRecord, SpanStatus, Tally, read_reports
from gym_failures.reading.jaeger_json import failing_traces, is_jaeger, parse_document
from tests.spans import TRACE, span_id
from tests.strategies import json_values

OTHER_TRACE = "1" * 32


def tag(key, value, of="string"):
    """Return one tag."""
    return {"key": key, "type": of, "value": value}


def told(event_id="f", kind="cancelled"):
    """Return the log that tells of a failure."""
    fields = [tag("event", semconv.EVENT_NAME), tag("failure.boundary", "agent")]
    return {"timestamp": 7, "fields": [*fields, tag("failure.kind", kind), tag("failure.id", event_id)]}


def stored(number, trace=TRACE, **fields):
    """Return a span that tells of a failure, with no more than its ids and what is given."""
    return {"traceID": trace, "spanID": span_id(number), "logs": [told()], "processID": "p1", **fields}


def trace(*spans, trace_id=TRACE):
    """Return a trace of one process."""
    tags = [tag("host.name", "h")]
    return {"traceID": trace_id, "spans": [*spans], "processes": {"p1": {"serviceName": "agent", "tags": tags}}}


def document(*traces):
    """Return an answer of Jaeger's query API."""
    return json.dumps({"data": [*traces], "total": 0, "limit": 0, "offset": 0, "errors": None}).encode()


def read(text):
    """Return the spans of the failing traces, and what was skipped."""
    tally = Tally()
    spans = [*parse_document(text, tally, traces=failing_traces(text))]
    return spans, tally.skipped


def only(**fields):
    """Return the record of the one span that has these fields."""
    ((span,), skipped) = read(document(trace(stored(2, **fields))))
    assert skipped == []
    return span


def test_a_whole_span():
    """Each field of a span goes to its place, and microseconds become nanoseconds."""
    assert only(
        operationName="POST /run",
        references=[
            {"refType": "CHILD_OF", "traceID": TRACE, "spanID": span_id(1)},
            {"refType": "FOLLOWS_FROM", "traceID": OTHER_TRACE, "spanID": span_id(9)},
        ],
        startTime=1_700_000_000_000_001,
        duration=5,
        tags=[
            tag("span.kind", "server"),
            tag("otel.status_code", "ERROR"),
            tag("http.response.status_code", 500, "int64"),
        ],
        logs=[told(), {"timestamp": 8, "fields": [tag("event", "other"), tag("n", 1, "int64")]}],
        warnings=None,
    ) == SpanRecord(
        trace_id=TRACE,
        span_id=span_id(2),
        parent_id=span_id(1),
        name="POST /run",
        kind=SpanKind.SERVER,
        service="agent",
        start_ns=1_700_000_000_000_001_000,
        end_ns=1_700_000_000_000_006_000,
        status=SpanStatus.ERROR,
        attributes={"span.kind": "server", "otel.status_code": "ERROR", "http.response.status_code": 500},
        events=[
            EventRecord(
                semconv.EVENT_NAME, 7_000, {"failure.boundary": "agent", "failure.kind": "cancelled", "failure.id": "f"}
            ),
            EventRecord("other", 8_000, {"n": 1}),
        ],
        links=[SpanLink(OTHER_TRACE, span_id(9))],
        resource={"service.name": "agent", "host.name": "h"},
    )


VALUES = {
    "text": (tag("k", "v"), "v"),
    "text without a type": ({"key": "k", "value": "v"}, "v"),
    "true": (tag("k", True, "bool"), True),  # noqa: FBT003 - a value
    "true as text": (tag("k", "true", "bool"), True),
    "a number": (tag("k", 5, "int64"), 5),
    "a number as text, beyond what JavaScript holds": (tag("k", str(2**60), "int64"), 2**60),
    "a float": (tag("k", 0.5, "float64"), 0.5),
    "a float that is whole": (tag("k", 2, "float64"), 2.0),
    "bytes": (tag("k", base64.b64encode(b"\0\xff").decode(), "binary"), b"\0\xff"),
}


@pytest.mark.parametrize(("given_tag", "value"), VALUES.values(), ids=VALUES)
def test_values(given_tag, value):
    """Every type of Jaeger's values is read (jaeger#6389)."""
    span = only(tags=[given_tag])
    assert span.attributes == {"k": value}
    assert type(span.attributes["k"]) is type(value)


UNREADABLE = {
    "a type of nobody": tag("k", "v", "colour"),
    "a number that is none": tag("k", "five", "int64"),
    "a bool that is none": tag("k", 1, "bool"),
    "a float that is none": tag("k", True, "float64"),  # noqa: FBT003 - a value
    "text that is none": tag("k", 1),
    "bytes that are none": tag("k", "!", "binary"),
    "no key": {"type": "string", "value": "v"},
    "no value": {"key": "k", "type": "string"},
    "a key that is no text": tag(1e300, "v"),
    "no tag": 5,
    "a key that cannot be one": {"key": [], "type": "string", "value": "v"},
}


@pytest.mark.parametrize("unreadable", UNREADABLE.values(), ids=UNREADABLE)
def test_a_value_that_cannot_be_read_is_counted(unreadable):
    """A damaged tag costs itself, on a span and on an event of it, and is counted as dropped."""
    span = only(tags=[unreadable, tag("x", "y")], logs=[{**told(), "fields": [*told()["fields"], unreadable]}])
    assert (span.attributes, span.dropped_attributes) == ({"x": "y"}, 1)
    assert span.events[0].dropped_attributes == 1


STATUSES = {
    "not told": ([], SpanStatus.UNSET),
    "well": ([tag("otel.status_code", "OK")], SpanStatus.OK),
    "failed": ([tag("otel.status_code", "ERROR")], SpanStatus.ERROR),
    "failed, as Jaeger's own clients say": ([tag("error", True, "bool")], SpanStatus.ERROR),  # noqa: FBT003 - a value
}


@pytest.mark.parametrize(("tags", "status"), STATUSES.values(), ids=STATUSES)
def test_statuses(tags, status):
    """A span's status is what its tags say."""
    assert only(tags=tags).status is status


PARENTS = {
    "none": ({}, None),
    "a reference": ({"references": [{"refType": "CHILD_OF", "traceID": TRACE, "spanID": span_id(1)}]}, span_id(1)),
    "of another trace": ({"references": [{"refType": "CHILD_OF", "traceID": OTHER_TRACE, "spanID": span_id(1)}]}, None),
    "as old versions have it": ({"parentSpanID": "1"}, span_id(1)),
    "damaged": ({"references": [{"refType": "CHILD_OF", "traceID": TRACE}, 5]}, None),
}


@pytest.mark.parametrize(("fields", "parent"), PARENTS.values(), ids=PARENTS)
def test_parents(fields, parent):
    """The parent is the span of the same trace whose child this one is said to be."""
    assert only(**fields).parent_id == parent


def test_ids_without_their_zeros():
    """An id whose zeros in front were left out, as by Jaeger's older versions, is the same id."""
    ((span,), _) = read(document(trace(stored(2, traceID="abc", spanID="2"), trace_id="abc")))
    assert (span.trace_id, span.span_id) == ("abc".zfill(32), span_id(2))


FORMS = {
    "an answer": document(trace(stored(1))),
    "an answer, indented": json.dumps(json.loads(document(trace(stored(1)))), indent=4).encode(),
    "a download": json.dumps({"data": [trace(stored(1))]}).encode(),
    "traces alone": json.dumps([trace(stored(1))]).encode(),
    "a trace alone": json.dumps(trace(stored(1))).encode(),
}


@pytest.mark.parametrize("text", FORMS.values(), ids=FORMS)
def test_forms_of_documents(text, tmp_path):
    """Each form in which Jaeger gives traces away is told from OTLP JSON, and read."""
    path = tmp_path / "traces.json"
    path.write_bytes(text)
    (report,) = read_reports(path)
    assert report.report.events["f"].failure_kind == "cancelled"


def test_otlp_is_not_taken_for_jaegers():
    """OTLP JSON does not start like a document of Jaeger's."""
    assert not any(map(is_jaeger, (b"", b"{}", b'{"resourceSpans":[]}', b'{"batches":[]}', b"junk", b"[]")))


def test_a_damaged_span_costs_itself():
    """A span without ids is skipped and told of, and those beside it are read."""
    damaged = [stored(1, traceID=None), stored(1, spanID="0"), stored(1, spanID=5), "junk"]
    spans, skipped = read(document(trace(*damaged, stored(2))))
    assert [span.span_id for span in spans] == [span_id(2)]
    assert skipped == [Skip(0, "a span has no trace id or no span id")] * 4


def test_a_document_that_was_cut_gives_its_whole_traces():
    """Of a download that broke off, the traces before the break are read, and that it broke off is said."""
    whole = document(*(trace(stored(1, trace=f"{n:032x}"), trace_id=f"{n:032x}") for n in range(1, 4)))
    spans, skipped = read(whole[:-100])
    assert [span.trace_id for span in spans] == [f"{n:032x}" for n in (1, 2)]
    assert [skip.reason.partition(";")[0] for skip in skipped] == ["the document is damaged or cut off"]


def test_an_error_is_told():
    """An answer that is an error has no spans, and is no empty result."""
    answer = {"data": None, "errors": [{"code": 404, "msg": "trace not found"}]}
    assert read(json.dumps(answer).encode()) == ([], [Skip(0, "Jaeger answered with an error")])


def test_traces_without_failures_are_not_read():
    """A trace that tells of no failure gives no span."""
    assert read(document(trace(stored(1, logs=[])))) == ([], [])


@given(json_values(), json_values(), json_values())
def test_no_document_makes_reading_raise(one, other, third):
    """Whatever stands where something else should, reading goes on."""
    for damaged in (
        {"data": one},
        {"data": [one, trace(stored(1))]},
        {"data": [trace(stored(1), other, stored(2, logs=one, tags=other, references=third))]},
        {"data": [trace(stored(1, startTime=one, duration=other, processID=third))]},
        {"data": [{**trace(stored(1)), "processes": one}, {**trace(stored(1)), "spans": other}]},
        {"data": [{**trace(stored(1)), "processes": {"p1": third}}], "errors": one},
    ):
        read_reports(json.dumps(damaged))


IMPOSSIBLE = {"before 1970": -5, "beyond 64 bits": 10**17, "no number": "x"}


@pytest.mark.parametrize("time", IMPOSSIBLE.values(), ids=IMPOSSIBLE)
def test_a_time_that_cannot_be_one_is_unknown(time):
    """An impossible time of a span or an event is 0, which is none."""
    span = only(startTime=time, duration=time, logs=[{**told(), "timestamp": time}])
    assert (span.start_ns, span.end_ns, span.events[0].time_ns) == (0, 0, 0)
