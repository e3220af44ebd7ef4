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


@pytest.mark.parametrize("victim", ["jaeger", "gateway", "agent"])
def test_no_failure_is_lost(victim, tmp_path, prometheus, eventually):
    """Each program is killed twice while failures arrive; Jaeger ends up with every report, merged (jaeger#6389)."""
    with (
        Jaeger(tmp_path) as jaeger,
        Collector("gateway.yaml", tmp_path, to={"JAEGER": jaeger.grpc, "PROMETHEUS": prometheus.write_url}) as gateway,
        Collector("agent.yaml", tmp_path, to={"GATEWAY": gateway.grpc}) as agent,
        running(agent.http, f"killed-{victim}", insist=True) as fleet,
    ):
        program = {"jaeger": jaeger, "gateway": gateway, "agent": agent}[victim]
        sent = []
        for number in range(ROUNDS):
            sent += [fleet.rollout(failing(kinds.PROVIDER_UNAVAILABLE, reason="down")) for _ in range(PER_ROUND)]
            if number in KILLED_IN:
                program.kill()
            if number in STARTED_IN:
                program.start()
        fleet.flush()
        expected = {rollout.trace_id: rollout.report for rollout in sent}
        model = f"model-killed-{victim}"
        eventually(lambda: len(jaeger.find(model, failure_kind=kinds.PROVIDER_UNAVAILABLE)), len(expected))
        eventually(lambda: {trace_id: rebuilt(jaeger, trace_id) for trace_id in expected}, expected)
