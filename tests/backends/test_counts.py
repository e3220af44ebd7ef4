"""Prometheus answers with exactly the number of failures that happened, by both ways, whatever is sampled."""

import pytest
from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased

from gym_failures import kinds
from tests.backends.fleet import KINDS_OF_A_ROLLOUT, failing, retried, running

INJECTED = {
    kinds.PROVIDER_QUOTA_EXHAUSTED: 23,
    kinds.PROVIDER_UNAVAILABLE: 11,
    kinds.TRANSPORT_TIMEOUT: 7,
    "model:too_long": 5,
}
RETRIED = 9
UNREGISTERED = 200
HEALTHY = 300
FAILED = sum(INJECTED.values()) + RETRIED + UNREGISTERED
OWN = {
    **INJECTED,
    kinds.PROVIDER_UNAVAILABLE: INJECTED[kinds.PROVIDER_UNAVAILABLE] + RETRIED,
    "_OTHER": UNREGISTERED,
    **dict.fromkeys(KINDS_OF_A_ROLLOUT, FAILED),
}
EXPECTED = {**OWN, kinds.TRANSPORT_PEER_DROP: RETRIED}

COUNTER = "gym_failures_total"
OF_SPANS = 'gym_failures_span_events_total{failure_origin="local"}'
WAYS = pytest.mark.parametrize("way", [COUNTER, OF_SPANS], ids=["the servers' counter", "the gateway's count of spans"])


def series(way, suffix, **labels):
    """Return the series of one way of counting, of the fleet `suffix`, with these labels."""
    name, _, given = way.rstrip("}").partition("{")
    matchers = [f'{label}="{value}"' for label, value in labels.items()]
    return f'{name}{{{", ".join(filter(None, [given, f"""service_name=~".*-{suffix}" """, *matchers]))}}}'


def work(fleet):
    """Run the rollouts of `INJECTED`, those of as many unregistered kinds, and healthy ones between them."""
    for kind, times in INJECTED.items():
        for _ in range(times):
            fleet.rollout(failing(kind, reason=f"{kind} happened", http_status=500))
    for _ in range(RETRIED):
        fleet.rollout(retried)
    for number in range(UNREGISTERED):
        fleet.rollout(failing(f"Own kind {number}"))
    for _ in range(HEALTHY):
        fleet.rollout()
    fleet.flush()


@pytest.fixture(scope="module")
def counted(agent):
    """Run the work once, with the counters of living services."""
    with running(agent.http, "counts") as fleet:
        work(fleet)
        yield fleet


@WAYS
@pytest.mark.usefixtures("counted")
def test_every_failure_counts_once(prometheus, eventually, way):
    """N failures over three hops count N by each way, with a sampler that drops healthy traces (contrib#27451)."""
    expression = f"sum by (failure_kind) ({series(way, 'counts')})"
    eventually(lambda: prometheus.by("failure_kind", expression), EXPECTED)


@WAYS
@pytest.mark.usefixtures("counted")
def test_each_boundary_counts_what_it_observed_first(prometheus, eventually, way):
    """A failure that came in a reply is counted where it happened, and never again by who received it."""
    expression = f"sum by (failure_boundary) ({series(way, 'counts')})"
    eventually(
        lambda: prometheus.by("failure_boundary", expression),
        {"model": FAILED + RETRIED, "agent": FAILED, "collection": FAILED},
    )
    roots = f"sum by (failure_boundary) ({series(way, 'counts', failure_root='true')})"
    eventually(lambda: prometheus.by("failure_boundary", roots), {"model": FAILED + RETRIED})


@WAYS
@pytest.mark.usefixtures("counted")
def test_unregistered_kinds_are_one_series(prometheus, eventually, way):
    """Any number of kinds outside the vocabulary makes one series a boundary (opentelemetry-python#2700)."""
    selected = series(way, "counts", failure_kind="_OTHER")
    eventually(lambda: prometheus.query(f"count({selected})"), [({}, 1.0)])


@pytest.mark.usefixtures("counted")
def test_no_id_and_no_text_is_a_label(prometheus, eventually):
    """Labels have few values: no id, no reason, no operation and no type of exception is one (Gym#3182)."""
    allowed = {
        *("__name__", "job", "instance", "service_name", "collector_instance_id"),
        *("failure_kind", "failure_boundary", "failure_root", "failure_stage", "failure_origin"),
    }
    everything = '{__name__=~"gym_failures_(span_events_)?total|gym_requests_failed_total", service_name=~".*-counts"}'
    eventually(lambda: {label for labels, _ in prometheus.query(everything) for label in labels} - allowed, set())
    assert {labels["__name__"] for labels, _ in prometheus.query(everything)} == {
        "gym_failures_total",
        "gym_failures_span_events_total",
        "gym_requests_failed_total",
    }


@pytest.mark.usefixtures("counted")
def test_failed_requests_are_counted_beside_failures(prometheus, eventually):
    """A request that failed counts once, under the kind of its own failure."""
    expression = 'sum by (failure_kind) (gym_requests_failed_total{service_name=~".*-counts"})'
    eventually(lambda: prometheus.by("failure_kind", expression), OWN)


@pytest.mark.usefixtures("counted")
def test_requests_are_counted_before_sampling(prometheus, eventually):
    """The share of failing requests is that of all requests, not of the traces that were kept."""
    calls = 'sum by (status_code) (traces_span_metrics_calls_total{service_name="agent-counts"})'
    eventually(
        lambda: prometheus.by("status_code", calls),
        {"STATUS_CODE_ERROR": FAILED, "STATUS_CODE_UNSET": HEALTHY},
    )


@pytest.mark.usefixtures("counted")
def test_a_count_leads_to_a_trace(prometheus, jaeger, eventually):
    """An exemplar of a kind's count is a trace of that kind, which Jaeger has."""
    selected = series(OF_SPANS, "counts", failure_kind=kinds.TRANSPORT_TIMEOUT)
    eventually(lambda: bool(prometheus.exemplars(selected)), expected=True)
    trace_id = prometheus.exemplars(selected)[0]["trace_id"]
    found = jaeger.find("model-counts", failure_kind=kinds.TRANSPORT_TIMEOUT)
    assert trace_id in {trace["traceID"] for trace in found}


def test_counters_count_what_head_sampling_drops(agent, prometheus, eventually):
    """With 10% head sampling the servers' counter counts all, and spans only what was sampled (contrib#29024)."""
    with running(agent.http, "sampled", sampler=ParentBased(TraceIdRatioBased(0.1))) as fleet:
        for _ in range(300):
            fleet.rollout(failing(kinds.TRANSPORT_TIMEOUT))
        fleet.flush()
        all_of_them = {kinds.TRANSPORT_TIMEOUT: 300, **dict.fromkeys(KINDS_OF_A_ROLLOUT, 300)}
        expression = f"sum by (failure_kind) ({series(COUNTER, 'sampled')})"
        eventually(lambda: prometheus.by("failure_kind", expression), all_of_them)
        sampled = f"sum by (failure_kind) ({series(OF_SPANS, 'sampled')})"
        # Binomial(300, 0.1) lies outside of this once in a hundred million runs.
        eventually(
            lambda: {kind for kind, count in prometheus.by("failure_kind", sampled).items() if 3 <= count <= 70},
            set(all_of_them),
        )


PROCESSES = {
    "an id of their own": (None, None),
    "a process id": ({"host.name": "h", "process.pid": 7}, {"host.name": "h", "process.pid": 8}),
}


@WAYS
@pytest.mark.parametrize("processes", PROCESSES)
def test_two_processes_of_one_service_are_told_apart(processes, way, agent, prometheus, eventually):
    """Processes that share a service name are told apart, so that neither's counter overwrites the other's."""
    first, second = PROCESSES[processes]
    name = f"twice-{len(processes)}-{len(way)}"
    with (
        running(agent.http, name, process=first) as one,
        running(agent.http, name, process=second) as other,
    ):
        for fleet, times in ((one, 3), (other, 5)):
            for _ in range(times):
                fleet.rollout(failing(kinds.CANCELLED))
            fleet.flush()
        expression = f"sum by (failure_boundary) ({series(way, name)})"
        eventually(lambda: prometheus.by("failure_boundary", expression), {"model": 8, "agent": 8, "collection": 8})
