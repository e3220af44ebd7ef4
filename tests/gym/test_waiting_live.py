"""A rollout that hangs is seen before anybody kills it: at every server that waits, and at the collection client."""

import json

import pytest

from gym_failures import semconv
from gym_failures.rows import read_row
from tests.gym.bed import scenarios
from tests.gym.conftest import WAITING_AFTER


def value_of(attribute):
    """Return the value of an attribute in OTLP's JSON."""
    ((kind, value),) = attribute["value"].items()
    return int(value) if kind == "intValue" else value


def told_of(run, scenario):
    """Return what was told of the hanging rollout of a scenario: attributes and events of each span, by service."""
    rollout = f"{scenarios.ROLLOUTS.index(scenario)}-0"
    told = {}
    for line in (line for file in run.traces for line in file.read_text().splitlines()):
        for resource in json.loads(line)["resourceSpans"]:
            about = {one["key"]: value_of(one) for one in resource["resource"]["attributes"]}
            for span in (span for scope in resource["scopeSpans"] for span in scope["spans"]):
                attributes = {one["key"]: value_of(one) for one in span.get("attributes", ())}
                if span["name"] == semconv.WAITING_SPAN_NAME and attributes.get(semconv.NEMO_GYM_ROLLOUT_ID) == rollout:
                    assert span["startTimeUnixNano"] == span["endTimeUnixNano"]
                    told.setdefault(about["service.name"], []).append((attributes, span.get("events", [])))
    return told


@pytest.fixture(scope="module")
def hanging(traced):
    """Give what was told of a rollout whose model never answers."""
    return told_of(traced, "turn-mhang")


@pytest.mark.parametrize("service", ["nemo-gym", "nemo-gym/turn", "nemo-gym/agent", "nemo-gym/model"])
def test_everyone_who_waits_tells_so(hanging, service):
    """Each process on the way tells of the request that hangs at doubling ages, each of them, with the rollout's id."""
    ages = [attributes[semconv.WAITING_DURATION] for attributes, _ in hanging[service]]
    assert len(ages) >= 2
    assert all(age >= WAITING_AFTER * 2**number for number, age in enumerate(ages)), ages
    assert all(attributes[semconv.WAITING_FAILURES] == 0 for attributes, _ in hanging[service])


def test_a_loop_without_end_tells_its_attempts(traced):
    """Of a server that died NeMo Gym asks again for ever: the attempts so far are told, and counted once."""
    (*_, (attributes, events)) = told_of(traced, "fragile-vdie")["nemo-gym/fragile"]
    tried = [{one["key"]: value_of(one) for one in event["attributes"]} for event in events]
    assert attributes[semconv.WAITING_FAILURES] >= len(tried) >= 2
    assert {event[semconv.FAILURE_ORIGIN] for event in tried} == {semconv.ORIGIN_REMOTE}
    assert len({event[semconv.FAILURE_OPERATION_ID] for event in tried}) == 1
    known = read_row(traced.rows["fragile-vdie"]).report.events
    assert {event[semconv.FAILURE_ID] for event in tried} & known.keys()
