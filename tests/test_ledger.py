"""The memory of one request's failures is bounded, and what the report needs most goes last."""

import pytest

from gym_failures import limits
from gym_failures.ledger import Ledger
from gym_failures.records import FailureEvent


def attempt(number: int, *, operation: str = "call", cause: str | None = None) -> FailureEvent:
    """Make the failure of one attempt."""
    return FailureEvent(
        event_id=f"{operation}.{number}",
        boundary="agent",
        failure_kind="agent_timeout",
        operation_id=operation,
        cause_id=cause,
    )


def test_the_own_failure_stays_whatever_attempt_it_is():
    """Of many attempts the middle ones go, but not the one that is the request's own failure."""
    ledger = Ledger()
    for number in range(100):
        event = attempt(number)
        ledger.keep(event, local=True)
        if number == limits.LOG_ATTEMPTS_FIRST:
            ledger.own = event
    assert ledger.own is not None
    assert ledger.own.event_id in ledger.events
    assert len(ledger.events) == limits.LOG_ATTEMPTS_FIRST + limits.LOG_ATTEMPTS_LAST + 1


def test_a_log_that_lives_long_does_not_grow():
    """What is remembered of failures and their links is bounded by the failures that are kept."""
    ledger = Ledger()
    for number in range(4 * limits.LOG_EVENTS):
        cause = f"call-{number - 1}.0" if number else None
        ledger.keep(attempt(0, operation=f"call-{number}", cause=cause), local=True)
    sizes = [len(getattr(ledger, name)) for name in Ledger.__slots__ if hasattr(getattr(ledger, name), "__len__")]
    assert max(sizes) == limits.LOG_EVENTS


def full(**causes: str) -> Ledger:
    """Make a ledger that has no room left; `causes` are its first events, each with the id of its cause."""
    ledger = Ledger()
    names = [*causes, *(f"filler{number}" for number in range(limits.LOG_EVENTS - len(causes)))]
    for name in names:
        ledger.keep(single(name, causes.get(name) or None), local=True)
    return ledger


def single(event_id: str, cause: str | None = None) -> FailureEvent:
    """Make a failure that is no attempt."""
    return FailureEvent(event_id=event_id, boundary="agent", failure_kind="agent_timeout", cause_id=cause)


def gone(ledger: Ledger, more: int) -> list[str]:
    """Return what is left out, in order, as `more` failures come."""
    left: list[str] = []
    for number in range(more):
        before = list(ledger.events)
        ledger.keep(single(f"more{number}"), local=True)
        left += [event_id for event_id in before if event_id not in ledger.events]
    return left


@pytest.mark.parametrize(
    ("causes", "own", "expected"),
    [
        pytest.param({"a": "", "b": "", "c": ""}, None, ["a", "b", "c"], id="the oldest first"),
        pytest.param({"a": "", "b": "a", "c": ""}, None, ["b", "a", "c"], id="a cause after its effect"),
        pytest.param({"b": "a", "a": "", "c": ""}, None, ["b", "a", "c"], id="a cause that came later"),
        pytest.param({"a": "", "b": "a", "c": "a"}, None, ["b", "c", "a"], id="a cause of two"),
        pytest.param({"a": "elsewhere", "b": ""}, None, ["a", "b"], id="a cause that is not here"),
        pytest.param({"a": "a", "b": ""}, None, ["b", "filler0"], id="its own cause"),
        pytest.param({"a": "", "b": "a", "c": ""}, "b", ["c", "filler0"], id="the own failure's chain stays"),
    ],
)
def test_what_nothing_links_to_goes_first(causes, own, expected):
    """A full ledger leaves out the oldest failure that is no other one's cause, and never the own failure's chain."""
    ledger = full(**causes)
    ledger.own = ledger.events.get(own)
    assert gone(ledger, len(expected)) == expected


@pytest.mark.parametrize("own", [None, "e0"])
def test_where_everything_is_a_cause_something_goes_all_the_same(own):
    """Causes that go round in a circle, as replies may have them, do not keep a ledger from making room."""
    names = [f"e{number}" for number in range(limits.LOG_EVENTS)]
    ledger = full(**dict(zip(names, [*names[1:], names[0]], strict=True)))
    ledger.own = ledger.events.get(own)
    assert gone(ledger, 1) == ["e0" if own is None else f"e{limits.LOG_EVENTS // 2}"]


class Unwalked(dict):
    """Events that nobody walks over."""

    def __iter__(self):
        """Refuse."""
        raise AssertionError("walked over all events for one more")


def test_a_failure_past_the_bound_costs_no_walk_over_those_that_are_kept():
    """However many failures come, each costs the same: what has to go is known, not looked for."""
    ledger = full()
    ledger.events = Unwalked(ledger.events)
    for number in range(limits.LOG_EVENTS):
        ledger.keep(single(f"more{number}", f"more{number - 1}"), local=True)
    assert len(ledger.events) == limits.LOG_EVENTS
