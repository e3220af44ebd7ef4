"""What a user sees of each failure of a real NeMo Gym: in the row, in the reply, in the trace, in the counts.

NeMo Gym alone shows "500", a reward, or nothing (NVIDIA-NeMo/Gym#316, #2218); each scenario is a row of the table in
`cases.py`.
"""

import json
from collections import Counter

import pytest

from gym_failures import kinds, semconv
from gym_failures.agreement import disagreements
from gym_failures.reading import read_files
from gym_failures.rows import read_row
from tests.gym.bed import scenarios
from tests.gym.bed.metrics import counts
from tests.gym.cases import CALLS, LEFT, ROLLOUTS
from tests.gym.seeing import assert_is, assert_shows, chain_of, name

FAILING = [scenario for scenario, case in ROLLOUTS.items() if case != type(case)()]
WELL = sorted(ROLLOUTS.keys() - set(FAILING))


@pytest.fixture(scope="module")
def rebuilt(traced):
    """Give the reports that are rebuilt from the files of spans, by the scenario of a rollout."""
    known = {f"{index}-0": scenario for index, scenario in enumerate(scenarios.ROLLOUTS)}
    return {known[one.key]: one for one in read_files(traced.traces, by="rollout") if one.key in known}


@pytest.fixture(scope="module")
def others(traced):
    """Give the reports of all else."""
    known = {f"{index}-0" for index in range(len(scenarios.ROLLOUTS))}
    return [one for one in read_files(traced.traces, by="rollout") if one.key not in known]


@pytest.mark.parametrize("scenario", FAILING)
def test_the_row_tells_it(traced, scenario):
    """A row holds every failure of its rollout with the causes of its own, and says in which trace there is more."""
    case, row = ROLLOUTS[scenario], traced.rows[scenario]
    assert_shows(read_row(row).report, case, case.chain)
    assert row.get(semconv.ROW_FAILURE_TRACE_ID)


@pytest.mark.parametrize("scenario", FAILING)
def test_the_reply_tells_it(traced, scenario):
    """The reply to the collection tells all that failed in the servers, and on a 200 what they failed with."""
    case = ROLLOUTS[scenario]
    chain = tuple(one for one in case.chain if not one.startswith("collection:"))
    if case.verdict:  # What a verifier says in a result is for the collection to take for its own.
        assert_shows(traced.replies[scenario].report, case, (), more=chain)
    else:
        assert_shows(traced.replies[scenario].report, case, chain)


@pytest.mark.parametrize("scenario", FAILING)
def test_the_trace_tells_it(traced, rebuilt, scenario):
    """The report that is rebuilt from the trace is that of the row, and knows in addition what nobody waited for."""
    case, report = ROLLOUTS[scenario], rebuilt[scenario]
    differing = disagreements(read_row(traced.rows[scenario]).report, report)
    assert [one for one in differing if not one.endswith(" is in the trace only")] == []
    assert len(differing) == len(case.beneath)
    assert_shows(report.report, case, case.chain, more=case.beneath)
    assert report.missing_causes == report.remote_only == ()
    assert not report.report.omitted or case.repeated  # of very many attempts a log keeps the first and the last
    assert report.trace_id == traced.rows[scenario][semconv.ROW_FAILURE_TRACE_ID]


@pytest.mark.parametrize("scenario", WELL)
def test_nothing_is_told_where_nothing_fails(traced, rebuilt, scenario):
    """Where nothing fails there is no key of ours in the row, no report in the reply, no failure in the trace."""
    assert not [key for key in traced.rows[scenario] if key.startswith("_ng_failure_")]
    assert traced.replies[scenario].report is None
    assert scenario not in rebuilt


TRIES = {
    "relay-m429": "model:provider_quota_exhausted",
    "relay-m500": "model:provider_unavailable",
    "relay-mdrop3": "model:transport_peer_drop",
}
"""Failures of three tries of a call to the provider."""


@pytest.mark.parametrize("scenario", TRIES)
def test_attempts_of_one_call_belong_together(traced, scenario):
    """Tries that NeMo Gym's clients hide are attempts of one operation, and the last one is what it failed with."""
    report = read_row(traced.rows[scenario]).report
    tried = [event for event in report.events.values() if name(event) == TRIES[scenario]]
    (operation,) = {event.operation_id for event in tried}
    assert sorted(event.attempt_id for event in tried) == [f"{operation}.{n}" for n in (1, 2, 3)]
    assert [event.attempt_id for event in chain_of(report)[-1:]] in ([], [f"{operation}.3"])


def test_attempts_without_end_belong_together(traced):
    """Of a server that died while it was asked NeMo Gym asks again for ever: those are attempts of the same call."""
    events = read_row(traced.rows["fragile-vdie"]).report.events.values()
    (dropped,) = [event for event in events if event.failure_kind == kinds.TRANSPORT_PEER_DROP]
    again = [event for event in events if event.operation_id == dropped.operation_id and event is not dropped]
    assert dropped.attempt_id == f"{dropped.operation_id}.1"
    assert f"{dropped.operation_id}.2" in {event.attempt_id for event in again}
    assert {event.failure_kind for event in again} == {kinds.TRANSPORT_UNREACHABLE}


def test_rollouts_of_the_same_kinds_are_kept_apart(rebuilt):
    """No event, no operation and no trace of one rollout is in another, however alike and at the same time."""
    seen = {}
    for scenario, report in rebuilt.items():
        for event in report.report.events.values():
            for part in {event.event_id, event.operation_id, report.trace_id} - {None}:
                assert seen.setdefault(part, scenario) == scenario
    assert {"relay-m401", "relay-m401-2", "relay-m429", "relay-m429-2"} <= set(seen.values())


@pytest.mark.parametrize("scenario", CALLS)
def test_other_replies_tell_it(traced, others, scenario):
    """A call that is no rollout's, a stream too, tells its failure: in the header, or in the last comment when late."""
    case, reply = CALLS[scenario], traced.replies[scenario]
    report = reply.last_comment if case.late else reply.report
    if not case.chain:
        assert reply.report is reply.last_comment is None
        return
    assert [name(event) for event in chain_of(report)] == list(case.chain)
    root = chain_of(report)[-1]
    assert_is(root, case.root)
    (rebuilt,) = [one for one in others if root.event_id in one.report.events]
    assert rebuilt.span.status.name == "ERROR"
    assert rebuilt.report.failure_id == root.event_id


def test_every_server_that_noticed_says_that_it_was_left(others):
    """Where the client goes away, it and each server on the way say that the work was cancelled."""
    cancelled = [
        sorted(map(name, one.report.events.values()))
        for one in others
        if any(event.failure_kind == kinds.CANCELLED for event in one.report.events.values())
    ]
    assert sorted(cancelled) == sorted(map(list, LEFT.values()))


def test_every_failure_is_counted_once(traced, rebuilt, others):
    """The counters add up to the events in the traces, by kind, boundary, stage and root (NVIDIA-NeMo/Gym#3182)."""
    told = Counter(
        (
            event.failure_kind
            if kinds.is_registered(event.failure_kind) or kinds.is_namespaced(event.failure_kind)
            else "_OTHER",
            event.boundary.value,
            event.stage.value if event.stage else None,
            event.cause_id is None,
        )
        for report in [*rebuilt.values(), *others]
        for event in report.report.events.values()
    )
    labels = (semconv.FAILURE_KIND, semconv.FAILURE_BOUNDARY, semconv.FAILURE_STAGE, semconv.FAILURE_ROOT)
    assert counts(traced.metrics, semconv.METRIC_FAILURES, *labels) == told


SERVER_SPAN = 2  # in OTLP's numbers


def test_the_span_of_a_request_has_its_route(traced):
    """A server's span is named by its route also where NeMo Gym puts the rollout's id before the path."""
    lines = (json.loads(line) for file in traced.traces for line in file.read_text().splitlines())
    scopes = (scope for line in lines for resource in line["resourceSpans"] for scope in resource["scopeSpans"])
    spans = [span for scope in scopes for span in scope["spans"] if span["kind"] == SERVER_SPAN]
    told = [(span["name"], {one["key"]: one["value"] for one in span["attributes"]}) for span in spans]
    behind = [(name, about) for name, about in told if "/ng-rollout/" in str(about.get("http.target"))]
    assert {"POST /seed_session", "POST /v1/responses", "POST /verify"} <= {name for name, _ in behind}
    assert [name for name, about in behind if name != f"POST {about['http.route']['stringValue']}"] == []
