"""Merging: one report of two, in which every record keeps its first copy."""

from hypothesis import given

from gym_failures import kinds
from gym_failures.records import FailureBoundary, FailureEvent, FailureReport
from tests import strategies


def event(event_id, *, cause_id=None, reason=""):
    """Return an event of which only the given fields matter."""
    return FailureEvent(
        event_id=event_id,
        boundary=FailureBoundary.AGENT,
        failure_kind=kinds.AGENT_RUN_ERROR,
        failure_reason=reason,
        cause_id=cause_id,
    )


def report(*events, failure_id=None, omitted=False):
    """Return a report of `events`."""
    return FailureReport(events={each.event_id: each for each in events}, failure_id=failure_id, omitted=omitted)


def test_the_first_copy_of_an_id_is_kept():
    """An id names one record, so this report's copy wins over the other's."""
    mine, theirs = report(event("a", reason="mine")), report(event("a", reason="theirs"), event("b"))
    assert mine.merged(theirs) == report(event("a", reason="mine"), event("b"))


def test_the_own_failure_stays():
    """The merged report has this report's failure, never the other's, even where this one has none."""
    failed, recovered = report(event("a"), failure_id="a"), report(event("b"))
    assert failed.merged(recovered).failure_id == "a"
    assert recovered.merged(failed).failure_id is None
    assert failed.merged(report(event("b"), failure_id="b")).failure_id == "a"


def test_what_either_omitted_is_omitted():
    """The merged report is incomplete when either was."""
    cut, whole = report(omitted=True), report()
    assert [one.merged(two).omitted for one in (cut, whole) for two in (cut, whole)] == [True, True, True, False]


def test_own_events_come_first():
    """Own events keep their order, and the other's follow in theirs."""
    assert list(report(event("b"), event("a")).merged(report(event("d"), event("a"), event("c"))).events) == [*"badc"]


def test_opposite_links_do_not_meet():
    """Two reports that link the same two events in opposite ways merge without a cycle: own copies of both are kept."""
    one = report(event("a", cause_id="b"), event("b"))
    two = report(event("b", cause_id="a"), event("a"))
    assert one.merged(two) == one
    assert two.merged(one) == two


def test_a_merged_report_dumps_what_it_has_as_set():
    """Events that only the other report had are no defaults: `exclude_unset` keeps them."""
    assert FailureReport().merged(report(event("a"))).model_dump(exclude_unset=True)["events"].keys() == {"a"}


@given(strategies.report_pairs())
def test_a_merged_report_is_valid(pair):
    """The merge of any two valid reports validates, and holds every id of both and nothing else."""
    one, two = pair
    merged = one.merged(two)
    assert FailureReport.model_validate(merged.model_dump()) == merged
    assert merged.events == two.events | one.events


@given(strategies.report_pairs())
def test_merging_changes_neither_report(pair):
    """A merge makes a new report: both of its parts stay as they were, also when the new one is changed."""
    one, two = pair
    before = one.model_dump(), two.model_dump()
    one.merged(two).events.clear()
    assert (one.model_dump(), two.model_dump()) == before


@given(strategies.failure_reports())
def test_merging_with_itself_or_nothing_changes_nothing(whole):
    """A report delivered twice, or merged with an empty one, is the same report."""
    assert whole.merged(whole) == whole
    assert whole.merged(FailureReport()) == whole
