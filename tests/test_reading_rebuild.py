"""Spans to reports: what a trace, a request and a rollout say of their failures."""

from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gym_failures import semconv
from gym_failures.kinds import FailureBoundary
from gym_failures.reading import EventRecord, SpanLink, rebuild
from gym_failures.records import FailureReport
from gym_failures.text import cut
from tests import strategies
from tests.spans import TRACE, client, failure, relayed, server, span, span_id, told

OTHER_TRACE = "1" * 32
PROVIDER = failure("p", boundary=FailureBoundary.MODEL, kind="provider_unavailable", reason="401 from the provider")
AGENT = failure("a", "p")


def only(spans, **by):
    """Return the one report of `spans`."""
    (report,) = rebuild(spans, **by)
    return report


def by_span(spans):
    """Return the reports by request, under the number of each one's span."""
    return {int(report.key, 16): report for report in rebuild(spans, by="request")}


# Two servers: 1 is the agent's, which calls the model's, 3, through a client's span, 2.
CALL = [
    server(1, None, told(AGENT, at=30), own="a", service="agent"),
    client(2, 1, relayed(PROVIDER, at=20)),
    server(3, 2, told(PROVIDER, at=10), own="p", service="model"),
]


def test_a_chain_over_two_servers():
    """The caller's report has its own failure and its cause, each as the process told it that observed it."""
    found = by_span(CALL)[1]
    assert found.report == FailureReport(events={"p": PROVIDER, "a": AGENT}, failure_id="a")
    assert list(found.report.events) == ["p", "a"]
    assert found.services == {"p": "model", "a": "agent"}
    assert (found.trace_id, found.key, found.span) == (TRACE, span_id(1), CALL[0])
    assert (found.failed, found.missing_causes, found.recovered, found.unlinked) == (True, (), (), ())
    assert (found.late, found.unseen, found.remote_only, found.cut) == ((), (), (), ())
    assert (found.dropped_events, found.unreadable, found.circular_causes) == (0, 0, ())
    assert (found.chain, found.root) == ((AGENT, PROVIDER), PROVIDER)
    assert found.times == {"p": 10, "a": 30}


def test_a_request_within_a_request_has_its_own_report():
    """The server that was called reports what it replied, without what its caller made of it."""
    assert by_span(CALL)[3].report == FailureReport(events={"p": PROVIDER}, failure_id="p")


def test_nothing_failed():
    """Spans without failures give no report, whatever other events they lost."""
    assert rebuild([server(1), client(2, 1, EventRecord("exception"), dropped=3)]) == []


def test_a_wrong_by_is_an_error():
    """A grouping that does not exist is named together with those that do."""
    with pytest.raises(ValueError, match=r"'day'.*trace, request, rollout"):
        rebuild([], by="day")


# --- What is missing is said. -----------------------------------------------------------------------------------------


def test_a_cause_that_is_nowhere():
    """A cause that no span tells of is cut and listed, never a KeyError (opentelemetry's own traces lose spans too)."""
    found = only([server(1, None, told(AGENT), own="a")])
    assert found.missing_causes == ("p",)
    assert found.report == FailureReport(events={"a": failure("a")}, failure_id="a", omitted=True)


def test_a_cut_id_is_never_a_link():
    """A cause id that a length limit cut names no event, not even the one that begins like it."""
    whole = failure("0123456789")
    found = only([server(1, None, told(whole), told(failure("x", "01234")), own="x")])
    assert (found.missing_causes, found.unlinked) == (("01234",), ("0123456789",))


def test_the_own_failure_without_its_event():
    """A span that names a failure of which no event is left has failed; nothing there is called recovered."""
    found = only([server(1, None, told(PROVIDER), own="gone")])
    assert (found.failed, found.report.failure_id, found.missing_causes) == (True, None, ("gone",))
    assert (found.recovered, found.unlinked, found.report.omitted) == ((), ("p",), True)
    assert (found.chain, found.root) == ((), None)


def test_causes_in_a_circle():
    """Causes that go round are cut once, and the event is named."""
    found = only([server(1, None, told(failure("x", "y"), at=1), told(failure("y", "x"), at=2), own="x")])
    assert found.report.omitted
    assert len(found.circular_causes) == 1
    FailureReport.model_validate(found.report.model_dump())


UNREADABLE = EventRecord(semconv.EVENT_NAME, 0, {semconv.FAILURE_KIND: "cancelled"})

INCOMPLETE = {
    "the SDK dropped events": ([server(1, None, told(PROVIDER), dropped=72)], 72, 0),
    "a span without failures dropped events": ([server(1, None, told(PROVIDER)), span(2, 1, dropped=3)], 3, 0),
    "an event has no id": ([server(1, None, told(PROVIDER), UNREADABLE)], 0, 1),
    "the request's report was not complete": (
        [server(1, None, told(PROVIDER), attributes={semconv.FAILURE_OMITTED: True})],
        0,
        0,
    ),
    "a reply was not complete": (
        [server(1, None, told(PROVIDER)), client(2, 1, attributes={semconv.FAILURE_OMITTED: "true"})],
        0,
        0,
    ),
}


@pytest.mark.parametrize("by", ["trace", "request", "rollout"])
@pytest.mark.parametrize(("spans", "dropped", "unreadable"), INCOMPLETE.values(), ids=INCOMPLETE)
def test_what_is_incomplete_says_so(spans, dropped, unreadable, by):
    """Whatever lost events on the way, the report is marked and the count told (opentelemetry-specification#1425)."""
    found = only(spans, by=by)
    assert found.report.omitted
    assert (found.dropped_events, found.unreadable) == (dropped, unreadable)
    assert list(found.report.events) == ["p"]


def test_only_unreadable_events():
    """A request of whose failures nothing can be read is reported all the same, as empty and incomplete."""
    found = only([server(1, None, UNREADABLE)])
    assert (found.report, found.unreadable) == (FailureReport(omitted=True), 1)


def test_complete_says_so():
    """Where nothing was lost, nothing is marked."""
    assert not any(found.report.omitted for found in by_span(CALL).values())


def test_remote_only():
    """A failure whose own process stored nothing is known from the reply alone, and no service is made up for it."""
    found = only([server(1, None, relayed(PROVIDER), told(AGENT), own="a", service="agent")])
    assert (found.remote_only, found.services) == (("p",), {"a": "agent"})


# --- Which copy of an event is taken. ---------------------------------------------------------------------------------

SHORT = PROVIDER.model_copy(update={"failure_reason": cut(PROVIDER.failure_reason, 16)})
BARE = PROVIDER.model_copy(update={"failure_reason": ""})

COPIES = {
    "the process's own before a reply's": ([told(BARE), relayed(PROVIDER)], BARE, ()),
    "the longer of two from replies": ([relayed(SHORT), relayed(PROVIDER)], PROVIDER, ()),
    "a cut one where there is no other": ([relayed(SHORT)], SHORT, ("p",)),
    "the one with all attributes": ([told(PROVIDER, dropped=1), told(BARE)], BARE, ()),
    "one that lacks attributes where there is no other": ([told(BARE, dropped=1)], BARE, ("p",)),
    "one of unknown origin before a reply's": ([told(BARE, origin="elsewhere"), relayed(PROVIDER)], BARE, ("p",)),
}


@pytest.mark.parametrize(("events", "taken", "incomplete"), COPIES.values(), ids=COPIES)
def test_the_best_copy_is_taken(events, taken, incomplete):
    """An event that several spans tell of is taken from the best copy, whichever comes first, and one cut is named."""
    for ordered in (events, events[::-1]):
        found = only([server(1, None, *ordered)])
        assert found.report.events == {"p": taken}
        assert found.cut == incomplete


def test_a_cut_of_any_text_is_seen():
    """The end of a foreign error's message or of a provider's reason is missed as that of a reason is."""
    sandbox = failure("s", boundary=FailureBoundary.SANDBOX).model_dump(mode="json")
    cut_reason = sandbox | {"details": {"provider_status_reason": cut("out of memory", 8)}}
    cut_message = sandbox | {"foreign_error": {"exception_type": "E", "message": cut("out of memory", 8)}}
    for record in (cut_reason, cut_message):
        event = type(PROVIDER).model_validate(record)
        assert only([server(1, None, told(event))]).cut == ("s",)


# --- Own, recovered, unlinked, late, unseen. --------------------------------------------------------------------------


def test_recovered():
    """What was observed in a request that did not fail was recovered from."""
    found = by_span([server(1), client(2, 1, relayed(PROVIDER)), server(3, 2, told(PROVIDER), own="p")])
    assert (found[1].report.failure_id, found[1].recovered, found[1].failed) == (None, ("p",), False)
    assert (found[3].report.failure_id, found[3].recovered) == ("p", ())


def test_unlinked():
    """Beside an own failure, what is not among its causes is not called recovered, because a link may be missing."""
    other = failure("o")
    found = only([server(1, None, told(PROVIDER, at=1), told(other, at=2), told(AGENT, at=3), own="a")])
    assert (found.unlinked, found.recovered) == (("o",), ())


LATE = {
    "marked": [server(1, None, told(AGENT), told(PROVIDER, late=True), own="a")],
    "on a span of its own, marked": [server(1, None, told(AGENT), own="a"), span(2, 1, told(PROVIDER, late=True))],
    "on a span made after its parent": [
        server(1, None, told(AGENT), own="a"),
        span(2, 1, told(PROVIDER), name=semconv.OVERFLOW_SPAN_NAME, links=[SpanLink(TRACE, span_id(1))]),
    ],
    "told of late, though another knew in time": [
        server(1, None, told(AGENT), relayed(PROVIDER, late=True), own="a"),
        server(2, 1, told(PROVIDER), own="p"),
    ],
}


@pytest.mark.parametrize("spans", LATE.values(), ids=LATE)
def test_late(spans):
    """What a request learns after its reply is in its report, marked late, and never recovered, unlinked or unseen."""
    found = by_span(spans)[1]
    assert (found.late, found.recovered, found.unlinked, found.unseen) == (("p",), (), (), ())
    assert list(found.report.events) == ["a", "p"]


NOT_LATE = {
    "more than a span holds": [
        server(1, None, told(AGENT), own="a"),
        span(2, 1, told(PROVIDER), name=semconv.OVERFLOW_SPAN_NAME),
    ],
    "another span's link to its parent": [
        server(1, None, told(AGENT), own="a"),
        span(2, 1, told(PROVIDER), links=[SpanLink(TRACE, span_id(1))]),
    ],
    "marked where another copy is not": [
        server(1, None, told(AGENT), told(PROVIDER, late=True), relayed(PROVIDER), own="a")
    ],
}


@pytest.mark.parametrize("spans", NOT_LATE.values(), ids=NOT_LATE)
def test_not_late(spans):
    """A short span for want of room is in time, and so is what any copy in the same process says came in time."""
    assert by_span(spans)[1].late == ()


def test_a_trace_knows_in_time_what_any_process_knew():
    """An event is late for the whole trace only when no process recorded it in time."""
    spans = [server(1, None, relayed(PROVIDER, late=True)), server(2, 1, told(PROVIDER), own="p")]
    assert only(spans, by="trace").late == ()


def test_unseen():
    """What only a server further down recorded is in the report, and told apart: its reply was lost on the way."""
    lost = [server(1, None, told(AGENT), own="a"), client(2, 1), server(3, 2, told(PROVIDER), own="p")]
    found = by_span(lost)[1]
    assert (found.unseen, list(found.report.events)) == (("p",), ["a", "p"])
    assert by_span(CALL)[1].unseen == ()
    assert only(lost, by="trace").unseen == ()


def test_what_came_late_further_down_is_not_unseen():
    """What a server recorded after its reply is late for its caller too: no reply was lost."""
    found = by_span([server(1, None, told(AGENT), own="a"), server(2, 1, told(PROVIDER, late=True))])[1]
    assert (found.late, found.unseen) == (("p",), ())


# --- The outcome of a trace. ------------------------------------------------------------------------------------------

SECOND = failure("s")

OUTCOMES = {
    "the first server failed": (CALL, "a"),
    "the first server recovered": (
        [server(1), client(2, 1, relayed(PROVIDER)), server(3, 2, told(PROVIDER), own="p")],
        None,
    ),
    "the first server recovered, and a block in it failed": ([server(1), span(2, 1, told(PROVIDER), own="p")], None),
    "a first server without this package": ([server(1), client(2, 1), server(3, 2, told(PROVIDER), own="p")], "p"),
    "a client without this package": (
        [span(1), client(2, 1, relayed(PROVIDER)), server(3, 2, told(PROVIDER), own="p")],
        "p",
    ),
    "a client with a failure of its own": (
        [span(1, None, told(AGENT), own="a"), server(2, 1, told(PROVIDER), own="p")],
        "a",
    ),
    "a client's block, which the server's failure caused": (
        [span(1, end=99), span(2, 1, told(AGENT), own="a", end=5), server(3, 2, told(PROVIDER), own="p", end=9)],
        "a",
    ),
    "the later of two calls": (
        [span(1), server(2, 1, told(SECOND), own="s", end=9), server(3, 1, told(PROVIDER), own="p", end=8)],
        "s",
    ),
    "a first span that was not stored": ([client(2, 1, relayed(PROVIDER)), server(3, 2, told(PROVIDER), own="p")], "p"),
    "two that caused each other": (
        [span(1), *(server(n, 1, told(failure(*ids)), own=ids[0]) for n, ids in ((2, "xy"), (3, "yx")))],
        "y",
    ),
}


@pytest.mark.parametrize(("spans", "expected"), OUTCOMES.values(), ids=OUTCOMES)
def test_the_outcome_of_a_trace(spans, expected):
    """The last word has the topmost server that knows failures, or a span with a failure of its own above it."""
    assert only(spans, by="trace").report.failure_id == expected


def test_a_trace_is_not_failed_because_its_spans_are():
    """A trace whose first server recovered has not failed, though servers beneath it have."""
    found = only([server(1), client(2, 1, relayed(PROVIDER)), server(3, 2, told(PROVIDER), own="p")])
    assert (found.failed, found.recovered) == (False, ("p",))


# --- Requests and what is beneath none. -------------------------------------------------------------------------------


def test_failures_beneath_no_server():
    """What a client observed itself is reported with the first span of its own, and lost to no grouping."""
    found = by_span([span(1), span(2, 1, told(PROVIDER), own="p")])
    assert list(found) == [1]
    assert (found[1].report.failure_id, found[1].span.span_id) == ("p", span_id(2))


def test_a_server_s_span_that_was_not_stored():
    """When a server's own span is lost, what is left of its request is reported with the first span there is."""
    assert list(by_span([client(2, 1, relayed(PROVIDER)), server(3, 2, told(PROVIDER), own="p")])) == [2, 3]


def test_a_client_s_root_that_knows_nothing_is_no_request():
    """A client's span without any failure of its own process has no report by request."""
    assert list(by_span([span(1), client(2, 1), server(3, 2, told(PROVIDER), own="p")])) == [3]


# --- Rollouts. --------------------------------------------------------------------------------------------------------


def test_rollouts_in_one_trace():
    """A span belongs to the rollout named on it or nearest above, so one trace can hold many rollouts."""
    spans = [span(1), server(2, 1, rollout="r1"), span(3, 2, told(PROVIDER)), server(4, 1, told(AGENT), rollout="r2")]
    assert {found.key: list(found.report.events) for found in rebuild(spans, by="rollout")} == {
        "r1": ["p"],
        "r2": ["a"],
    }


def test_a_rollout_over_several_traces():
    """A rollout is one, in however many traces; its causes resolve across them."""
    spans = [
        server(1, None, told(AGENT), own="a", rollout="r"),
        server(2, None, told(PROVIDER), rollout="r", trace=OTHER_TRACE),
    ]
    found = only(spans, by="rollout")
    assert (found.key, found.report.failure_id, found.missing_causes) == ("r", "a", ())


def test_a_rollout_named_beneath():
    """A server that only passes the id on belongs to the rollout beneath it, with all that it did."""
    spans = [server(1, own="a"), span(2, 1, told(AGENT)), server(3, 1, told(PROVIDER), rollout="r", own="p")]
    found = only(spans, by="rollout")
    assert (found.key, found.report.failure_id, sorted(found.report.events)) == ("r", "a", ["a", "p"])


def test_a_rollout_id_that_is_a_number():
    """An id of digits that a store turned into a number is the same id."""
    assert only([server(1, None, told(PROVIDER), attributes={semconv.NEMO_GYM_ROLLOUT_ID: 7})], by="rollout").key == "7"


NO_ROLLOUT = {
    "none named": [span(1, None, told(AGENT))],
    "two named beneath": [
        span(1, None, told(AGENT)),
        span(2, 1, rollout="r1"),
        span(3, 1, rollout="r2"),
    ],
    "one within another": [span(1, None, told(AGENT)), span(2, 1, rollout="r1"), span(3, 2, rollout="r2")],
}


@pytest.mark.parametrize("spans", NO_ROLLOUT.values(), ids=NO_ROLLOUT)
def test_failures_of_no_known_rollout(spans):
    """What belongs to no rollout, or to one of several, is reported without a key: neither lost nor guessed at."""
    found = only(spans, by="rollout")
    assert (found.key, found.trace_id, list(found.report.events)) == (None, TRACE, ["a"])


def test_failures_of_no_known_rollout_stay_apart_by_trace():
    """Two traces without a rollout have nothing in common."""
    spans = [span(1, None, told(AGENT)), span(1, None, told(PROVIDER), trace=OTHER_TRACE)]
    assert [list(found.report.events) for found in rebuild(spans, by="rollout")] == [["a"], ["p"]]


def test_the_outcome_of_a_rollout_within_a_run():
    """A run's span, which many rollouts share, has no say in the outcome of one."""
    spans = [
        server(1, None, told(failure("run")), own="run"),
        span(2, 1, rollout="r1"),
        span(3, 1, rollout="r2"),
        server(4, 2, told(PROVIDER), own="p"),
    ]
    assert {found.key: found.report.failure_id for found in rebuild(spans, by="rollout")} == {"r1": "p", None: "run"}


# --- Spans as stores give them. ---------------------------------------------------------------------------------------


def test_spans_delivered_twice():
    """Spans that come twice count once (jaeger#6389)."""
    assert rebuild([*CALL, *CALL], by="request") == rebuild(CALL, by="request")


def test_two_copies_of_a_span_complete_each_other():
    """Of two copies of a span the one that ended later counts, and no event of the other is lost."""
    early = server(1, None, told(PROVIDER, at=1), end=2, dropped=1)
    ended = server(1, None, told(AGENT, at=2), own="a", end=5)
    for spans in ([early, ended], [ended, early]):
        found = only(spans)
        assert (found.report.failure_id, list(found.report.events)) == ("a", ["p", "a"])
        assert (found.span.end_ns, found.dropped_events) == (5, 1)


def test_copies_that_differ_give_the_same_in_any_order():
    """What is taken of copies that ended together depends on what they say, not on which came first."""
    copies = [server(1, None, told(failure("a", reason=reason)), own="a", rollout=reason) for reason in ("x", "y", "z")]
    for by in ("rollout", "request", "trace"):
        first, *others = [rebuild(order, by=by) for order in permutations(copies)]
        assert others == [first] * 5


@pytest.mark.parametrize("at", [0, 1])
def test_copies_with_failures_of_one_moment(at):
    """Two failures that one process saw at the same time are two, also when each stands in another copy of the span."""
    copies = [server(1, None, told(failure("a"), at=at), own="a"), server(1, None, told(failure("b"), at=at))]
    (report,) = rebuild(copies)
    assert set(report.report.events) == {"a", "b"}


def test_the_same_span_id_in_another_trace_is_another_span():
    """A span's id means something within its trace only."""
    assert len(rebuild([server(1, None, told(PROVIDER)), server(1, None, told(PROVIDER), trace=OTHER_TRACE)])) == 2


PARENTS = {
    "itself": [server(1, 1, told(PROVIDER))],
    "each other": [server(1, 2, told(PROVIDER)), server(2, 1)],
    "a circle beneath a root": [server(3), server(1, 2, told(PROVIDER)), server(2, 1)],
}


@pytest.mark.parametrize("spans", PARENTS.values(), ids=PARENTS)
def test_parents_in_a_circle(spans):
    """Parents that lead round in a circle neither hang the reader nor hide a failure."""
    assert list(by_span(spans)[1].report.events) == ["p"]


@pytest.mark.parametrize("by", ["trace", "request", "rollout"])
def test_a_chain_of_100_000_spans(by):
    """A trace that is one chain of 100,000 spans is read without recursion."""
    between = [span(number, number - 1) for number in range(2, 100_000)]
    found = rebuild([server(1, rollout="r"), *between, server(100_000, 99_999, told(PROVIDER), own="p")], by=by)
    assert {each.report.failure_id for each in found} == ({"p"} if by != "request" else {None, "p"})


def test_requests_within_requests_1_000_deep():
    """Servers that call each other 1,000 deep have a report each, with what failed at the bottom."""
    spans = [server(number, number - 1 or None) for number in range(1, 1_000)]
    found = rebuild([*spans, server(1_000, 999, told(PROVIDER), own="p")], by="request")
    assert [each.unseen for each in found] == [("p",)] * 999 + [()]


def test_a_chain_of_10_000_causes():
    """Causes 10,000 deep are followed to their root."""
    events = strategies.chain_of(10_000)
    found = only([server(1, None, *map(told, events.events.values()), own=events.failure_id)])
    assert (found.report, found.unlinked) == (events, ())


# --- Whatever the spans are. ------------------------------------------------------------------------------------------

BY = st.sampled_from(["trace", "request", "rollout"])


@given(strategies.stored_spans(), BY)
def test_every_report_is_legal(spans, by):
    """Whatever spans tell, each report is one that the records accept, and its ids are told apart without overlap."""
    for found in rebuild(spans, by=by):
        FailureReport.model_validate(found.report.model_dump())
        chain = {*found.report.events} - {*found.late, *found.recovered, *found.unlinked}
        assert len(found.late) + len(found.recovered) + len(found.unlinked) + len(chain) == len(found.report.events)
        assert not {*found.unseen} & {*found.late}
        assert not (found.recovered and found.failed)
        assert found.report.omitted or not (found.missing_causes or found.circular_causes or found.dropped_events)


@given(strategies.stored_spans(), BY)
def test_no_failure_is_lost(spans, by):
    """Every failure that any span tells of is in some report, however spans are grouped."""
    told_of = {event.attributes[semconv.FAILURE_ID] for one in spans for event in one.events}
    assert {event_id for found in rebuild(spans, by=by) for event_id in found.report.events} == told_of


@given(strategies.stored_spans(), BY, st.randoms(use_true_random=False))
def test_the_order_of_spans_does_not_matter(spans, by, chance):
    """Spans in another order, some of them delivered twice, give the same reports (jaeger#6389)."""
    again = [*spans, *chance.sample(spans, len(spans) // 2)]
    chance.shuffle(again)
    assert rebuild(again, by=by) == rebuild(spans, by=by)


@given(strategies.call_trees())
def test_wire_and_trace_agree(call):
    """Each server's report from its spans is the one that it sent, but for what is marked late or unseen.

    Of events that both have, the trace knows the whole text; a reply may have cut it.
    """
    found = {report.key: report for report in rebuild(call.spans(), by="request")}
    for request in call.requests():
        sent = request.sent()
        rebuilt = found.pop(request.span_id, None)
        if rebuilt is None:
            assert sent == FailureReport()
            continue
        assert rebuilt.report.failure_id == sent.failure_id
        assert {*rebuilt.report.events} - {*rebuilt.late, *rebuilt.unseen} == {*sent.events}
        assert {event_id: rebuilt.report.events[event_id] for event_id in sent.events} == sent.events
    assert not found
