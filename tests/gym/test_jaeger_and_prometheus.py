"""A real NeMo Gym into a real Jaeger and a real Prometheus, with nothing but an endpoint given."""

from collections import Counter

import pytest

from tests.backends.conftest import agent, eventually, gateway, jaeger, programs, prometheus  # noqa: F401 - fixtures
from tests.gym.bed.run import patience, run, tracing
from tests.gym.cases import ROLLOUTS, everything

REPEATED = {kind for case in ROLLOUTS.values() for kind in case.repeated}
COUNTERS = ("gym_failures_total", 'gym_failures_span_events_total{failure_origin="local"}')


@pytest.fixture(scope="module")
def sent(tmp_path_factory, agent):  # noqa: F811 - the fixture
    """Give a run of the bed that has sent everything to a Collector."""
    folder = tmp_path_factory.mktemp("sent")
    done = run(folder, *tracing(folder), OTEL_EXPORTER_OTLP_ENDPOINT=agent.http, **patience(folder))
    assert done.traces == []
    return done


@pytest.mark.parametrize("scenario", [scenario for scenario, case in ROLLOUTS.items() if case.chain])
def test_each_failed_rollout_is_found_by_the_kind_of_its_failure(sent, jaeger, eventually, scenario):  # noqa: F811
    """A search in Jaeger for the kind of a rollout's own failure finds its trace (jaeger#9184)."""
    row, kind = sent.rows[scenario], ROLLOUTS[scenario].chain[0].partition(":")[2]
    eventually(lambda: row["_ng_failure_trace_id"] in found(jaeger, failure_kind=kind), expected=True)


def test_a_root_cause_is_found_at_the_server_that_saw_it(sent, jaeger, eventually):  # noqa: F811
    """A search at the model server for a kind and a rollout finds the trace of that rollout, and no other."""
    index = [*ROLLOUTS].index("relay-m429")
    tags = {"nemo.gym.rollout.id": f"{index}-0", "failure.kind": "provider_quota_exhausted"}
    wanted = {sent.rows["relay-m429"]["_ng_failure_trace_id"]}
    eventually(lambda: found(jaeger, "nemo-gym/model", tags), wanted)


@pytest.mark.usefixtures("sent")
@pytest.mark.parametrize("counter", COUNTERS, ids=["the servers' counter", "the gateway's count of spans"])
def test_counts_are_exact(prometheus, eventually, counter):  # noqa: F811
    """Prometheus has every failure once by kind and boundary, by both ways of counting."""
    expected = Counter()
    for failure, times in everything().items():
        boundary, _, kind = failure.partition(":")
        expected[boundary, "_OTHER" if kind == "my_new_kind" else kind] += times

    def counted():
        series = prometheus.query(f"sum by (failure_boundary, failure_kind) ({counter})")
        told = {(labels["failure_boundary"], labels["failure_kind"]): int(value) for labels, value in series}
        return {key: times for key, times in told.items() if ":".join(key) not in REPEATED}

    eventually(counted, dict(expected))


def found(jaeger, service="nemo-gym", tags=None, **more):  # noqa: F811
    """Return the ids of the traces that a search finds."""
    return {trace["traceID"] for trace in jaeger.find(service, tags, **more)}
