"""Between exceptions and reports: what an exception stands for, and an exception of what a report says.

The package's own classes of exceptions are in `exceptions`, whose docstring shows how they hang together.
"""

from gym_failures import limits
from gym_failures.chain import failures_of
from gym_failures.exceptions import FailureError, GymFailuresError
from gym_failures.kinds import FailureBoundary, FailureStage
from gym_failures.marks import REMOTE, Mark, set_mark
from gym_failures.records import FailureReport
from gym_failures.repair import chain_ids, repair

__all__ = ["FailureError", "GymFailuresError", "error_from", "report_for"]


def report_for(
    error: BaseException, *, boundary: FailureBoundary | str | None = None, stage: FailureStage | str | None = None
) -> FailureReport:
    """Return the report of `error` and of its explicit causes; its own failure is that of `error`.

    `boundary` is where it was observed: an exception that is no failure, or one of another boundary, becomes a failure
    there. With None only what is a failure already is reported; when nothing is, the report is empty. `stage` is
    the part of the episode, None where unknown. `omitted` is set where causes or members of groups were cut.

    Nothing is recorded, but each exception is marked with its failure, so that a later record is of the same one. The
    texts are as the exceptions have them; what leaves the process through a log or a recorder is scrubbed there.
    Raises ValueError for a boundary or a stage that does not exist.
    """
    found = failures_of(
        error,
        boundary=None if boundary is None else FailureBoundary(boundary),
        stage=None if stage is None else FailureStage(stage),
    )
    events = {event.event_id: event for event in found.events}
    failure_id = None if found.own is None else found.own.event_id
    return repair(events, failure_id=failure_id, omitted=found.omitted).report


def error_from(report: FailureReport) -> FailureError | None:
    """Return the own failure of `report` as an exception to raise, or None when the report has none.

    Each failure that it was caused by is the `__cause__` of the one before, down to the root. All are marked as
    failures from elsewhere: who observes one records a failure of its own, with this one as its cause.
    """
    chain = tuple(report.events[event_id] for event_id in chain_ids(report.events, report.failure_id))
    error: FailureError | None = None
    for index in reversed(range(len(chain))):
        effect = FailureError.of(chain[index])
        effect.__cause__ = error
        remaining = chain[index : index + limits.LOG_EVENTS]
        if index + limits.LOG_EVENTS < len(chain):
            remaining = (*remaining[:-1], chain[-1])  # the root cause survives
        set_mark(effect, Mark(remaining, REMOTE))
        error = effect
    return error
