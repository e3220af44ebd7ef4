"""Reports compared with the table in `cases.py`."""

from gym_failures.repair import chain_ids


def name(event):
    """Return the name of a failure, as in the table."""
    return f"{event.boundary.value}:{event.failure_kind}"


def chain_of(report):
    """Return the events of a report's own failure and its causes, the root cause last."""
    return [report.events[event_id] for event_id in chain_ids(report.events, report.failure_id)]


def beside(report):
    """Return the events of a report that are not among those."""
    chain = {event.event_id for event in chain_of(report)}
    return [event for event_id, event in report.events.items() if event_id not in chain]


def assert_shows(report, case, chain, more=()):
    """Assert that a report has the case's failures, with `chain` as its own, and `more` beside."""
    assert [name(event) for event in chain_of(report)] == list(chain)
    others = [event for event in beside(report) if name(event) not in case.repeated]
    assert sorted(map(name, others)) == sorted([*case.beside, *more])
    assert {name(event) for event in report.events.values()} >= set(case.repeated)
    for event in chain_of(report)[-1:] or others:
        assert_is(event, case.root)


def assert_is(event, fields):
    """Assert that an event has these fields."""
    told = event.model_dump(mode="json")
    assert {key: told.get(key) for key in fields} == fields
