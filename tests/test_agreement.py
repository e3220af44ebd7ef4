"""When a reply and the trace of its request say the same, and how a difference is named."""

import pytest

from gym_failures.agreement import disagreements
from gym_failures.reading import rebuild
from gym_failures.records import FailureReport, SdkErrorDetails
from gym_failures.text import cut
from tests.spans import client, failure, relayed, server, told

LONG = "the quick brown fox " * 50
ROOT = failure("m", kind="cancelled", reason=LONG)
OWN = failure("a", "m")
OTHER = failure("x", kind="shutdown")


def sent(*events, own=None, omitted=False):
    """Return what a reply said."""
    return FailureReport(events={event.event_id: event for event in events}, failure_id=own, omitted=omitted)


def traced(*events, own=None, beneath=(), dropped=0):
    """Return what the spans of a request say, and those of the requests beneath it."""
    spans = [server(1, None, *events, own=own, dropped=dropped), *beneath]
    return next((report for report in rebuild(spans, by="request") if report.key == spans[0].span_id), None)


def changed(event, **fields):
    """Return a copy of an event with other fields."""
    return event.model_copy(update=fields)


BOTH = (told(ROOT), told(OWN, at=1))
FOREIGN = SdkErrorDetails(exception_type="openai.APIError", message=LONG)

AGREE = {
    "nothing failed": (None, None),
    "an empty report": (sent(), None),
    "the same events": (sent(ROOT, OWN, own="a"), traced(*BOTH, own="a")),
    "a reason that the reply has cut": (
        sent(changed(ROOT, failure_reason=cut(LONG, 100)), OWN, own="a"),
        traced(*BOTH, own="a"),
    ),
    "a reason that the trace has cut": (
        sent(ROOT, OWN, own="a"),
        traced(told(changed(ROOT, failure_reason=cut(LONG, 100))), told(OWN, at=1), own="a"),
    ),
    "a reason that the reply leaves out": (
        sent(changed(ROOT, failure_reason=""), OWN, own="a"),
        traced(*BOTH, own="a"),
    ),
    "a message that the reply has cut": (
        sent(changed(OTHER, foreign_error=changed(FOREIGN, message=cut(LONG, 50)))),
        traced(told(changed(OTHER, foreign_error=FOREIGN))),
    ),
    "an attribute that the trace has lost": (
        sent(changed(OTHER, http_status=500)),
        traced(told(OTHER, dropped=1)),
    ),
    "an event and a link that the reply left out": (
        sent(changed(OWN, cause_id=None), own="a", omitted=True),
        traced(*BOTH, own="a"),
    ),
    "an event that came after the reply": (sent(OTHER), traced(told(OTHER), told(failure("late"), late=True, at=1))),
    "an event whose own reply was lost": (
        sent(OTHER),
        traced(told(OTHER), beneath=[client(2, 1), server(3, 2, told(failure("lost"), at=1), own="lost")]),
    ),
    "no report for what came after the reply": (None, traced(told(OTHER, late=True))),
}

DIFFER = {
    "no span": (sent(OTHER), None, ["no span tells of it"]),
    "another own failure": (
        sent(ROOT, OWN, own="m"),
        traced(*BOTH, own="a"),
        ["the own failure is m in the reply and a in the trace"],
    ),
    "an event in the reply only": (sent(OTHER, ROOT), traced(told(OTHER)), ["m is in the reply only"]),
    "an event in the trace only": (sent(OTHER), traced(told(OTHER), told(ROOT)), ["m is in the trace only"]),
    "no report for a failure": (
        None,
        traced(told(OTHER), own="x"),
        ["the own failure is None in the reply and x in the trace", "x is in the trace only"],
    ),
    "another kind": (
        sent(changed(OTHER, failure_kind="cancelled")),
        traced(told(OTHER)),
        ["x differs in failure.kind"],
    ),
    "another reason": (
        sent(changed(OTHER, failure_reason="one")),
        traced(told(changed(OTHER, failure_reason="two and a good deal more"))),
        ["x differs in failure.reason"],
    ),
    "another link": (
        sent(ROOT, OTHER, changed(OWN, cause_id="x"), own="a"),
        traced(*BOTH, told(OTHER, at=2), own="a"),
        ["a differs in failure.cause_id"],
    ),
    "a field in the reply only": (
        sent(changed(OTHER, http_status=500)),
        traced(told(OTHER)),
        ["x differs in http.response.status_code"],
    ),
    "a cause that the trace lacks": (
        sent(ROOT, OWN, own="a"),
        traced(told(OWN), own="a"),
        ["the trace lacks m", "m is in the reply only"],
    ),
}


@pytest.mark.parametrize(("reply", "trace"), AGREE.values(), ids=AGREE)
def test_agree(reply, trace):
    """A reply and a trace agree when they differ only in what either is known to leave out."""
    assert disagreements(reply, trace) == []


@pytest.mark.parametrize(("reply", "trace", "differences"), DIFFER.values(), ids=DIFFER)
def test_differ(reply, trace, differences):
    """Every other difference is named by event and attribute, without a value of either side."""
    assert disagreements(reply, trace) == differences


def test_what_a_reply_told_of_need_not_be_local():
    """An event that the trace knows from a reply only is as good as one of its own."""
    assert disagreements(sent(OTHER), traced(relayed(OTHER))) == []
