"""Reports as header values: the identity where they fit, and what stays where they do not."""

import json
import re
from hashlib import shake_256
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gym_failures import limits
from gym_failures.header import decode_report, encode, encode_report
from gym_failures.kinds import FailureBoundary
from gym_failures.records import (
    FailureEvent,
    FailureReport,
    ModelFailureDetails,
    SandboxFailureDetails,
    SdkErrorDetails,
)
from gym_failures.repair import chain_ids
from gym_failures.text import is_cut_of, was_cut
from tests import strategies
from tests.headers import packed, unpacked

REFERENCE = Path(__file__).parent.parent / "docs" / "reference" / "wire-format.md"
LARGEST = limits.HEADER_HARD_LIMIT
CJK = [chr(code) for code in range(0x4E00, 0x9FA0)]


def noise(script, size, seed):
    """Return `size` characters of `script` that no compression makes much shorter, the same for the same seed."""
    digest = shake_256(str(seed).encode()).digest(4 * size)
    return "".join(script[int.from_bytes(digest[at : at + 4]) % len(script)] for at in range(0, 4 * size, 4))


def reason(size, seed=0):
    """Return `size` characters of Chinese."""
    return noise(CJK, size, seed)


def random_id(seed):
    """Return an id as ours are, that no compression makes shorter."""
    return shake_256(str(seed).encode()).hexdigest(16)


def event(event_id, cause_id=None, *, text="", **fields):
    """Return an event of which only the given fields matter."""
    return FailureEvent(
        event_id=event_id,
        cause_id=cause_id,
        boundary=FailureBoundary.AGENT,
        failure_kind="agent_run_error",
        failure_reason=text,
        **fields,
    )


def report(*events, failure_id=None, omitted=False):
    """Return a report of `events`."""
    return FailureReport(events={each.event_id: each for each in events}, failure_id=failure_id, omitted=omitted)


def chain(length, *, text=""):
    """Return a chain of failures from the root `c0` to the own failure, each with `text` and a random id."""
    ids = ["c0", *map(random_id, range(1, length))]
    links = zip(ids, [None, *ids], strict=False)
    return report(*(event(one, cause, text=text) for one, cause in links), failure_id=ids[-1])


@given(strategies.failure_reports())
def test_header_and_back_is_the_identity_within_the_budget(whole):
    """Whatever the texts are, a report that fits comes back as it was; one that does not says so.

    opentelemetry-python#2934, opentelemetry-python#5566.
    """
    value, cut = encode(whole, budget=LARGEST)
    read = decode_report(value)
    assert (read == whole) is not cut


TEXTS = {
    "plus and percent": "50%+%20%2B&=;",
    "CJK": "模型服务超时",
    "emoji": "👩‍🚀🏳️‍🌈🔥",
    "line breaks": "a\r\nb\nc\r\n\r\nGET / HTTP/1.1",
    "NUL and controls": "\0\x01\x1b[31m\x7f\u2028\u202e\ufeff",
    "JSON": '{"a":["\\u0041\\\\"]}',
    "mark of a cut": "what is left…[+17]",
    "only blanks": "   ",
}


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_text_survives_as_it_is(text):
    """Texts, ids and kinds come back character by character, from a value of visible ASCII without a comma.

    opentelemetry-python#2934, opentelemetry-python#5566.
    """
    odd = FailureEvent(
        event_id=text,
        boundary=FailureBoundary.SANDBOX,
        failure_kind=text,
        failure_reason=text,
        operation=text,
        operation_id=text,
        foreign_error=SdkErrorDetails(exception_type=text, message=text),
        details=SandboxFailureDetails(provider=text, provider_status_reason=text),
    )
    whole = report(odd, failure_id=text)
    value = encode_report(whole)
    assert decode_report(value) == whole
    assert re.fullmatch(r"1\.[A-Za-z0-9_-]+", value)


def test_the_format_is_as_documented():
    """A value is a version, a dot, and base64url without padding of zlib-compressed compact JSON in UTF-8.

    An event's id is its key, and what is absent is left out.
    """
    model = FailureEvent(
        event_id="m",
        boundary=FailureBoundary.MODEL,
        failure_kind="provider_unavailable",
        failure_reason="超时",
        http_status=401,
        details=ModelFailureDetails(request_upload_complete=False),
    )
    value = encode_report(report(model, event("a", "m"), failure_id="a", omitted=True))
    assert unpacked(value) == (
        '{"failure_id":"a","omitted":true,"events":{'
        '"m":{"failure_kind":"provider_unavailable","boundary":"model","failure_reason":"超时","http_status":401,'
        '"details":{"request_upload_complete":false}},'
        '"a":{"failure_kind":"agent_run_error","boundary":"agent","cause_id":"m"}}}'
    )


def test_the_published_example_is_read_and_written():
    """The reference's value carries the reference's JSON, and is the value of that report.

    It was written when the format was new, so this also says that values on their way, or stored, stay readable.
    """
    text = REFERENCE.read_text()
    (body,) = re.findall(r"```json\n(.+)\n```", text)
    (value,) = re.findall(r"```text\n(.+)\n```", text)
    assert unpacked(value) == body
    read = decode_report(value)
    assert read == FailureReport.model_validate_json(body)
    assert unpacked(encode_report(read)) == body


@pytest.mark.parametrize("empty", [FailureReport(), FailureReport(omitted=True)], ids=["whole", "cut"])
def test_an_empty_report_has_a_value(empty):
    """That nothing failed, or that all was left out, can be said too."""
    assert decode_report(encode_report(empty)) == empty


@given(strategies.failure_reports(wire=False, surrogates=True))
def test_a_report_that_is_no_wire_text_becomes_valid_on_the_way(lax):
    """Ids, kinds and texts of any length and with lone surrogates never raise; what arrives is a valid report.

    mlflow#24123.
    """
    read = decode_report(encode_report(lax, budget=LARGEST))
    assert FailureReport.model_validate(read.model_dump()) == read
    read.model_dump_json()
    assert (read.failure_id is None) is (lax.failure_id is None)


def assert_is_projection(read, whole):
    """Assert that `read` is what may be left of `whole`, and that it says so."""
    for event_id, left in read.events.items():
        full = whole.events[event_id]
        assert (left.failure_kind, left.boundary) == (full.failure_kind, full.boundary)
        assert is_cut_of(left.failure_reason, full.failure_reason) or (read.omitted and not left.failure_reason)
        assert left.cause_id == full.cause_id or (left.cause_id is None and read.omitted)
        assert left.http_status == full.http_status or (left.http_status is None and read.omitted)
    assert read.omitted or read.events.keys() == whole.events.keys()
    assert read.failure_id == whole.failure_id


@given(strategies.failure_reports(max_size=12), st.integers(limits.HEADER_BUDGET_MIN, LARGEST))
def test_a_cut_report_is_a_projection_within_the_budget(whole, budget):
    """What is left has the same ids, kinds and boundaries, marked starts of texts, and says when events or links went.

    The budget counts the bytes of the value, and texts are cut on characters (grpc#37852, sail#1859).
    """
    value, cut = encode(whole, budget=budget)
    assert len(value.encode()) <= budget
    read = decode_report(value)
    assert read == FailureReport.model_validate_json(unpacked(value))  # nothing had to be mended by reading
    assert_is_projection(read, whole)
    assert cut is (read != whole)


@pytest.mark.parametrize("budget", [limits.HEADER_BUDGET_MIN, limits.HEADER_BUDGET, LARGEST])
@pytest.mark.parametrize("size", [1, 8, 513, 10_000])
@pytest.mark.parametrize("links", [1, 8, 10_000])
def test_the_own_failure_keeps_its_chain_or_both_ends_of_it(size, links, budget):
    """Of 10,000 failures with 2,000 Chinese characters each, the own one arrives with its chain.

    Of a chain too long to fit, both ends arrive (aiohttp#2304).
    """
    text = reason(2_000)
    ids = [random_id(number) for number in range(size)]
    events = [event(one, cause if size - place < links else None, text=text)
              for place, (one, cause) in enumerate(zip(ids, [None, *ids], strict=False))]  # fmt: skip
    whole = report(*events, failure_id=ids[-1])
    value = encode_report(whole, budget=budget)
    assert len(value) <= budget
    read = decode_report(value)
    assert_is_projection(read, whole)
    expected = chain_ids(whole.events, whole.failure_id)
    if len(expected) <= 8:
        assert chain_ids(read.events, read.failure_id) == expected
    assert {expected[0], expected[-1]} <= read.events.keys()


def test_the_middle_of_a_long_chain_goes_from_both_sides():
    """A chain too long to fit keeps as much next to the own failure as next to the root, and links neither wrongly."""
    whole = chain(2_000)
    read = decode_report(encode_report(whole))
    ids = chain_ids(whole.events, whole.failure_id)
    kept = [event_id in read.events for event_id in ids]
    near_own, near_root = kept.index(False), kept[::-1].index(False)
    assert sum(kept) == near_own + near_root > 20
    assert near_own - near_root in {0, 1}
    assert chain_ids(read.events, read.failure_id) == ids[:near_own]
    assert read.omitted


def test_a_chain_too_long_keeps_the_start_of_the_own_reason():
    """When the middle of the chain has to go anyway, the own failure says again what it was."""
    whole = chain(500, text=reason(2_000))
    read = decode_report(encode_report(whole))
    assert len(read.events[whole.failure_id].failure_reason) == limits.HEADER_OWN_REASON
    assert len(read.events) > 10


def test_all_free_texts_are_shortened():
    """Reason, foreign message and a provider's status are cut alike, and each is marked."""
    texts = [reason(2_000, seed) for seed in range(3)]
    own = FailureEvent(
        event_id="e",
        boundary=FailureBoundary.SANDBOX,
        failure_kind="provider_unavailable",
        failure_reason=texts[0],
        foreign_error=SdkErrorDetails(exception_type="T", message=texts[1]),
        details=SandboxFailureDetails(provider_status_reason=texts[2], exit_code=1),
    )
    read = decode_report(encode_report(report(own, failure_id="e"))).events["e"]
    left = [read.failure_reason, read.foreign_error.message, read.details.provider_status_reason]
    assert [was_cut(one) and is_cut_of(one, full) for one, full in zip(left, texts, strict=True)] == [True] * 3
    assert read.details.exit_code == 1


def test_what_compresses_well_still_has_to_be_decoded():
    """A report that is small as a value and too large as JSON is cut, because no reader would take it."""
    value, cut = encode(report(*(event(f"e{number}", text="模" * 2_000) for number in range(20))), budget=LARGEST)
    assert cut
    assert len(unpacked(value).encode()) <= limits.DECODE_INFLATED
    assert len(decode_report(value).events) == 20


LADDER = {
    "texts of other events go first": (
        report(event("r"), event("o", "r", text="own"), event("x", text=reason(1_500)), failure_id="o"),
        {"r": "", "o": "own", "x": "cut"},
    ),
    "then other events, the later first": (
        report(*(event(f"x{n}{reason(100, n)}") for n in range(9)), event("o", text=reason(600)), failure_id="o"),
        {"o": "whole", f"x0{reason(100, 0)}": ""},
    ),
    "then texts of causes": (
        report(event("r", text=reason(800)), event("o", "r", text=reason(400)), event("x"), failure_id="o"),
        {"r": "cut", "o": "whole"},
    ),
    "then own texts": (
        report(event("r", text=reason(800)), event("o", "r", text=reason(1_500)), event("x"), failure_id="o"),
        {"r": "cut", "o": "cut"},
    ),
}


@pytest.mark.parametrize(("whole", "left"), LADDER.values(), ids=LADDER)
def test_the_least_needed_goes_first(whole, left):
    """Nothing is cut while something less needed is whole."""
    read = decode_report(encode_report(whole))
    found = {}
    for event_id, one in read.events.items():
        full = whole.events[event_id].failure_reason
        found[event_id] = "cut" if was_cut(one.failure_reason) else "whole" if len(full) > 200 else full
    assert found == left


def test_facts_go_before_the_root_cause():
    """When the own failure and its root do not fit with their facts, they go bare, and the report says so."""
    facts = {name: reason(size, seed) for seed, (name, size) in enumerate(
        {"operation": 256, "operation_id": 128, "attempt_id": 128, "exception_type": 256}.items())}  # fmt: skip
    whole = report(event("r", **facts), event("o", "r", **facts, http_status=500), failure_id="o")
    read = decode_report(encode_report(whole, budget=limits.HEADER_BUDGET_MIN))
    assert read == report(event("r"), event("o", "r"), failure_id="o", omitted=True)


SCRIPTS = {
    "ASCII": [chr(code) for code in range(0x20, 0x7F)],
    "Latin": [chr(code) for code in range(0x20, 0x250)],
    "control characters": [chr(code) for code in range(0x20)],
    "Chinese": CJK,
    "basic plane": [chr(code) for code in range(0x20, 0xD800)],
    "any": [chr(code) for code in [*range(0xD800), *range(0xE000, 0x110000)]],
}


@pytest.mark.parametrize("script", SCRIPTS.values(), ids=SCRIPTS)
def test_the_smallest_budget_has_room_for_any_own_failure(script):
    """The own failure fits whatever its id and kind are; its root too, as soon as the budget allows."""
    for seed in range(50):
        ids = [noise(script, limits.WIRE_ID_LENGTH, f"{seed}/{number}") for number in range(4)]
        common = {"boundary": FailureBoundary.RESOURCES_SERVER, "failure_reason": "x" * 2_000}
        root = FailureEvent(event_id=ids[0], failure_kind=ids[1], **common)
        own = FailureEvent(event_id=ids[2], failure_kind=ids[3], cause_id=ids[0], **common)
        whole = report(root, own, failure_id=own.event_id)
        assert decode_report(encode_report(whole, budget=limits.HEADER_BUDGET_MIN)).failure_id == own.event_id
        if script is not SCRIPTS["any"]:
            assert root.event_id in decode_report(encode_report(whole)).events
        if script[-1] < "\u0250":
            assert root.event_id in decode_report(encode_report(whole, budget=limits.HEADER_BUDGET_MIN)).events


def test_no_own_failure_stays_none():
    """A report of a success that is too large loses its later events, and gains no failure of its own."""
    whole = report(*(event(f"e{number}", text=reason(50, number)) for number in range(300)))
    read = decode_report(encode_report(whole))
    assert read.failure_id is None
    assert read.omitted
    assert list(read.events) == list(whole.events)[: len(read.events)]


@pytest.mark.parametrize("budget", [0, limits.HEADER_BUDGET_MIN - 1, limits.HEADER_HARD_LIMIT + 1])
def test_a_budget_out_of_range_is_an_error(budget):
    """A wrong budget is wrong configuration and raises, with the range in the message."""
    with pytest.raises(ValueError, match=r"not in \[1280, 8000\]"):
        encode_report(FailureReport(), budget=budget)


def test_ids_that_meet_on_the_wire_are_said_to_be_missing():
    """Two ids that differ only in lone surrogates become one; the first stays and the report says that one is gone."""
    read = decode_report(encode_report(report(event("a\ud800"), event("a\udfff"))))
    assert list(read.events) == ["a\ufffd"]
    assert read.omitted


def test_what_is_encoded_is_decoded_at_its_limits():
    """As many events as are decoded are encoded whole, if their ids let them."""
    whole = report(*(event(f"{number:x}") for number in range(limits.DECODE_EVENTS)))
    value, cut = encode(whole, budget=LARGEST)
    assert not cut
    assert decode_report(value) == whole
    assert len(json.loads(unpacked(value))["events"]) == limits.DECODE_EVENTS
    assert decode_report(packed(json.loads(unpacked(value)))) == whole


def test_more_events_than_are_decoded_are_cut_to_that_number():
    """Small events beyond what readers take go, the later first, and the report says so."""
    whole = report(*(event(f"{number:x}") for number in range(limits.DECODE_EVENTS + 88)), failure_id="200")
    read = decode_report(encode_report(whole, budget=LARGEST))
    assert read.omitted
    assert list(read.events) == [*list(whole.events)[: limits.DECODE_EVENTS - 1], "200"]
