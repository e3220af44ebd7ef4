"""OTLP JSON to span records, in all its spellings, and with damage of every kind."""

import base64
import itertools
import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gym_failures import limits, semconv
from gym_failures.reading import EventRecord, Skip, SpanKind, SpanLink, SpanRecord, SpanStatus, Tally, read_reports
from gym_failures.reading.otlp_json import failing_traces, parse, parse_lines
from gym_failures.reading.otlp_values import hex_id, integer, nanoseconds, span_kind, span_status
from tests.spans import TRACE, span_id
from tests.strategies import json_values

OTHER_TRACE = "1" * 32


def pair(key, **value):
    """Return an OTLP key-value pair."""
    return {"key": key, "value": value}


def stored(number, trace=TRACE, **fields):
    """Return a span as OTLP JSON has it, with no more than its ids and what is given."""
    return {"traceId": trace, "spanId": span_id(number), **fields}


def request(*spans, service="agent"):
    """Return one export of `spans` by one process."""
    resource = {"attributes": [pair("service.name", stringValue=service)]}
    return {"resourceSpans": [{"resource": resource, "scopeSpans": [{"scope": {"name": "x"}, "spans": list(spans)}]}]}


def line(*spans, **said):
    """Return one export as a line of a file."""
    return json.dumps(request(*spans, **said)).encode() + b"\n"


def names(parsed):
    """Return the numbers of the spans that were read."""
    return [int(span.span_id, 16) for span in parsed.spans]


WHOLE = stored(
    2,
    parentSpanId=span_id(1),
    name="POST /run",
    kind=2,
    startTimeUnixNano="1700000000000000001",
    endTimeUnixNano="1700000000000000002",
    attributes=[pair("http.response.status_code", intValue="500"), pair("nothing")],
    droppedAttributesCount=3,
    events=[
        {
            "timeUnixNano": "1700000000000000001",
            "name": semconv.EVENT_NAME,
            "attributes": [pair(semconv.FAILURE_ID, stringValue="f")],
            "droppedAttributesCount": 1,
        }
    ],
    droppedEventsCount=72,
    links=[{"traceId": OTHER_TRACE, "spanId": span_id(9), "attributes": []}],
    status={"message": "no", "code": 2},
)
RECORD = SpanRecord(
    trace_id=TRACE,
    span_id=span_id(2),
    parent_id=span_id(1),
    name="POST /run",
    kind=SpanKind.SERVER,
    service="agent",
    start_ns=1700000000000000001,
    end_ns=1700000000000000002,
    status=SpanStatus.ERROR,
    attributes={"http.response.status_code": 500},
    events=[EventRecord(semconv.EVENT_NAME, 1700000000000000001, {semconv.FAILURE_ID: "f"}, 1)],
    links=[SpanLink(OTHER_TRACE, span_id(9))],
    dropped_events=72,
    dropped_attributes=3,
    resource={"service.name": "agent"},
)


def respelt(document, *, key=lambda name: name, **values):
    """Return `document` with every key as `key` makes it, and each of the keys in `values` with its value so made."""
    if isinstance(document, list):
        return [respelt(item, key=key, **values) for item in document]
    if not isinstance(document, dict):
        return document
    return {
        key(name): values[name](value) if name in values else respelt(value, key=key, **values)
        for name, value in document.items()
    }


def snake(name):
    """Return a camelCase key as snake_case."""
    return re.sub("[A-Z]", lambda letter: f"_{letter[0].lower()}", name)


def in_base64(hex_text):
    """Return an id as protobuf's own JSON has it."""
    return base64.b64encode(bytes.fromhex(hex_text)).decode()


def renamed(name, other):
    """Return the document with another name for a key."""
    return json.loads(json.dumps(DOCUMENT).replace(name, other))


DOCUMENT = request(WHOLE)
TIMES = ("startTimeUnixNano", "endTimeUnixNano", "timeUnixNano")
IDS = ("traceId", "spanId", "parentSpanId")

SPELLINGS = {
    "as the exporters write it": DOCUMENT,
    "snake_case": respelt(DOCUMENT, key=snake),
    "numbers as numbers": respelt(DOCUMENT, **dict.fromkeys((*TIMES, "intValue"), int)),
    "numbers as text": respelt(
        DOCUMENT, **dict.fromkeys(("droppedEventsCount", "droppedAttributesCount", "code"), str)
    ),
    "whole numbers as floats": respelt(DOCUMENT, intValue=float, droppedEventsCount=float, kind=float, code=float),
    "enums by name": respelt(DOCUMENT, kind=lambda _: "SPAN_KIND_SERVER", code=lambda _: "STATUS_CODE_ERROR"),
    "enums by number as text": respelt(DOCUMENT, kind=str, code=str),
    "ids in capitals": respelt(DOCUMENT, **dict.fromkeys(IDS, str.upper)),
    "ids in base64": respelt(DOCUMENT, **dict.fromkeys(IDS, in_base64)),
    "null for what is not there": request(WHOLE | {"traceState": None, "flags": None}),
    "unknown fields": respelt(DOCUMENT, status=lambda status: status | {"newer": [1]}) | {"newer": {"a": 1}},
    "OTLP's former name": renamed("scopeSpans", "instrumentationLibrarySpans"),
    "Tempo's name": renamed("resourceSpans", "batches"),
}

WAYS = {
    "a decoded object": lambda document: document,
    "a line": json.dumps,
    "bytes": lambda document: json.dumps(document).encode(),
    "bytes with a byte order mark": lambda document: json.dumps(document).encode("utf-8-sig"),
    "an indented document": lambda document: json.dumps(document, indent=2),
    "a list of exports": lambda document: json.dumps([document]),
    "an indented list": lambda document: json.dumps([document], indent=1),
    "a file of lines": lambda document: f"\n{json.dumps(document)}\n\r\n{{}}\n",
    "a file with CR LF": lambda document: json.dumps(document) + "\r\n",
    "a line after NULs, where a file was cut under its writer": lambda document: "\0" * 9 + json.dumps(document),
}


@pytest.mark.parametrize("document", SPELLINGS.values(), ids=SPELLINGS)
def test_every_spelling(document):
    """A span reads the same in every spelling of keys, numbers, enums and ids (collector#8720, jaeger#5293)."""
    assert parse(document) == ([RECORD], [])


@pytest.mark.parametrize("spelt", SPELLINGS.values(), ids=SPELLINGS)
@pytest.mark.parametrize("given_as", WAYS.values(), ids=WAYS)
def test_every_way_of_giving_it(given_as, spelt):
    """A document reads the same as an object, a line, a file, or spread over lines."""
    assert parse(given_as(spelt)) == ([RECORD], [])


def test_missing_fields():
    """A span with nothing but its ids is read, with nothing made up (jaeger#5293)."""
    assert parse({"resourceSpans": [{"scopeSpans": [{"spans": [stored(1)]}]}]}).spans == [
        SpanRecord(TRACE, span_id(1), events=[], links=[])
    ]


EMPTY = {
    "nothing": "",
    "blank lines": "\n  \n\t\r\n",
    "an empty export": "{}",
    "no resources": '{"resourceSpans":[]}',
    "no scopes": '{"resourceSpans":[{"resource":{}}]}',
    "no spans": '{"resourceSpans":[{"scopeSpans":[{"scope":{}}]}]}',
    "null in place of lists": '{"resourceSpans":[{"scopeSpans":[{"spans":null}]},{"scopeSpans":null}]}',
}


@pytest.mark.parametrize("text", EMPTY.values(), ids=EMPTY)
def test_empty(text):
    """What holds no span and no damage is nothing, and nothing is skipped."""
    assert parse(text) == ([], [])


# --- Values. ----------------------------------------------------------------------------------------------------------

VALUES = {
    "text": ({"stringValue": "模型\u2028"}, "模型\u2028"),
    "empty text": ({"stringValue": ""}, ""),
    "a number as text": ({"intValue": "-7"}, -7),
    "a number": ({"intValue": 7}, 7),
    "a number in a float": ({"intValue": 7.0}, 7),
    "the largest number": ({"intValue": str(2**63 - 1)}, 2**63 - 1),
    "a flag": ({"boolValue": False}, False),
    "a flag as text": ({"boolValue": "true"}, True),
    "a float": ({"doubleValue": 0.5}, 0.5),
    "a float as text": ({"doubleValue": "0.5"}, 0.5),
    "a whole float": ({"doubleValue": 2}, 2.0),
    "an infinite float": ({"doubleValue": "-Infinity"}, float("-inf")),
    "bytes": ({"bytesValue": "YWI="}, b"ab"),
    "a list": ({"arrayValue": {"values": [{"intValue": "1"}, {"stringValue": "a"}]}}, [1, "a"]),
    "an empty list": ({"arrayValue": {}}, []),
    "a list with a gap": ({"arrayValue": {"values": [{}, {"intValue": "1"}]}}, [None, 1]),
    "a map": ({"kvlistValue": {"values": [pair("k", arrayValue={"values": [{"boolValue": True}]})]}}, {"k": [True]}),
    "snake_case": ({"string_value": "a"}, "a"),
    "a bare scalar": ("a", "a"),
}

ABSENT = {"nothing set": {}, "null": None, "a null value": {"stringValue": None}}

UNREADABLE = {
    "text that is none": {"stringValue": 1},
    "a number that is none": {"intValue": "seven"},
    "half a number": {"intValue": 7.5},
    "a number of 5,000 digits": {"intValue": "9" * 5_000},
    "a flag that is none": {"boolValue": "maybe"},
    "a flag that is a list": {"boolValue": []},
    "a float that is none": {"doubleValue": "much"},
    "bytes that are none": {"bytesValue": "%"},
    "a list that is none": {"arrayValue": 1},
    "a list without a list": {"arrayValue": {"values": 1}},
    "a list with an unreadable value": {"arrayValue": {"values": [{"intValue": "seven"}]}},
    "a map with an unreadable value": {"kvlistValue": {"values": [pair("k", intValue="seven")]}},
    "a type of a newer version": {"uuidValue": "1"},
    "a list": [],
}


def attributes_of(*pairs):
    """Return the attributes of a span that has `pairs`, and how many it lacks."""
    (read,), skipped = parse(line(stored(1, attributes=list(pairs))))
    assert skipped == []
    return read.attributes, read.dropped_attributes


@pytest.mark.parametrize(("value", "expected"), VALUES.values(), ids=VALUES)
def test_values(value, expected):
    """Every type of value reads as what it is, with exactly its type."""
    found, lacking = attributes_of({"key": "k", "value": value})
    assert (repr(found), lacking) == (repr({"k": expected}), 0)


@pytest.mark.parametrize("value", ABSENT.values(), ids=ABSENT)
def test_a_value_that_is_not_set_is_absent(value):
    """What the SDK carries as None, an AnyValue with nothing set, is no attribute and no loss (bigquery#1140)."""
    assert attributes_of({"key": "k", "value": value}, {"key": "k2"}, pair("k3", boolValue=True)) == ({"k3": True}, 0)


@pytest.mark.parametrize("value", UNREADABLE.values(), ids=UNREADABLE)
def test_an_unreadable_value_costs_itself(value):
    """A value that cannot be read is counted among the dropped attributes, and its neighbours are read."""
    assert attributes_of({"key": "k", "value": value}, pair("k2", boolValue=True)) == ({"k2": True}, 1)


@pytest.mark.parametrize(
    "pairs", [1, [1], [{"value": {}}], [{"key": 1, "value": {"stringValue": "a"}}], "text"], ids=repr
)
def test_attributes_that_are_none(pairs):
    """What stands in place of attributes and is none is counted, and its span is read."""
    (read,), skipped = parse(line(stored(1, attributes=pairs)))
    assert (read.attributes, read.dropped_attributes, skipped) == ({}, 1, [])


def nested(levels):
    """Return a value of lists in lists."""
    value = {"intValue": "1"}
    for _ in range(levels):
        value = {"arrayValue": {"values": [value]}}
    return value


def test_the_depth_of_a_value_is_bounded():
    """A value as deep as the limit is read; one deeper costs its attribute, and no recursion error."""
    assert attributes_of({"key": "k", "value": nested(limits.ATTRIBUTE_DEPTH)})[1] == 0
    assert attributes_of({"key": "k", "value": nested(limits.ATTRIBUTE_DEPTH + 1)}) == ({}, 1)


EVENTS = {
    "an event that is none": [1, {"name": "good"}],
    "a name that is none": [{"name": 5}, {"name": "good"}],
}


@pytest.mark.parametrize("events", EVENTS.values(), ids=EVENTS)
def test_an_unreadable_event_costs_itself(events):
    """An event that cannot be read is counted among the dropped events, and its neighbours are read."""
    (read,), _ = parse(line(stored(1, events=events, droppedEventsCount=2)))
    assert ([event.name for event in read.events], read.dropped_events) == (["good"], 3)


def test_events_that_are_none():
    """What stands in place of the list of events counts as one that was lost."""
    (read,), _ = parse(line(stored(1, events="gone", links="gone", status="gone")))
    assert (read.events, read.dropped_events, read.links, read.status) == ([], 1, [], SpanStatus.UNSET)


@pytest.mark.parametrize("link", [1, {}, {"traceId": TRACE}, {"traceId": TRACE, "spanId": "x"}], ids=repr)
def test_an_unreadable_link_is_left_out(link):
    """A link that points nowhere is no link."""
    assert parse(line(stored(1, links=[link]))).spans[0].links == []


NUMBERS = [("7", 7), (" 7 ", 7), (7, 7), (7.0, 7), (-1, -1), ("0x7", None), ("", None), (7.5, None), (True, None)]


@pytest.mark.parametrize(("value", "expected"), NUMBERS, ids=repr)
def test_integers(value, expected):
    """A whole number is read from a number or from text, and nothing else is one."""
    assert integer(value) == expected


TIMES_READ = [
    ("7", 7),
    (limits.LATEST_TIME, limits.LATEST_TIME),
    (limits.LATEST_TIME + 1, 0),
    ("9" * 22, 0),
    (-1, 0),
    ("-5", 0),
    (None, 0),
]


@pytest.mark.parametrize(("value", "expected"), TIMES_READ, ids=repr)
def test_times(value, expected):
    """A time that cannot be one is unknown, in a span and in its events."""
    assert nanoseconds(value) == expected
    (span,) = parse(
        line(stored(1, startTimeUnixNano=value, endTimeUnixNano=value, events=[{"timeUnixNano": value}]))
    ).spans
    assert (span.start_ns, span.end_ns, span.events[0].time_ns) == (expected, expected, expected)


IDS_READ = {
    "0AF7651916CD43DD": "0af7651916cd43dd",
    in_base64("0af7651916cd43dd"): "0af7651916cd43dd",
    "0" * 16: None,
    in_base64("0" * 16): None,
    "": None,
    "0af7": None,
    "not an id at all": None,
    "\x1b[31mno\x1b]0;no": None,
    "0x_7651916cd43dd": None,
    5: None,
    None: None,
}


@pytest.mark.parametrize(("value", "expected"), IDS_READ.items(), ids=map(repr, IDS_READ))
def test_ids(value, expected):
    """An id is read from hex or base64; an empty one, one of zeros, and any other text of that length are none."""
    assert hex_id(value, 8) == expected


@pytest.mark.parametrize("value", [9, -1, "SPAN_KIND_NEWER", None, [], {}, True], ids=repr)
def test_enums_of_newer_versions(value):
    """A kind or status that is not known is unspecified or unset, never an error."""
    assert (span_kind(value), span_status(value)) == (SpanKind.UNSPECIFIED, SpanStatus.UNSET)


# --- Damage. ----------------------------------------------------------------------------------------------------------

GOOD, LAST = line(stored(1)), line(stored(2))
WRONG = {
    "no trace id": {"spanId": span_id(9)},
    "no span id": {"traceId": TRACE},
    "an id of zeros": stored(9, trace="0" * 32) | {"name": 5},
    "a short id": stored(9, trace="abc"),
    "an id that is a number": stored(9, trace=5),
    "a trace id that is no hex": stored(9, trace="\x1b]0;no\x07".ljust(32, "0")),
    "a span id that is no hex": stored(9, spanId="\x1b]0;no\x07".ljust(16, "0")),
    "a name that is a number": stored(9, name=5),
    "a name that is a flag": stored(9, name=True),
    "a kind that is a list": stored(9, kind=[2]),
    "a time that is an object": stored(9, startTimeUnixNano={}),
    "null": None,
    "text": "span",
}

DAMAGE = {
    "a line cut in its middle": (GOOD + LAST[:40], [1], [2]),
    "a first line cut in its middle": (GOOD[:40] + b"\n" + LAST, [2], [1]),
    "a line cut after its first brace": (b"{\n" + GOOD + LAST, [1, 2], [1]),
    "half a line, and the next writer's in the same line": (GOOD[:40] + GOOD + LAST, [1, 2], [1]),
    "two records in one line": (GOOD.strip() + LAST, [1, 2], []),
    "junk": (GOOD + b"\x00\x01\x02\n" + b"Traceback (most recent call last):\n" + LAST, [1, 2], [2, 3]),
    "another signal, and a record in its line": (GOOD + b'{"resourceLogs":[' + LAST + b"junk", [1, 2], [3]),
    "JSON that is no export": (GOOD + b'5\n"a"\n[1]\nnull\n' + LAST, [1, 2], [2, 3, 4, 5]),
    "lists that are none": (b'{"resourceSpans":{}}\n{"resourceSpans":[{"scopeSpans":5}]}\n' + LAST, [2], [1, 2]),
    "members that are none": (b'{"resourceSpans":[5,{"scopeSpans":["a"]}]}\n' + LAST, [2], [1, 1]),
    "deep nesting": (GOOD + b"[" * 100_000 + b"\n" + LAST, [1, 2], [2]),
}


OTHERS = {
    "logs": b'{"resourceLogs":[]}\n',
    "metrics": b'{"resourceMetrics":[{"scopeMetrics":[{"metrics":[{"name":"gym.failures"}]}]}]}\n',
    "profiles": b' {"resourceProfiles":[]}\n',
    "snake_case, in a list": b'[ {"resource_logs":[]}]\n',
    "what was cut": b'{"resourceMetrics":[{"scopeMe\n',
}


@pytest.mark.parametrize("other", OTHERS.values(), ids=OTHERS)
def test_other_signals(other):
    """Metrics and logs that stand beside spans are no damage: they are passed over, and counted apart."""
    tally = Tally()
    spans = [*parse_lines([other + GOOD + other + LAST], tally)]
    assert ([span.span_id for span in spans], tally.spans, tally.skips, tally.others) == (
        [span_id(1), span_id(2)],
        2,
        0,
        2,
    )


@pytest.mark.parametrize(("data", "read", "lines"), DAMAGE.values(), ids=DAMAGE)
def test_damaged_lines(data, read, lines):
    """Every whole record is read, and what is skipped is told by its line (collector-contrib#22747, #34832)."""
    parsed = parse(data)
    assert names(parsed) == read
    assert [skip.line for skip in parsed.skipped] == lines


@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG)
def test_a_damaged_span_costs_itself(wrong):
    """A damaged span is skipped with the path to it, and its neighbours in the same export are read."""
    parsed = parse(line(stored(1), wrong, WHOLE, stored(3)))
    assert names(parsed) == [1, 2, 3]
    assert parsed.spans[1] == RECORD
    (skip,) = parsed.skipped
    assert skip.line == 1
    assert skip.reason.startswith("$.resourceSpans[0].scopeSpans[0].spans[1]")


def test_a_damaged_resource_costs_its_attributes():
    """A resource that cannot be read leaves its spans without a service."""
    parsed = parse({"resourceSpans": [{"resource": 5, "scopeSpans": [{"spans": [stored(1)]}]}]})
    assert ([span.service for span in parsed.spans], parsed.skipped) == ([None], [])


def test_what_was_wrong_is_not_quoted():
    """A reason says what is wrong and where, never what stands there, which can be a secret."""
    parsed = parse('{"resourceSpans": [sk-secret\n{"sk-secret": 1}\n{"resourceSpans": "sk-secret"}\nsk-secret')
    assert len(parsed.skipped) == 4
    assert "secret" not in str(parsed.skipped)


TEXTS = {
    "a lone surrogate": (rb"\ud800", "\ufffd"),
    "a pair of surrogates": (rb"\ud83d\udd25", "🔥"),
    "bytes that are no UTF-8": (b"\xff", "\ufffd"),
    "NUL": (rb"\u0000", "\0"),
}


@pytest.mark.parametrize(("raw", "text"), TEXTS.values(), ids=TEXTS)
@pytest.mark.parametrize("place", ["name", "attribute", "event", "resource"])
def test_broken_text(place, raw, text):
    """Text that is no valid Unicode reads as U+FFFD, wherever it stands, and costs nothing else (mlflow#24123)."""
    marked = stored(
        1,
        name="HERE" if place == "name" else "",
        attributes=[pair("k", stringValue="HERE")] if place == "attribute" else [],
        events=[{"name": "HERE"}] if place == "event" else [],
    )
    data = line(marked, stored(2), service="HERE" if place == "resource" else "").replace(b"HERE", raw)
    parsed = parse(data)
    assert (names(parsed), parsed.skipped) == ([1, 2], [])
    read = parsed.spans[0]
    assert {
        "name": read.name,
        "attribute": read.attributes.get("k"),
        "event": [event.name for event in read.events][:1],
        "resource": read.service,
    }[place] == ([text] if place == "event" else text)


def test_numbers_that_are_no_json():
    """A NaN literal, which some writers leave, reads as the float that it is."""
    found, lacking = attributes_of(pair("k", doubleValue=float("nan")))
    assert (repr(found), lacking) == ("{'k': nan}", 0)


@given(st.binary(max_size=200) | json_values().map(json.dumps) | st.text(max_size=50))
def test_nothing_raises(data):
    """Whatever a text holds, reading it neither raises nor passes over anything but blank lines in silence."""
    parsed = parse(data)
    assert parsed.spans == []
    nothing = set(data) <= (set(b"[]{}, \t\n\v\f\r") if isinstance(data, bytes) else set("[]{}, \t\n\v\f\r"))
    assert parsed.skipped or nothing


@given(st.sampled_from(sorted(WHOLE)), json_values())
def test_any_damage_to_a_field_costs_at_most_its_span(name, value):
    """Whatever stands in one field of one span, its neighbours are read, and the span is read or told of."""
    parsed = parse(line(stored(1), WHOLE | {name: value}, stored(3)))
    found = names(parsed)
    assert (found[0], found[-1]) == (1, 3)
    assert len(found) + len(parsed.skipped) == 3


# --- Streams. ---------------------------------------------------------------------------------------------------------

FAILED = stored(1, events=WHOLE["events"])


CUT = {"at a brace": b'{"resourceSpans":[{"resource":{', "at once": b"{", "at a bracket": b'{"resourceSpans":['}


@pytest.mark.parametrize("first", CUT.values(), ids=CUT)
@pytest.mark.parametrize("together", [True, False])
def test_a_first_line_that_was_cut_does_not_join_the_others(first, together):
    """Only a document that goes on in its second line is held as a whole; a cut line costs itself, and no memory."""
    texts = [first + b"\n" + GOOD] if together else [first + b"\n", GOOD]
    left = iter([*texts, LAST, LAST])
    tally = Tally()
    assert next(parse_lines(left, tally)).span_id == span_id(1)
    assert [*left] == [LAST, LAST]
    assert [skip.line for skip in tally.skipped] == [1]


def test_a_document_of_several_lines_is_bounded(monkeypatch):
    """Of a document that is spread over lines no more is held than its bound, and what is longer is told of."""
    monkeypatch.setattr(limits, "STORED_DOCUMENT", 1_000)
    assert names(parse(json.dumps(request(stored(1)), indent=1))) == [1]
    parsed = parse(json.dumps(request(*map(stored, range(1, 20))), indent=1))
    assert (parsed.spans, parsed.skipped) == ([], [Skip(1, "too long to be read")])


def test_lines_are_read_as_they_come():
    """Spans come out before the next line is read, so a file of any size, or a live one, can be read."""
    read = parse_lines(itertools.chain([GOOD, LAST], iter(lambda: pytest.fail("read ahead"), None)), Tally())
    assert [next(read).span_id, next(read).span_id] == [span_id(1), span_id(2)]


def test_only_wanted_traces():
    """Of other traces than the wanted ones no span comes out; all are counted, and damage is told of all the same."""
    tally = Tally()
    read = parse_lines([line(stored(1), stored(2, trace=OTHER_TRACE)), b"junk"], tally, traces={OTHER_TRACE})
    assert [each.trace_id for each in read] == [OTHER_TRACE]
    assert (tally.spans, tally.skips) == (2, 1)
    assert tally.skipped == [Skip(2, "not JSON: Expecting value: line 1 column 1 (char 0)")]


TELLING = {
    "an event": (FAILED, True),
    "a failure of the span's own": (stored(1, attributes=[pair(semconv.FAILURE_ID, stringValue="f")]), True),
    "a report that was not complete": (stored(1, attributes=[pair(semconv.FAILURE_OMITTED, boolValue=True)]), True),
    "another event": (stored(1, events=[{"name": "exception"}], attributes=[pair("k", stringValue="v")]), False),
    "nothing": (stored(1), False),
}


@pytest.mark.parametrize(("one", "failed"), TELLING.values(), ids=TELLING)
@pytest.mark.parametrize("key", [str, snake])
@pytest.mark.parametrize("together", [True, False])
def test_failing_traces(one, failed, key, together):
    """A trace is wanted when a span of it tells of a failure, in an event or in an attribute, in whatever lines."""
    fine = [stored(number, trace=OTHER_TRACE) for number in range(2, 9)]
    spans = [*fine[:3], one, *fine[3:]]
    exports = [request(*spans)] if together else map(request, spans)
    assert failing_traces(json.dumps(respelt(export, key=key)) for export in exports) == ({TRACE} if failed else set())


def test_every_failing_trace_of_a_line_is_found():
    """Failures of several traces in one export are all found, whatever stands between them."""
    traces = [f"{number:032x}" for number in range(1, 8)]
    spans = [stored(1, trace=trace, events=WHOLE["events"] if int(trace) % 2 else []) for trace in traces]
    assert failing_traces([line(*spans)]) == set(traces[::2])


def test_a_name_of_ours_elsewhere_is_no_failure():
    """A span that only mentions failures, in a text or as a name of its own, gives no report."""
    mention = stored(1, name="failure.id", attributes=[pair("k", stringValue='"failure.id" "gym.failure"')])
    assert read_reports(line(mention)) == []


def test_a_tally_names_so_many_and_counts_all():
    """A file of junk costs no memory: so many unreadable places are named, and all are counted."""
    tally = Tally()
    assert list(parse_lines(itertools.repeat(b"junk", limits.SKIPS_NAMED + 7), tally)) == []
    assert (len(tally.skipped), tally.skips) == (limits.SKIPS_NAMED, limits.SKIPS_NAMED + 7)
    assert tally.skipped[-1].line == limits.SKIPS_NAMED
