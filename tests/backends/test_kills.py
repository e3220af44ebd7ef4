"""kill -9 of any program on the way, in the middle of a run: no failure that was accepted is lost."""

import json
import urllib.error

import pytest

from backends.stack import Collector, Jaeger
from gym_failures import kinds
from gym_failures.reading import read_reports
from tests.backends.fleet import failing, running

ROUNDS = 40
PER_ROUND = 10
KILLED_IN = (8, 24)
"""Rounds after which the victim is killed."""
STARTED_IN = (14, 30)
"""Rounds after which it is started again; what is sent in between finds it gone."""


def rebuilt(jaeger, trace_id):
    """Return the report that Jaeger's answer for a trace holds, or None when it has none."""
    try:
        document = jaeger.trace(trace_id)
    except urllib.error.HTTPError as error:
        if error.code == 404:
            return None
        raise
    reports = read_reports(json.dumps(document))
    return reports[0].report if len(reports) == 1 else None


def chain(folder, prometheus):
    """Return a Jaeger, a gateway and an agent of a test's own, one behind the other, not started."""
    jaeger = Jaeger(folder)
    gateway = Collector("gateway.yaml", folder, to={"JAEGER": jaeger.grpc, "PROMETHEUS": prometheus.write_url})
    agent = Collector("agent.yaml", folder, to={"GATEWAY": gateway.grpc})
    return {"jaeger": jaeger, "gateway": gateway, "agent": agent}


def reports(jaeger, rollouts):
    """Return what Jaeger has of rollouts and what they sent, both as reports by trace."""
    return {rollout.trace_id: rebuilt(jaeger, rollout.trace_id) for rollout in rollouts}


def sent(rollouts):
    """Return the reports that rollouts sent over the wire, by trace."""
    return {rollout.trace_id: rollout.report for rollout in rollouts}


@pytest.mark.parametrize("victim", ["jaeger", "gateway", "agent"])
def test_no_failure_is_lost(victim, tmp_path, prometheus, eventually):
    """Each program is killed twice while failures arrive; Jaeger ends up with every report, merged (jaeger#6389)."""
    programs = chain(tmp_path, prometheus)
    jaeger, gateway, agent = programs.values()
    with jaeger, gateway, agent, running(agent.http, f"killed-{victim}", insist=True) as fleet:
        rollouts = []
        for number in range(ROUNDS):
            rollouts += [fleet.rollout(failing(kinds.PROVIDER_UNAVAILABLE, reason="down")) for _ in range(PER_ROUND)]
            if number in KILLED_IN:
                programs[victim].kill()
            if number in STARTED_IN:
                programs[victim].start()
        fleet.flush()
        model = f"model-killed-{victim}"
        eventually(lambda: len(jaeger.find(model, failure_kind=kinds.PROVIDER_UNAVAILABLE)), len(rollouts))
        eventually(lambda: reports(jaeger, rollouts), sent(rollouts))


@pytest.mark.parametrize(("victim", "behind"), [("agent", "gateway"), ("gateway", "jaeger")])
def test_what_a_killed_collector_held_is_not_lost(victim, behind, tmp_path, prometheus, eventually):
    """A Collector that is killed with all it accepted still unsent, its senders gone, delivers it when it is back."""
    programs = chain(tmp_path, prometheus)
    with programs["jaeger"] as jaeger, programs["gateway"], programs["agent"]:
        programs[behind].kill()
        with running(programs[victim].http, "held") as fleet:
            rollouts = [fleet.rollout(failing(kinds.PROVIDER_UNAVAILABLE, reason="down")) for _ in range(PER_ROUND)]
        told = programs[victim].metrics()
        assert told["otelcol_exporter_queue_size"] > 0
        assert told.get("otelcol_exporter_sent_spans_total", 0) == 0
        programs[victim].kill()
        programs[behind].start()
        assert not any(reports(jaeger, rollouts).values())
        programs[victim].start()
        eventually(lambda: reports(jaeger, rollouts), sent(rollouts))
