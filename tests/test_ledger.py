"""The memory of one request's failures is bounded, and what the report needs most goes last."""

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
