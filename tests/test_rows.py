"""Rows of rollouts: what of a failure stands in them, and that nothing else does change."""

import json

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from gym_failures import kinds, limits, semconv
from gym_failures.guard import reraised
from gym_failures.kinds import FailureBoundary, FailureStage
from gym_failures.records import FailureEvent, FailureReport
from gym_failures.rows import (
    KEYS,
    RowError,
    failure_keys,
    join_failures,
    read_row,
    with_failures,
    without_failures,
)
from gym_failures.text import cut
from tests import strategies
from tests.spans import failure

TRACE = "0af7651916cd43dd8448eb211c80319c"

TRACES = st.none() | st.text("0123456789abcdef", min_size=32, max_size=32)


@pytest.fixture(autouse=True)
def no_hidden_defects():
    """Let internal errors through, so that "raises nothing" is not the guard's doing."""
    with reraised():
        yield


@given(strategies.gym_rows(), strategies.failure_reports(min_size=1), TRACES)
def test_a_report_comes_back_from_the_json_of_its_row(row, report, trace_id):
    """What is put into a row and saved as JSON is read back as it was, unknown kinds too."""
    saved = json.loads(json.dumps(with_failures(row, report, trace_id=trace_id)))
    assert read_row(saved) == (report, trace_id)


@given(strategies.gym_rows(), strategies.failure_reports(), strategies.failure_reports())
def test_nothing_else_in_a_row_changes(row, before, report):
    """Without our keys a row is as it was, in its order, whatever report was in it before (NVIDIA-NeMo/Gym#316)."""
    given_row = json.dumps(row)
    written = with_failures(with_failures(row, before, trace_id=TRACE), report)
    assert json.dumps(without_failures(written)) == given_row
    assert json.dumps(row) == given_row
    assert set(written) - set(row) <= set(KEYS)
    assert written == with_failures(row, report)


def test_a_report_that_says_nothing_leaves_no_key():
    """A rollout without failures has the row that it would have without this package."""
    assert failure_keys(FailureReport(), trace_id=TRACE) == {}


@pytest.mark.parametrize("named", ["not hex", TRACE.upper(), TRACE[1:], f"{TRACE}\n", 7, None])
def test_a_trace_that_is_none(named):
    """What has not the form of a trace's id names no trace, and the failures are read all the same."""
    row = {"_ng_failure_trace_id": named, "failure_kind": "judge_failed"}
    read = read_row(row)
    assert (read.trace_id, len(read.report.events)) == (None, 1)


def test_the_keys_of_a_row():
    """A row has the map of events by id, the own failure, and the trace, in plain JSON."""
    failure = FailureEvent(
        event_id="e1",
        boundary=FailureBoundary.RESOURCES_SERVER,
        failure_kind="my_new_kind",
        failure_reason="x",
        stage=FailureStage.VERIFICATION,
    )
    report = FailureReport(events={"e1": failure}, failure_id="e1", omitted=True)
    assert with_failures({"reward": 0.0}, report, trace_id=TRACE) == {
        "reward": 0.0,
        "_ng_failure_events": {
            "e1": {
                "boundary": "resources_server",
                "failure_kind": "my_new_kind",
                "failure_reason": "x",
                "stage": "verification",
            }
        },
        "_ng_failure_id": "e1",
        "_ng_failure_omitted": True,
        "_ng_failure_trace_id": TRACE,
    }


@given(strategies.mangled_gym_rows())
def test_any_row_is_read_or_refused_by_name(row):
    """Reading ends in a legal report, or in the one error for a map of events that is none, whatever a row holds."""
    try:
        report = read_row(row).report
    except RowError:
        event("refused")
        return
    assert FailureReport.model_validate(report.model_dump()) == report


@pytest.mark.parametrize(
    "events",
    [["e1"], "e1", 7, {str(number): {} for number in range(limits.DECODE_EVENTS + 1)}],
    ids=["a list", "text", "a number", "more than a log holds"],
)
def test_what_is_no_map_of_events_is_an_error(events):
    """A row whose events are not what they say is refused, with the key and the reason."""
    with pytest.raises(RowError, match=r"_ng_failure_events of the row: (shape|too_many_events)"):
        read_row({semconv.ROW_FAILURE_EVENTS: events})


def test_a_bad_event_costs_only_itself():
    """Of the events of a row the good ones are read, and the report says that one is missing."""
    good = {"boundary": "model", "failure_kind": "shutdown", "cause_id": "bad", "newer_field": 1}
    row = {"_ng_failure_events": {"good": good, "bad": {"boundary": "nowhere", "failure_kind": "shutdown"}}}
    report = read_row(row | {"_ng_failure_id": "good"}).report
    assert list(report.events) == ["good"]
    assert (report.failure_id, report.events["good"].cause_id, report.omitted) == ("good", None, True)


AT = FailureBoundary
SAVED = {
    "a masked verification": (
        {"reward": 0.0, "mask_sample": True, "failure_kind": "provider_unavailable", "failure_reason": "sandbox gone"},
        {"boundary": AT.RESOURCES_SERVER, "failure_kind": "provider_unavailable", "failure_reason": "sandbox gone"},
        FailureStage.VERIFICATION,
    ),
    "an unregistered kind": (
        {"reward": 0.0, "mask_sample": True, "failure_kind": "my_new_kind", "failure_reason": None},
        {"boundary": AT.RESOURCES_SERVER, "failure_kind": "my_new_kind", "failure_reason": ""},
        FailureStage.VERIFICATION,
    ),
    "a judge that failed, as older versions say it": (
        {"_ng_failure_class": "judge_failed", "_ng_failure_judge_error": "judge 503"},
        {"boundary": AT.RESOURCES_SERVER, "failure_kind": "judge_failed", "failure_reason": "judge 503"},
        FailureStage.VERIFICATION,
    ),
    "a class of an agent's own": (
        {"_ng_failure_class": "timeout_exceeded", "_ng_failure_terminal": True},
        {"boundary": AT.COLLECTION, "failure_kind": "timeout_exceeded", "failure_reason": ""},
        None,
    ),
    "a judge that failed, with its kind too": (
        {"_ng_failure_class": "judge_failed", "failure_kind": "judge_failed", "failure_reason": "judge 503"},
        {"boundary": AT.RESOURCES_SERVER, "failure_kind": "judge_failed", "failure_reason": "judge 503"},
        FailureStage.VERIFICATION,
    ),
    "a run that broke": (
        {
            "_ng_failure_class": "agent_run_error",
            "_ng_failure_type": "ClientResponseError",
            "_ng_failure_message": "500, message='Internal Server Error'",
            "_ng_failure_http_status": 500,
        },
        {
            "boundary": AT.COLLECTION,
            "failure_kind": "agent_run_error",
            "failure_reason": "500, message='Internal Server Error'",
            "http_status": 500,
            "exception_type": "ClientResponseError",
        },
        None,
    ),
    "an episode that its environment server gave up": (
        {
            "_ng_failure_class": "environment_server_failed",
            "_ng_failure_message": "no session cookie",
            "_ng_failure_stage": "seed",
            "_ng_failure_terminal": True,
        },
        {
            "boundary": AT.ENVIRONMENT,
            "failure_kind": "environment_server_failed",
            "failure_reason": "no session cookie",
        },
        FailureStage.SEED,
    ),
    "a saved RolloutFailure of the environment": (
        {
            "schema_version": 1,
            "episode_id": {"rollout_id": "0-0", "attempt": 1},
            "run_id": "r",
            "source": "environment",
            "delivery": "delivered",
            "failure": {"failure_reason": "gone", "terminal": False, "failure_kind": "session_lost", "stage": "agent"},
        },
        {"boundary": AT.ENVIRONMENT, "failure_kind": "session_lost", "failure_reason": "gone"},
        FailureStage.AGENT,
    ),
    "a saved RolloutFailure of the collector, of unknown kind": (
        {
            "episode_id": {"rollout_id": "0-0", "attempt": 0},
            "run_id": "r",
            "source": "collector",
            "delivery": "possibly_delivered",
            "failure": {"failure_reason": "no reply", "terminal": False},
            "http_status": 502,
            "exception_type": "ClientPayloadError",
        },
        {
            "boundary": AT.COLLECTION,
            "failure_kind": "agent_request_failed",
            "failure_reason": "no reply",
            "http_status": 502,
            "exception_type": "ClientPayloadError",
        },
        None,
    ),
}


@pytest.mark.parametrize(("row", "said", "stage"), SAVED.values(), ids=SAVED.keys())
def test_a_row_in_the_words_of_nemo_gym_is_one_failure(row, said, stage):
    """A row that has only Gym's own words for its failure is read as that one failure (NVIDIA-NeMo/Gym#2218)."""
    report = read_row(row).report
    ((event_id, failure),) = report.events.items()
    assert report.failure_id == event_id
    assert failure.model_dump(exclude={"event_id", "stage"}) == said
    assert failure.stage is stage


@pytest.mark.parametrize("more", [{}, {"mask_sample": False}, {"mask_sample": None}])
def test_a_sample_that_is_not_masked_has_not_failed(more):
    """A verification that only names a kind was measured all the same, by NeMo Gym's word: it recovered."""
    report = read_row({"reward": 1.0, "failure_kind": "judge_unparseable", **more}).report
    assert [event.failure_kind for event in report.events.values()] == ["judge_unparseable"]
    assert report.failure_id is None


@given(strategies.gym_rows(), strategies.failure_kinds(wire=False))
def test_a_row_that_is_read_twice_gives_one_record(row, kind):
    """The id of a failure that a row has no id for is made of the row: the same each time, another for another row."""
    row = {name: value for name, value in row.items() if name != "failure"} | {"failure_kind": kind or "x"}
    report = read_row(row).report
    assert read_row(dict(reversed(row.items()))).report == report
    assert read_row(row | {"_ng_task_index": "another"}).report.events.keys().isdisjoint(report.events)
    assert read_row(row, run="another").report.events.keys().isdisjoint(report.events)


@given(strategies.gym_rows())
def test_a_row_without_any_of_these_words_tells_of_nothing(row):
    """A row is a failure only by what it says, never by its reward."""
    silent = {name: value for name, value in row.items() if not name.startswith(("failure", "_ng_failure"))}
    assert read_row(silent) == (FailureReport(), None)


def test_the_words_for_a_request_that_failed_are_kinds():
    """The classes that rollout collection writes beside a failed request are kinds of the vocabulary."""
    assert {"agent_request_failed", "agent_run_error", "environment_server_failed"} <= kinds.FAILURE_KINDS


def of(*events, own=None):
    """Return a report of events, each `id` or `id<cause`."""
    pairs = [event.split("<") for event in events]
    return FailureReport(events={event_id: failure(event_id, *cause) for event_id, *cause in pairs}, failure_id=own)


JOINED = {
    "a trace that has less": (of("c<m", "m", "j", own="c"), of("m", own="m"), of("c<m", "m", "j", own="c")),
    "a row that recovered": (of("m"), of("m", own="m"), of("m")),
    "what the row's own is a cause of": (
        of("m", own="m"),
        of("c<a", "a<m", "m", own="c"),
        of("m", "c<a", "a<m", own="c"),
    ),
    "a failure that the row does not know": (of("j"), of("c", own="c"), of("j", "c", own="c")),
    "another failure": (of("c", own="c"), of("x", own="x"), of("c", "x", own="c")),
    "a trace that recovered": (of("c", own="c"), of("x"), of("c", "x", own="c")),
    "a row that tells nothing": (FailureReport(), of("c<m", "m", own="c"), of("c<m", "m", own="c")),
    "a trace that says the reverse": (
        of("d<c", "c", own="d"),
        of("c<d", "d<e", "e", own="c"),
        of("d<c", "c", "e", own="d"),
    ),
    "a cause that the trace has lost": (of("c<m", "m", own="c"), of("c", own="c"), of("c<m", "m", own="c")),
}


@pytest.mark.parametrize(("row", "trace", "expected"), JOINED.values(), ids=JOINED)
def test_a_row_keeps_what_it_knows(row, trace, expected):
    """What is joined to a row adds to it, and its own failure gives way to one that it has caused."""
    assert read_row(join_failures(with_failures({}, row), trace)).report == expected


WHOLE = failure("m").model_copy(
    update={
        "failure_reason": "the provider said: " + "x" * 300,
        "http_status": 401,
        "operation": "chat",
        "cause_id": None,
    }
)
CUT = failure("m").model_copy(
    update={"failure_reason": cut(WHOLE.failure_reason, 20), "stage": FailureStage.VERIFICATION}
)


@pytest.mark.parametrize(("row", "trace"), [(WHOLE, CUT), (CUT, WHOLE)], ids=["cut in the trace", "cut in the row"])
def test_of_two_copies_nothing_is_lost(row, trace):
    """An event in a row and in a trace has what either copy has, whichever was cut on its way."""
    saved = with_failures({}, FailureReport(events={"m": row}))
    joined = read_row(join_failures(saved, FailureReport(events={"m": trace}))).report
    assert joined.events == {"m": WHOLE.model_copy(update={"stage": FailureStage.VERIFICATION})}


def test_copies_that_disagree():
    """Where a row and a trace say two things of one event, the row's stays."""
    row = with_failures({}, of("c<m", "m", own="c"))
    said = FailureEvent(
        event_id="m", boundary=FailureBoundary.SANDBOX, failure_kind="cancelled", details={"exit_code": 137}
    )
    joined = read_row(join_failures(row, FailureReport(events={"m": said}))).report
    assert joined == of("c<m", "m", own="c")


def test_a_row_goes_on_saying_that_events_are_missing():
    """What is missing in a row is not known to be there because a trace tells of the others."""
    row = with_failures({}, FailureReport(events={"m": failure("m")}, omitted=True))
    assert read_row(join_failures(row, of("m"))).report.omitted


@given(strategies.gym_rows(), strategies.failure_reports(min_size=1), strategies.failure_reports(min_size=1))
def test_joining_loses_nothing(row, before, report):
    """Every failure of both is in the row, and nothing else in it changes; doing it again changes nothing."""
    joined = join_failures(with_failures(row, before), report)
    assert read_row(joined).report.events.keys() == before.events.keys() | report.events.keys()
    assert without_failures(joined) == row
    assert join_failures(joined, report) == joined


@pytest.mark.parametrize(
    ("row", "report", "kinds_told"),
    [
        ({"_ng_failure_class": "agent_run_error"}, of("x"), ["agent_run_error", "agent_run_error"]),
        ({"_ng_failure_class": "agent_run_error"}, of("m", own="m"), ["agent_run_error"]),
    ],
)
def test_what_nemo_gym_alone_has_written_is_not_hidden(row, report, kinds_told):
    """A row's failure stays where the trace names none, and is not told twice where it does."""
    joined = read_row(join_failures(row, report)).report
    assert [one.failure_kind for one in joined.events.values()] == kinds_told
    assert joined.failure_id is not None


def test_more_failures_than_are_read_back():
    """A row has no more events than are read: its own failure and the causes stay, and it says that some are gone."""
    many = of(*(f"e{number}" for number in range(limits.DECODE_EVENTS)), "c<m", "m", own="c")
    joined = read_row(join_failures({}, many)).report
    assert (len(joined.events), joined.failure_id, joined.events["c"].cause_id) == (limits.DECODE_EVENTS, "c", "m")
    assert joined.omitted


def test_the_trace_of_a_row_stays():
    """A row that names its trace goes on naming it; one that names none gets the one that is joined."""
    row = with_failures({}, of("c", own="c"), trace_id=TRACE)
    assert read_row(join_failures(row, of("x"), trace_id="1" * 32)).trace_id == TRACE
    assert read_row(join_failures({}, of("x"), trace_id=TRACE)).trace_id == TRACE
