"""The causes in a report: they resolve, they never go round, and long chains are only long."""

import pytest
from hypothesis import given
from pydantic import ValidationError

from gym_failures import kinds
from gym_failures.records import (
    FailureBoundary,
    FailureEvent,
    FailureReport,
    circular_causes,
    validate_failure_event_map,
)
from tests import strategies


def event(event_id, cause_id=None):
    """Return an event of which only the id and the cause matter."""
    return FailureEvent(
        event_id=event_id, boundary=FailureBoundary.AGENT, failure_kind=kinds.AGENT_RUN_ERROR, cause_id=cause_id
    )


def paths(error):
    """Return the path of each field that `error` complains about, with the type of the complaint."""
    return {".".join(map(str, fault["loc"])): fault["type"] for fault in error.errors()}


def test_a_map_that_is_valid_is_returned_as_it_is():
    """Checking an event map gives the same object back."""
    events = strategies.chain_of(3).events
    assert validate_failure_event_map(events) is events
    assert validate_failure_event_map({}) == {}


def test_every_fault_of_a_map_is_told_at_once():
    """Wrong keys, missing causes and cycles of one map come in one ValueError, each with its path."""
    events = {
        "a": event("z"),
        "b": event("b", "gone"),
        "c": event("c", "c"),
    }
    with pytest.raises(ValueError, match="3 validation errors") as caught:
        validate_failure_event_map(events)
    assert paths(caught.value) == {
        "a.event_id": "event_id_mismatch",
        "b.cause_id": "cause_unknown",
        "c.cause_id": "cause_cycle",
    }


@given(strategies.links())
def test_exactly_the_cycles_are_found(causes):
    """Of any map of causes, missing and circular ones too, one event of each cycle is found and no other."""
    events = {key: event(key, cause) for key, cause in causes.items()}
    found = [_walk(causes, key) for key in circular_causes(events)]
    assert all(found)
    assert len(set(found)) == len(found)
    assert set(found) == {cycle for key in causes if (cycle := _walk(causes, key))}


def _walk(causes, start):
    """Return the ids of the cycle that `start` lies on, none if it lies on no cycle."""
    seen, key = {start}, causes[start]
    while key in causes and key not in seen:
        seen.add(key)
        key = causes[key]
    return frozenset(seen) if key == start else frozenset()


@pytest.mark.parametrize("order", [list, reversed], ids=["root first", "root last"])
def test_a_chain_of_10000_causes_is_valid(order):
    """A chain of 10,000 causes validates in either order: nothing recurses along it."""
    events = strategies.chain_of(10_000).model_dump()["events"]
    read = FailureReport.model_validate({"events": {key: events[key] for key in order(list(events))}})
    assert len(read.events) == 10_000
    assert FailureReport.model_validate_json(read.model_dump_json()) == read


def test_a_cycle_of_10000_causes_is_one_error():
    """A cycle of 10,000 causes is found and told once."""
    events = strategies.chain_of(10_000).model_dump()["events"]
    events["e0"]["cause_id"] = "e9999"
    with pytest.raises(ValidationError) as caught:
        FailureReport.model_validate({"events": events})
    assert paths(caught.value) == {"events.e1.cause_id": "cause_cycle"}
