"""Header values from anywhere: what is refused, what is tolerated, and that nothing of it does harm."""

import json
import logging
import sys
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gym_failures import header, kinds, limits, selfmetrics
from gym_failures.guard import reraised
from gym_failures.header import decode_report, decode_reports, encode_report
from gym_failures.kinds import FailureBoundary
from gym_failures.packing import Refusal, parse, unpack
from gym_failures.records import (
    FailureEvent,
    FailureReport,
    ModelFailureDetails,
    SandboxFailureDetails,
    SdkErrorDetails,
)
from gym_failures.wire import read_exact, read_tree
from tests import strategies
from tests.headers import packed

REFERENCE = Path(__file__).parent.parent / "docs" / "reference" / "wire-format.md"
LARGEST = limits.HEADER_HARD_LIMIT
PLAIN = {"failure_kind": "agent_timeout", "boundary": "agent"}


def event(event_id, cause_id=None, **fields):
    """Return an event of which only the given fields matter."""
    return FailureEvent(
        event_id=event_id, cause_id=cause_id, boundary=FailureBoundary.AGENT, failure_kind="agent_timeout", **fields
    )


def report(*events, failure_id=None, omitted=False):
    """Return a report of `events`."""
    return FailureReport(events={each.event_id: each for each in events}, failure_id=failure_id, omitted=omitted)


@pytest.fixture(autouse=True)
def no_hidden_defects():
    """Let internal errors through, so that "raises nothing" is not the guard's doing."""
    with reraised():
        yield


@pytest.fixture
def refused(monkeypatch):
    """Collect the reasons for which values are refused."""
    reasons: list[str] = []
    monkeypatch.setattr(selfmetrics, "decode_error", reasons.append)
    return reasons


@pytest.fixture
def dropped(monkeypatch):
    """Collect what is dropped within values, by reason."""
    counts: dict[str, int] = {}
    monkeypatch.setattr(selfmetrics, "dropped", lambda reason, count=1: counts.update({reason: count}))
    return counts


def of_size(size):
    """Return a value of `size` characters with the form of a header."""
    return "1." + "A" * (size - 2)


MANY_EVENTS = {f"{number:x}": PLAIN for number in range(limits.DECODE_EVENTS + 1)}
REFUSED = {
    "empty": ("", Refusal.FORMAT),
    "blank": (" ", Refusal.FORMAT),
    "a number": (5, Refusal.NOT_TEXT),
    "a list": (["1.eJw"], Refusal.NOT_TEXT),
    "bytes that are no text": (b"\xff\xfe", Refusal.FORMAT),
    "no version": ("eJwDAAAAAAE", Refusal.FORMAT),
    "no payload": ("1.", Refusal.FORMAT),
    "version zero": (packed({}, version="0"), Refusal.FORMAT),
    "version with a leading zero": (packed({}, version="01"), Refusal.FORMAT),
    "version in other digits": (packed({}, version="\u0661"), Refusal.FORMAT),
    "huge version": (packed({}, version="9" * 5_000), Refusal.FORMAT),
    "newer version": (packed({}, version="2"), Refusal.VERSION),
    "padded": (packed({}) + "=", Refusal.FORMAT),
    "standard base64": ("1.ab+/", Refusal.FORMAT),
    "line break at the end": (packed({}) + "\n", Refusal.FORMAT),
    "not in ASCII": ("1.模型", Refusal.FORMAT),
    "JSON in the open": ('1.{"events":{}}', Refusal.FORMAT),
    "base64 cut short": ("1.eJxLT", Refusal.COMPRESSION),
    "stream cut short": (packed({"events": {}})[:-4], Refusal.COMPRESSION),
    "no zlib": ("1.AAAAAAAA", Refusal.COMPRESSION),
    "more after the stream": (packed({"events": {}}, after=b"more"), Refusal.COMPRESSION),
    "a character too many": (of_size(limits.DECODE_LENGTH + 1), Refusal.TOO_LONG),
    "a megabyte": ("1." + "x" * 1_000_000, Refusal.TOO_LONG),
    "a megabyte of bytes": (b"1." + b"x" * 1_000_000, Refusal.TOO_LONG),
    "bomb": (packed(b" " * 5_000_000), Refusal.TOO_LARGE),
    "a byte too large": (packed("{}" + " " * (limits.DECODE_INFLATED - 1)), Refusal.TOO_LARGE),
    "nested too deep": (packed('{"a":' * 9 + "1" + "}" * 9), Refusal.TOO_DEEP),
    "nested too deep in lists": (packed('{"events":{},"new":' + "[" * 8 + "]" * 8 + "}"), Refusal.TOO_DEEP),
    "nested 1,000 deep": (packed("[" * 1_000 + "]" * 1_000), Refusal.TOO_DEEP),
    "nested 60,000 deep": (packed("[" * 60_000), Refusal.TOO_MANY_MEMBERS),
    "too many numbers": (packed('{"new":[' + "1," * 6_000 + "1]}"), Refusal.TOO_MANY_MEMBERS),
    "too many objects": (packed('{"new":[' + "{}," * 2_100 + "1]}"), Refusal.TOO_MANY_MEMBERS),
    "no JSON": (packed("events"), Refusal.JSON),
    "nothing": (packed(""), Refusal.JSON),
    "cut JSON": (packed('{"events":{}'), Refusal.JSON),
    "two objects": (packed("{}{}"), Refusal.JSON),
    "NaN": (packed('{"failure_id":NaN,"events":{}}'), Refusal.JSON),
    "infinity": (packed('{"failure_id":-Infinity,"events":{}}'), Refusal.JSON),
    "no UTF-8": (packed(b'{"events":{"\xff":{}}}'), Refusal.JSON),
    "surrogate in UTF-8": (packed(b'{"events":{"\xed\xa0\x80":{}}}'), Refusal.JSON),
    "a list of events": (packed([PLAIN]), Refusal.SHAPE),
    "events in a list": (packed({"events": [PLAIN]}), Refusal.SHAPE),
    "events that are null": (packed({"events": None}), Refusal.SHAPE),
    "a text": (packed('"events"'), Refusal.SHAPE),
    "one event too many": (packed({"events": MANY_EVENTS}), Refusal.TOO_MANY_EVENTS),
}


@pytest.mark.parametrize(("value", "reason"), REFUSED.values(), ids=REFUSED)
def test_what_is_no_report_is_refused_and_counted_once(value, reason, refused):
    """Input that is no header value gives no report, and one count by a reason of a closed list.

    opentelemetry-python-contrib#377, dd-trace-rb#5689.
    """
    assert decode_report(value) is None
    assert refused == [reason]


def test_every_reason_has_its_case_and_its_line_in_the_reference():
    """The closed list of reasons is documented and tested whole."""
    text = REFERENCE.read_text()
    assert {reason for _, reason in REFUSED.values()} | {Refusal.TOO_MANY_VALUES} == set(Refusal)
    assert all(f"| `{reason}` |" in text for reason in Refusal)


AT_THE_LIMIT = {
    "the longest value": packed('{"events":{}}' + " " * 6_118, level=0),
    "the largest size": packed('{"events":{}}' + " " * (limits.DECODE_INFLATED - 13)),
    "the deepest nesting": packed('{"events":{},"new":' + "[" * 7 + "]" * 7 + "}"),
    "brackets within text": packed({"events": {}, "new": "[{" * 2_000 + '\\"' * 500}),
    "backslashes at the end of text": packed({"events": {}, "new": ["\\", "[" * 20, "\\\\"]}),
    "as many numbers": packed('{"events":{},"new":[' + "1," * 5_000 + "1]}"),
    "blanks around": f" \t{packed({'events': {}})} ",
    "bytes": packed({"events": {}}).encode(),
    "no events at all": packed({}),
}


@pytest.mark.parametrize("value", AT_THE_LIMIT.values(), ids=AT_THE_LIMIT)
def test_what_is_within_the_limits_is_read(value, refused):
    """A limit is the last value that is accepted."""
    assert decode_report(value) == FailureReport()
    assert refused == []


def test_the_longest_value_is_as_long_as_may_be():
    """The case above is at the limit indeed."""
    assert len(AT_THE_LIMIT["the longest value"]) == limits.DECODE_LENGTH


def test_a_bomb_takes_no_memory():
    """What inflates to megabytes is given up at the limit, not afterwards."""
    bomb = packed(b" " * 5_000_000)
    tracemalloc.start()
    try:
        assert decode_report(bomb) is None
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 4 * limits.DECODE_INFLATED


def test_no_header_is_no_error(refused):
    """A reply without the header is the usual case and counts nowhere."""
    assert decode_report(None) is None
    assert decode_reports([]) is None
    assert refused == []


TOLERATED = {
    "member of a newer version": ({"mood": "sour", "trail": [{"a": [1]}]}, {}),
    "null": ({"failure_reason": None, "details": None, "stage": None}, {}),
    "number as text": ({"http_status": "429"}, {"http_status": 429}),
    "number with a fraction of zero": ({"http_status": 429.0}, {"http_status": 429}),
    "id as number": ({"operation_id": 17}, {"operation_id": "17"}),
    "long text": ({"failure_reason": "x" * 2_005}, {"failure_reason": "x" * 1_994 + "…[+11]"}),
    "long text in Chinese": ({"operation": "模" * 300}, {"operation": "模" * 250 + "…[+50]"}),
    "lone surrogate": ({"failure_reason": "a\ud800"}, {"failure_reason": "a\ufffd"}),
    "pair of surrogates": ({"failure_reason": "\ud83d\ude00"}, {"failure_reason": "😀"}),
    "foreign error without a message": (
        {"foreign_error": {"exception_type": "T", "new": 1}},
        {"foreign_error": SdkErrorDetails(exception_type="T", message="")},
    ),
    "its id, told twice": ({"event_id": "other"}, {}),
}


@pytest.mark.parametrize(("members", "fields"), TOLERATED.values(), ids=TOLERATED)
def test_what_can_be_understood_is_read(members, fields, refused, dropped):
    """What a newer or another writer may send is understood as far as it goes, and is no error."""
    assert decode_report(packed({"events": {"e": PLAIN | members}})) == report(event("e", **fields))
    assert (refused, dropped) == ([], {})


UNUSABLE = {
    "status out of range": {"http_status": 42},
    "status that is no number": {"http_status": "teapot"},
    "status with a fraction": {"http_status": 429.5},
    "status of many digits": {"http_status": 10**4_000},
    "list for text": {"failure_reason": ["a"]},
    "flag for text": {"operation": True},
    "unknown stage": {"stage": "lunch"},
    "foreign error that is none": {"foreign_error": "oops"},
    "foreign error with an empty type": {"foreign_error": {"exception_type": "", "message": "m"}},
}


@pytest.mark.parametrize("members", UNUSABLE.values(), ids=UNUSABLE)
def test_a_bad_field_costs_itself_only(members, refused, dropped):
    """A value that does not fit is dropped and counted, and its event stands without it."""
    assert decode_report(packed({"events": {"e": PLAIN | members}})) == report(event("e"))
    assert (refused, dropped) == ([], {"header_field": 1})


DETAILS = {
    "sandbox": ("sandbox", {"exit_code": 9, "provider": "p"}, SandboxFailureDetails(exit_code=9, provider="p")),
    "sandbox, bad member": ("sandbox", {"exit_code": "x", "provider": "p"}, SandboxFailureDetails(provider="p")),
    "sandbox, more digits than are written": (
        "sandbox",
        {"exit_code": 10**limits.INTEGER_DIGITS},
        SandboxFailureDetails(),
    ),
    "sandbox, as many digits": (
        "sandbox",
        {"exit_code": 10**limits.INTEGER_DIGITS - 1},
        SandboxFailureDetails(exit_code=10**limits.INTEGER_DIGITS - 1),
    ),
    "sandbox, huge number": ("sandbox", {"exit_code": str(2**70)}, SandboxFailureDetails(exit_code=2**70)),
    "sandbox, members of a model": ("sandbox", {"provider_request_id": "r"}, SandboxFailureDetails()),
    "model, newer member": (
        "model",
        {"provider_request_id": "r", "new": [1]},
        ModelFailureDetails(provider_request_id="r"),
    ),
    "model, nothing observed": ("model", {}, ModelFailureDetails()),
    "model, flag as text": (
        "model",
        {"request_upload_complete": "true"},
        ModelFailureDetails(request_upload_complete=True),
    ),
    "boundary without details": ("agent", {"exit_code": 9}, None),
    "no object": ("model", [1], None),
}


@pytest.mark.parametrize(("boundary", "members", "details"), DETAILS.values(), ids=DETAILS)
def test_details_go_with_the_boundary(boundary, members, details):
    """Details are read by the schema of the event's boundary, and are none where that has none."""
    value = packed({"events": {"e": {"failure_kind": "k", "boundary": boundary, "details": members}}})
    read = decode_report(value)
    assert read.events["e"].details == details
    assert read_tree(parse(unpack(value))).events == read.events
    assert FailureReport.model_validate(read.model_dump()) == read


def test_a_bad_detail_costs_itself_only(dropped):
    """A member of the details that does not fit is dropped and counted."""
    sandbox = {"failure_kind": "k", "boundary": "sandbox", "details": {"exit_code": "x", "provider": "p"}}
    read = decode_report(packed({"events": {"e": sandbox}}))
    assert read.events["e"].details == SandboxFailureDetails(provider="p")
    assert dropped == {"header_field": 1}


BAD_EVENTS = {
    "no object": 5,
    "null": None,
    "no kind": {"boundary": "agent"},
    "empty kind": PLAIN | {"failure_kind": ""},
    "kind that is no text": PLAIN | {"failure_kind": ["k"]},
    "no boundary": {"failure_kind": "k"},
    "unknown boundary": PLAIN | {"boundary": "kitchen"},
}


@pytest.mark.parametrize("bad", BAD_EVENTS.values(), ids=BAD_EVENTS)
def test_a_bad_event_costs_itself_only(bad, refused, dropped):
    """An event that cannot be used does not take the good ones with it; it is counted, and the report says so."""
    value = packed({"failure_id": "b", "events": {"a": PLAIN, "x": bad, "b": PLAIN | {"cause_id": "x"}}})
    assert decode_report(value) == report(event("a"), event("b"), failure_id="b", omitted=True)
    assert (refused, dropped["header_event"]) == ([], 1)


def test_a_bad_event_that_nothing_refers_to_is_missing_too():
    """A report that had an event more says so, also when no link tells of it."""
    assert decode_report(packed({"events": {"a": PLAIN, "x": 5}})) == report(event("a"), omitted=True)


LINKS = {
    "cause missing": ({"a": "x", "b": "a"}, "b", {"a": None, "b": "a"}, "b"),
    "cause of itself": ({"a": "a"}, "a", {"a": None}, "a"),
    "own failure missing": ({"a": None}, "x", {"a": None}, None),
    "own failure that is no text": ({"a": None}, ["a"], {"a": None}, None),
    "own failure empty": ({"a": None}, "", {"a": None}, None),
    "cause that is no text": ({"a": ["b"], "b": None}, "a", {"a": None, "b": None}, "a"),
}


@pytest.mark.parametrize(("causes", "failure_id", "left", "own"), LINKS.values(), ids=LINKS)
def test_a_broken_link_is_cut_and_said_to_be(causes, failure_id, left, own):
    """A report is always valid: what leads nowhere or round is cut, and `omitted` set."""
    events = {event_id: PLAIN | {"cause_id": cause} for event_id, cause in causes.items()}
    read = decode_report(packed({"failure_id": failure_id, "events": events}))
    assert read == report(*(event(event_id, cause) for event_id, cause in left.items()), failure_id=own, omitted=True)


def test_a_circle_of_causes_is_opened_in_one_place():
    """Of three failures that cause each other two links stay, and the report is valid."""
    events = {one: PLAIN | {"cause_id": cause} for one, cause in ("ab", "bc", "ca")}
    read = decode_report(packed({"events": events}))
    assert sum(each.cause_id is None for each in read.events.values()) == 1
    assert read.omitted
    assert FailureReport.model_validate(read.model_dump()) == read


def test_a_cause_may_come_after_its_effect():
    """The order of events means nothing."""
    whole = report(event("b", "a"), event("a"), failure_id="b")
    assert decode_report(encode_report(whole)) == whole


def test_ids_that_are_too_long_still_link():
    """An id beyond 128 characters becomes the same stand-in as key, cause and own failure."""
    long = "x" * 200
    read = decode_report(packed({"failure_id": long, "events": {long: PLAIN, "e": PLAIN | {"cause_id": long}}}))
    assert read.failure_id == read.events["e"].cause_id in read.events
    assert not read.omitted


OMITTED = {"true": (True, True), "false": (False, False), "text": ("true", True), "null": (None, False)}
OMITTED |= {"yes": ("yes", False), "a number": (1, False), "a list": ([True], False)}


@pytest.mark.parametrize(("told", "read"), OMITTED.values(), ids=OMITTED)
def test_omitted_is_a_flag(told, read):
    """Only what clearly says true means that something is missing."""
    assert decode_report(packed({"omitted": told, "events": {}})).omitted is read


def test_ids_that_meet_in_reading_are_one_event():
    """Of two keys that differ in lone surrogates only the first event stays, and the report says that one is gone."""
    events = {f"a{mark}": PLAIN | {"operation": mark} for mark in ("\ud800", "\udfff")}
    assert decode_report(packed({"events": events})) == report(event("a\ufffd", operation="\ufffd"), omitted=True)


def test_duplicate_members_are_one():
    """Of a member told twice one counts, and nothing breaks."""
    event_text = json.dumps(PLAIN)
    read = decode_report(
        packed(f'{{"failure_id":"x","failure_id":"e","events":{{"e":{event_text},"e":{event_text}}}}}')
    )
    assert read == report(event("e"), failure_id="e")


A = packed({"failure_id": "a", "events": {"a": PLAIN}})
B_FROM_A = packed({"failure_id": "b", "events": {"a": PLAIN | {"stage": "seed"}, "b": PLAIN | {"cause_id": "a"}}})
C = packed({"failure_id": "c", "events": {"c": PLAIN}})
NONE = packed({"events": {"n": PLAIN}})
SEVERAL: dict[str, tuple[Any, str, set[str]]] = {
    "one": ([A], "a", {"a"}),
    "the outer failure, first": ([B_FROM_A, A], "b", {"a", "b"}),
    "the outer failure, last": ([A, B_FROM_A], "b", {"a", "b"}),
    "two that are no cause: the last": ([A, C], "c", {"a", "c"}),
    "a success beside a failure": ([A, NONE], "a", {"a", "n"}),
    "the same twice": ([A, A], "a", {"a"}),
    "joined by a proxy": ([f"{A}, {C}"], "c", {"a", "c"}),
    "joined, with empty members": ([f",{A},,"], "a", {"a"}),
    "bytes": ([A.encode(), C.encode()], "c", {"a", "c"}),
    "one value, not in a list": (A, "a", {"a"}),
}


@pytest.mark.parametrize(("values", "own", "events"), SEVERAL.values(), ids=SEVERAL)
def test_several_values_are_one_report(values, own, events, refused):
    """Repeated and joined values are read one by one; the own failure is that which caused no other, else the last."""
    read = decode_reports(values)
    assert read.failure_id == own
    assert read.events.keys() == events
    assert not read.omitted
    assert refused == []


def test_one_value_that_cannot_be_read_costs_itself_only(refused):
    """A bad value beside a good one is refused and counted, and the good one is read."""
    assert decode_reports(["junk", A, "2.eJw"]) == decode_report(A)
    assert refused == [Refusal.FORMAT, Refusal.VERSION]


def test_what_any_value_omits_is_omitted():
    """The report of several values is incomplete when one of them was."""
    cut = packed({"omitted": True, "events": {}})
    assert decode_reports([A, cut]).omitted
    assert decode_reports([cut, A]).omitted


def test_the_first_copy_of_an_event_is_kept():
    """Of an event that two values carry the first is the record."""
    assert decode_reports([A, B_FROM_A]).events["a"].stage is None
    assert decode_reports([B_FROM_A, A]).events["a"].stage is not None


def test_links_that_close_a_circle_between_two_values_are_cut():
    """Two values that are valid each, and together go round, make a valid report."""
    one = packed({"failure_id": "a", "events": {"a": PLAIN | {"cause_id": "b"}, "b": PLAIN}})
    two = packed({"failure_id": "c", "events": {"c": PLAIN, "b": PLAIN | {"cause_id": "a"}}})
    read = decode_reports([two, one])
    assert FailureReport.model_validate(read.model_dump()) == read


def test_only_so_many_values_are_read(refused):
    """The values of one message are bounded in number and in the events that they bring together."""
    values = [packed({"events": {f"e{number}": PLAIN}}) for number in range(limits.DECODE_VALUES + 2)]
    expected = {f"e{number}" for number in range(limits.DECODE_VALUES)}
    assert decode_reports(values).events.keys() == expected
    assert decode_reports([",".join(values)]).events.keys() == expected
    full = packed({"events": {f"f{number}": PLAIN for number in range(limits.DECODE_EVENTS)}})
    assert len(decode_reports([full, *values]).events) == limits.DECODE_EVENTS
    assert refused == [Refusal.TOO_MANY_VALUES] * 3


@given(strategies.failure_reports(max_size=4))
def test_the_quick_and_the_tolerant_reading_agree(whole):
    """What is read at once is exactly what reading value by value makes of it."""
    body = unpack(encode_report(whole, budget=LARGEST))
    assert read_exact(body) == read_tree(parse(body))


def test_what_is_read_at_once_has_no_room_for_too_many_events():
    """The quick reading does not count events, because its bytes hold fewer than are read."""
    least = '"x":{"failure_kind":"k","boundary":"agent"},'
    assert limits.DECODE_EVENTS * len(least) > limits.DECODE_AT_ONCE


@given(strategies.mangled_trees())
def test_any_json_is_refused_or_read_as_a_valid_report(tree):
    """Whatever a peer makes of the JSON, nothing is raised and what is read is valid; both readings agree on it.

    opentelemetry-python-contrib#377, dd-trace-rb#5689.
    """
    value = packed(tree)
    read = decode_report(value)
    if read is not None:
        assert FailureReport.model_validate(read.model_dump()) == read
        exact = read_exact(unpack(value))
        assert exact is None or exact == read_tree(parse(unpack(value)))


@given(strategies.not_quite_headers())
@example("1." + "A" * 9_000)
def test_any_text_is_refused_or_read(value):
    """No text and no bytes raise; the rare ones that are values give valid reports."""
    read = decode_report(value)
    assert read is None or FailureReport.model_validate(read.model_dump()) == read


@given(strategies.failure_reports(max_size=3), st.data())
def test_a_damaged_value_is_refused(whole, data):
    """One changed character of a value never gives another report: the checksum of zlib finds it."""
    value = encode_report(whole, budget=LARGEST)
    at = data.draw(st.integers(2, len(value) - 1))
    other = data.draw(st.sampled_from("ABCXYZabcxyz019-_").filter(lambda character: character != value[at]))
    read = decode_report(value[:at] + other + value[at + 1 :])
    assert read is None or read == decode_report(value)


def test_nothing_of_a_header_is_logged(caplog):
    """Neither what is refused nor what is read, such as an unregistered kind, appears in the log.

    opentelemetry-kotlin#967.
    """
    caplog.set_level(logging.DEBUG)
    for value, _ in REFUSED.values():
        decode_report(value)
    assert decode_report(packed({"events": {"e": {"failure_kind": "never registered", "boundary": "agent"}}})).events
    assert caplog.records == []
    assert not any("never registered" in str(name) for name in kinds._WARNED_UNKNOWN)


def test_the_recursion_limit_of_the_host_does_not_matter():
    """Deep nesting is refused before anything recurses, also where a host has raised the limit of recursion."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(1_000_000)
    try:
        assert decode_report(packed("[" * 2_000 + "]" * 2_000)) is None
        assert decode_report(packed('{"events":' + "[" * 60_000)) is None
    finally:
        sys.setrecursionlimit(before)


def test_an_error_of_ours_is_no_error_of_the_caller(monkeypatch, caplog):
    """If reading itself is defective, the caller gets no report, and the log a line without the value."""
    secret = str(len("secret")) + " secrets"

    def defective(_: object) -> None:
        raise RuntimeError(secret)

    with monkeypatch.context() as patch:  # undone before errors of ours are raised again
        patch.setattr(header, "unpack", defective)
        patch.setattr("gym_failures.guard._reraising", 0)
        patch.setattr("gym_failures.guard._said", {})
        assert decode_report(A) is None
    assert secret not in caplog.text
    assert "decode_header" in caplog.text
