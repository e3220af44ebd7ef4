"""Failures are found in Jaeger by kind, and its answer holds the whole report that went over the wire."""

import json

import pytest

from backends.stack import Collector, Jaeger
from gym_failures import kinds, semconv
from gym_failures.ids import new_id
from gym_failures.reading import read_reports
from gym_failures.records import FailureEvent
from tests.backends.fleet import failing, running

PER_KIND = {kinds.PROVIDER_UNAVAILABLE: 6, kinds.PROVIDER_QUOTA_EXHAUSTED: 4, "model:too_long": 3}
STORAGES = ("badger", "ephemeral", "memory")
SPANS_OF_A_ROLLOUT = 6


def recovered(log):
    """Observe a failed attempt at the model and answer well all the same."""
    log.observe_failure(
        FailureEvent(event_id=new_id(), boundary="model", failure_kind=kinds.TRANSPORT_PEER_DROP, attempt_id="op.1")
    )


@pytest.fixture(scope="module", params=STORAGES)
def searched(request, tmp_path_factory):
    """Run the same work through agent and gateway into a Jaeger of each storage."""
    if request.param == "badger":
        jaeger, agent = request.getfixturevalue("jaeger"), request.getfixturevalue("agent")
        with running(agent.http, "search") as fleet:
            yield (jaeger, *work(fleet))
        return
    folder = tmp_path_factory.mktemp("laptop")
    prometheus = request.getfixturevalue("prometheus")
    with (
        Jaeger(folder, storage=request.param) as jaeger,
        Collector("all-in-one.yaml", folder, to={"JAEGER": jaeger.grpc, "PROMETHEUS": prometheus.write_url}) as laptop,
        running(laptop.http, "search") as fleet,
    ):
        yield (jaeger, *work(fleet))


def work(fleet):
    """Return the failed rollouts by kind and the recovered ones, after everything was sent."""
    failed = {
        kind: [fleet.rollout(failing(kind, reason=f"{kind}: 密码 €")) for _ in range(n)] for kind, n in PER_KIND.items()
    }
    recoveries = [fleet.rollout(recovered) for _ in range(2)]
    fleet.flush()
    return failed, recoveries


def trace_ids(traces):
    """Return the trace ids of what a search found."""
    return {found["traceID"] for found in traces}


@pytest.mark.parametrize("kind", PER_KIND)
def test_every_failed_rollout_is_found_by_kind(searched, eventually, kind):
    """A search by kind at the service that failed finds every rollout that failed so, and no other (jaeger#9184)."""
    jaeger, failed, _ = searched
    expected = {rollout.trace_id for rollout in failed[kind]}
    eventually(lambda: trace_ids(jaeger.find("model-search", failure_kind=kind)), expected)


@pytest.mark.parametrize("kind", PER_KIND)
def test_a_root_cause_is_found_at_the_top(searched, eventually, kind):
    """The kind of the root cause finds the trace also at the service that only heard of it, by the event alone."""
    jaeger, failed, _ = searched
    expected = {rollout.trace_id for rollout in failed[kind]}
    eventually(lambda: trace_ids(jaeger.find("collection-search", failure_kind=kind)), expected)


def test_a_failure_is_found_by_its_id(searched, eventually):
    """The id of the failure that a row or a header names finds its one trace."""
    jaeger, failed, _ = searched
    rollout = failed[kinds.PROVIDER_UNAVAILABLE][0]
    eventually(
        lambda: trace_ids(jaeger.find("collection-search", failure_id=rollout.report.failure_id)), {rollout.trace_id}
    )


def test_boundary_and_kind_on_one_span(searched, eventually):
    """Two tags that stand on one span or in one event are searched together."""
    jaeger, failed, _ = searched
    expected = {rollout.trace_id for rollouts in failed.values() for rollout in rollouts}
    found = lambda: trace_ids(jaeger.find("agent-search", failure_kind="agent_run_error", failure_boundary="agent"))  # noqa: E731
    eventually(found, expected)


def test_a_recovered_failure_is_found_by_its_event(searched, eventually):
    """A failure that harmed nobody is on no span as a summary, and is found by its event (promscale#1552)."""
    jaeger, _, recoveries = searched
    expected = {rollout.trace_id for rollout in recoveries}
    eventually(lambda: trace_ids(jaeger.find("model-search", failure_kind=kinds.TRANSPORT_PEER_DROP)), expected)


def test_jaegers_answer_holds_the_report_of_the_wire(searched, eventually):
    """The report that is rebuilt from Jaeger's answer equals, event by event, the one that the top service received."""
    jaeger, failed, recoveries = searched
    for rollout in (*(rollout for rollouts in failed.values() for rollout in rollouts), *recoveries):
        eventually(lambda id_=rollout.trace_id: len(spans_of(jaeger.trace(id_))), SPANS_OF_A_ROLLOUT)
        (rebuilt,) = read_reports(json.dumps(jaeger.trace(rollout.trace_id)))
        assert rebuilt.report == rollout.report
        assert rebuilt.trace_id == rollout.trace_id
        assert not rebuilt.missing_causes


def test_the_summary_of_a_span_is_its_own_failure(searched, eventually):
    """What a span says of itself is the failure of its own server, not the root cause that it heard of."""
    jaeger, failed, _ = searched
    rollout = failed[kinds.PROVIDER_UNAVAILABLE][0]
    eventually(lambda: len(spans_of(jaeger.trace(rollout.trace_id))), SPANS_OF_A_ROLLOUT)
    summaries = {
        span["name"]: values[semconv.FAILURE_KIND]
        for span in spans_of(jaeger.trace(rollout.trace_id))
        if semconv.FAILURE_KIND in (values := texts(span))
    }
    assert summaries == {
        "POST /rollout": "agent_request_failed",
        "POST /run": "agent_run_error",
        "POST /v1/responses": kinds.PROVIDER_UNAVAILABLE,
    }


def test_the_mark_stays_inside(searched, eventually):
    """What the gateway marks failing spans with is gone when they come to Jaeger, and so is every other trace of it."""
    jaeger, failed, _ = searched
    rollout = failed[kinds.PROVIDER_UNAVAILABLE][0]
    eventually(lambda: len(spans_of(jaeger.trace(rollout.trace_id))), SPANS_OF_A_ROLLOUT)
    assert "gym.collector" not in json.dumps(jaeger.trace(rollout.trace_id))


def spans_of(document):
    """Return the spans of an OTLP JSON document."""
    return [
        span for resource in document["resourceSpans"] for scope in resource["scopeSpans"] for span in scope["spans"]
    ]


def texts(span):
    """Return the text attributes of a span."""
    return {one["key"]: one["value"].get("stringValue") for one in span.get("attributes", ())}
