"""Chains of exceptions that are longer than what is made of them, as loops make that raise each error from the last."""

from unittest import mock

import pytest
from hypothesis import given

from gym_failures import limits
from gym_failures.chain import Carried, failures_of
from gym_failures.kinds import FailureBoundary
from gym_failures.marks import REMOTE, Mark, mark_of
from gym_failures.records import FailureEvent
from tests.raising import chained, failure, recorded_by
from tests.strategies import exceptions

AGENT = FailureBoundary("agent")

pytestmark = pytest.mark.usefixtures("counted_ids")


def attempts(number):
    """Return failures that say which they are, the newest first."""
    return [failure("agent", "judge_failed", reason=str(index)) for index in reversed(range(number))]


def told(found):
    """Return the reasons from the own failure down to its root."""
    events = {event.event_id: event for event in found.events}
    chain = [found.own]
    while chain[-1].cause_id is not None:
        chain.append(events[chain[-1].cause_id])
    return [event.failure_reason for event in chain]


def test_of_a_long_chain_both_ends_stay_and_the_gap_is_counted():
    """What began it all is kept and linked, only it is a root, and a cut sets `omitted` and a count.

    A depth cut that said neither was taken for the whole (durabletask-python#99).
    """
    found = failures_of(chained(*attempts(100), failure("sandbox", "provider_oom_killed", reason="root")))
    kept = limits.CHAIN_LINKS // 2
    assert told(found) == [*map(str, range(99, 99 - kept, -1)), *map(str, range(kept - 2, -1, -1)), "root"]
    assert [event.failure_kind for event in found.events if event.cause_id is None] == ["provider_oom_killed"]
    assert (found.omitted, found.dropped) == (True, 101 - limits.CHAIN_LINKS)


def test_exceptions_in_the_gap_that_are_no_failures_are_not_missed():
    """Of foreign exceptions above a failure one event is made however many they are, so nothing is missing."""
    found = failures_of(chained(*(RuntimeError(str(n)) for n in range(100)), failure(reason="root")), boundary=AGENT)
    assert told(found) == ["0", "root"]
    assert (found.omitted, found.dropped) == (False, 0)


def test_members_of_a_group_in_the_gap_are_counted():
    """A group that is passed over stands for as many failures as it has members."""
    middle = ExceptionGroup("g", [ValueError("a"), ValueError("b")])
    found = failures_of(chained(*attempts(40), middle, *attempts(40)))
    assert found.dropped == 81 - limits.CHAIN_LINKS - 1 + 2


def test_what_a_failure_in_the_gap_was_raised_from_is_no_other_failures():
    """A foreign error belongs to the failure that was raised from it, and goes with that one."""
    kept = limits.CHAIN_LINKS // 2
    errors = [*attempts(kept + 8), KeyError("k"), *attempts(kept - 1)]
    found = failures_of(chained(*errors))
    assert told(found)[kept - 1 : kept + 1] == ["8", str(kept - 2)]
    assert [event.foreign_error for event in found.events] == [None] * len(found.events)


def test_what_is_recorded_already_is_linked_beneath_the_gap():
    """However many new failures are raised from a recorded one, it is not in the gap, and its causes are known."""
    known = chained(*attempts(3))
    recorded_by(failures_of(known, owner="log"), "log")
    found = failures_of(chained(*attempts(100), known), owner="log")
    assert told(found)[-4:] == ["0", "2", "1", "0"]
    assert found.dropped == 100 - limits.CHAIN_LINKS


def test_a_second_look_records_nothing_of_the_gap():
    """Whoever looks at a long chain next, and however often, takes it as it was recorded."""
    error = chained(*attempts(100))
    first = recorded_by(failures_of(error, owner="log"), "log")
    for again in (failures_of(error, owner="log"), failures_of(error.__cause__, owner="log")):
        assert {event.event_id for event in again.events} <= {event.event_id for event in first.events}
        assert again.dropped == 0


def test_what_a_recorded_failure_is_raised_from_afterwards_is_recorded():
    """A cause that a failure got after it was recorded was never passed over, and is a failure like any other."""
    error = failure(reason="known")
    recorded_by(failures_of(error, owner="log"), "log")
    found = failures_of(chained(error, failure(reason="new")), owner="log")
    assert [event.failure_reason for event in found.events] == ["new", "known"]


def test_what_a_reply_reported_is_linked_beneath_the_gap():
    """An exception that was made of a reply stands for what that reported, wherever it is in the chain."""
    remote = FailureEvent(event_id="r", boundary="model", failure_kind="provider_unavailable", failure_reason="remote")
    reply = RuntimeError("HTTP 500")
    found = failures_of(
        chained(*attempts(100), reply, *attempts(100)),
        carried=lambda error: Carried(Mark((remote,), REMOTE), omitted=False) if error is reply else None,
    )
    assert told(found)[-2:] == ["0", "remote"]


def test_a_mark_does_not_grow_with_the_loop():
    """Each error that is recorded and raised from the last one knows the nearest causes and the root, and no more."""
    error = failure("sandbox", "provider_oom_killed", reason="root")
    for attempt in attempts(200):
        error = chained(attempt, error)
        found = recorded_by(failures_of(error, owner="log"), "log")
        assert found.dropped == 0
    events = mark_of(error).events
    assert len(events) == limits.CHAIN_LINKS
    assert [events[0].failure_reason, events[1].failure_reason, events[-1].failure_reason] == ["0", "1", "root"]


def test_members_raised_from_one_long_chain_are_followed_within_bounds():
    """What the members of a group have beneath them is looked at a bounded number of times, and a cut is counted."""
    chain = chained(*(RuntimeError() for _ in range(2 * limits.GROUP_LINKS)))
    group = ExceptionGroup("g", [chained(ValueError(str(n)), chain) for n in range(limits.GROUP_MEMBERS)])
    looked_at = []
    found = failures_of(group, boundary=AGENT, carried=looked_at.append)
    assert len(looked_at) <= limits.GROUP_LINKS + limits.GROUP_MEMBERS * limits.CHAIN_LINKS + 1
    assert [event.failure_reason for event in found.events[:-1]] == [str(n) for n in range(limits.GROUP_MEMBERS)]
    assert (found.omitted, found.dropped) == (True, limits.GROUP_MEMBERS)


def test_a_member_raised_from_a_long_chain_keeps_what_it_began_with():
    """A loop within a group of tasks loses its root no more than one without."""
    chain = chained(*attempts(1000), failure("sandbox", "provider_oom_killed", reason="root"))
    found = failures_of(ExceptionGroup("g", [chain]), boundary=AGENT)
    assert told(found)[-1] == "root"
    assert found.dropped == 1001 - limits.CHAIN_LINKS


@given(exceptions())
def test_whatever_is_cut_the_rest_hangs_together(error):
    """With a bound that nearly every chain exceeds, no event names a cause that is not there, and a cut is counted."""
    with mock.patch.object(limits, "CHAIN_LINKS", 2):
        found = failures_of(error, boundary=AGENT)
        again = failures_of(error, boundary=AGENT)
    assert again.own is found.own
    assert {event.cause_id for event in found.events} - {None} <= {event.event_id for event in found.events}
    assert found.omitted is (found.dropped > 0)
