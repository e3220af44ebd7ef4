"""What the demo shows is what its faults do, and is the same in every run."""

import json
import shutil
from collections import Counter

import pytest

from gym_failures.demo import plan
from gym_failures.demo.check import compare
from gym_failures.kinds import FailureBoundary
from gym_failures.reading import read_files
from gym_failures.repair import chain_ids
from tests.demo.conftest import SEED

pytestmark = pytest.mark.timeout(300)  # six servers start on a machine that may be busy

# A failure is written as kind@boundary, a chain from its root cause on.
TOP = ("agent_run_error@agent", "agent_request_failed@collection")
QUOTA = "provider_quota_exhausted@model"

# By fault: the chain of the rollout's own failure, and what else there was.
ENDS = {
    plan.HEALTHY: ((), ()),
    plan.PROVIDER_401: (("provider_unavailable@model", *TOP), ()),
    plan.PROVIDER_429: ((QUOTA, *TOP), (QUOTA, QUOTA)),
    plan.CONNECTION_RESET: ((), ("transport_peer_drop@model",)),
    plan.STREAM_BROKEN: (("transport_peer_drop@model", *TOP), ()),
    plan.AGENT_TIMEOUT: (("agent_timeout@agent", "agent_request_failed@collection"), ("cancelled@model",)),
    plan.SANDBOX_OOM: (("provider_oom_killed@sandbox", *TOP), ()),
    plan.VERIFIER_ERROR: (("verifier_error@resources_server", *TOP), ()),
    plan.JUDGE_UNPARSEABLE: (("judge_unparseable@resources_server", *TOP), ()),
    plan.NAMESPACED_KIND: (("resources_server:no_such_city@resources_server", *TOP), ()),
    plan.UNREGISTERED_KIND: (("weather_station_offline@resources_server", *TOP), ()),
    plan.CLIENT_CANCEL: (("cancelled@collection",), ("cancelled@agent", "cancelled@model")),
    plan.GAP: (TOP, ("provider_oom_killed@sandbox",)),
    plan.PEER_KILLED: (("transport_peer_drop@agent", "agent_request_failed@collection"), ()),
}
ROLLOUTS = {fault.name: fault.rollouts for fault in plan.FAULTS}
TABLE = """\
                                                     resources_                 root
kind                          collection agent model     server sandbox total causes
agent_request_failed                  27                                   27
agent_run_error                             24                             24      2
provider_quota_exhausted                           9                        9      9
transport_peer_drop                          1     6                        7      7
cancelled                              1     1     3                        5      5
provider_oom_killed                                                   5     5      5
judge_unparseable                                             3             3      3
provider_unavailable                               3                        3      3
verifier_error                                                3             3      3
agent_timeout                                2                              2      2
resources_server:no_such_city                                 2             2      2
weather_station_offline *                                     2             2      2

total                                 28    28    21         10       5    92     43
* no registered kind: metrics count it as _OTHER
"""


def lines(text):
    """Return the lines of `text` without their padding and without lines that are drawn."""
    return [line.rstrip() for line in text.splitlines() if not line.startswith("──")]


@pytest.fixture
def rollouts(demo):
    """Give the reports of the demo's rollouts by their ids."""
    return {report.key: report for report in read_files(demo.spans, by="rollout")}


def name(event):
    """Return how a failure is written here."""
    return f"{event.failure_kind}@{event.boundary.value}"


def test_ends_well(demo):
    """The demo ends with status 0, and says nothing on standard error when that is no terminal."""
    assert (demo.status, demo.errors) == (0, "")


def test_runs_40_rollouts():
    """There are 40 rollouts, and every fault has at least one."""
    assert sum(ROLLOUTS.values()) == 40
    assert min(ROLLOUTS.values()) > 0
    assert ROLLOUTS.keys() == ENDS.keys()


@pytest.mark.parametrize("seed", [0, SEED])
def test_a_seed_changes_the_order_only(seed):
    """Any seed has the same faults as often, and the server that is killed at the end."""
    rollouts = plan.plan(seed)
    assert Counter(rollout.fault for rollout in rollouts) == ROLLOUTS
    assert rollouts[-1].fault == plan.PEER_KILLED
    assert [rollout.fault for rollout in rollouts] != [rollout.fault for rollout in plan.plan(seed + 1)]


@pytest.mark.parametrize("fault", ENDS)
def test_rollouts_end_as_their_fault_says(rollouts, fault):
    """Every rollout has the causes, the own failure and the other failures that its fault makes, and nothing else."""
    chain, others = ENDS[fault]
    met = [rollout.rollout_id for rollout in plan.plan(SEED) if rollout.fault == fault]
    if not chain and not others:
        assert rollouts.keys().isdisjoint(met)
        return
    for rollout in met:
        events = rollouts[rollout].report.events
        ids = chain_ids(events, rollouts[rollout].report.failure_id)[::-1]
        assert tuple(name(events[event_id]) for event_id in ids) == chain
        assert sorted(name(events[event_id]) for event_id in events.keys() - set(ids)) == sorted(others)


def test_every_server_tells_of_its_own_failures(rollouts):
    """No failure is known from a reply only, and no span lost one: the servers' files are whole."""
    for rollout in rollouts.values():
        assert rollout.remote_only == rollout.missing_causes == ()
        assert rollout.dropped_events == rollout.unreadable == 0
        assert not rollout.report.omitted


@pytest.mark.parametrize(
    ("fault", "kind", "status"),
    [(plan.PROVIDER_401, "provider_unavailable", 401), (plan.PROVIDER_429, "provider_quota_exhausted", 429)],
)
def test_what_a_provider_refused_is_told_to_the_driver(rollouts, fault, kind, status):
    """The report of the driver's own failure names what the provider refused, and its status (NVIDIA-NeMo/Gym#316).

    It leads from the driver through the agent to the model server, which saw the provider's answer.
    """
    for rollout in plan.plan(SEED):
        if rollout.fault == fault:
            report = rollouts[rollout.rollout_id].report
            chain = [report.events[event_id] for event_id in chain_ids(report.events, report.failure_id)]
            assert [event.boundary.value for event in chain] == ["collection", "agent", "model"]
            assert (chain[-1].failure_kind, chain[-1].http_status) == (kind, status)


def test_attempts_of_one_call_belong_together(rollouts):
    """Three attempts at a provider whose quota is used up are three failures of one operation."""
    for rollout in plan.plan(SEED):
        if rollout.fault == plan.PROVIDER_429:
            failed = [event for event in rollouts[rollout.rollout_id].report.events.values() if name(event) == QUOTA]
            (operation,) = {event.operation_id for event in failed}
            assert sorted(event.attempt_id for event in failed) == [f"{operation}.{n}" for n in (1, 2, 3)]


def test_a_server_without_this_package_is_a_gap(rollouts):
    """What failed behind a server that knows nothing of reports is in the trace, but not linked to what it caused."""
    for rollout in plan.plan(SEED):
        if rollout.fault == plan.GAP:
            report = rollouts[rollout.rollout_id]
            (behind,) = report.unlinked
            assert report.report.events[behind].boundary is FailureBoundary.SANDBOX
            assert report.services[behind] == "sandbox"


def test_shows_a_table(demo):
    """The table counts every failure of the run at its kind and boundary, and the root causes."""
    assert "\n".join(lines(TABLE)) in "\n".join(lines(demo.output))


def test_shows_a_tree_for_each_rollout_with_failures(demo):
    """There is a tree for every rollout that failed, and for those that recovered."""
    heads = [line.split()[:3] for line in demo.output.splitlines() if line[:1] in {"✗", "✓"}]
    failed = {rollout.rollout_id for rollout in plan.plan(SEED) if ENDS[rollout.fault][0]}
    recovered = {rollout.rollout_id for rollout in plan.plan(SEED) if rollout.fault == plan.CONNECTION_RESET}
    assert sorted(head[2] for head in heads) == sorted(failed | recovered)
    assert {head[2] for head in heads if head[0] == "✓"} == recovered


def test_replies_say_what_traces_say(demo):
    """Every reply, with a report or without one, says what the spans of its request say."""
    agreement = compare(demo.folder, demo.spans)
    assert agreement.holds
    assert (agreement.replies, agreement.reports, agreement.differing) == (197, 57, {})
    assert "197 replies, 57 of them with a report, were compared with their traces: 197 say the same" in demo.output


def test_a_reply_that_says_something_else_is_found(demo, tmp_path):
    """A reply whose report lacks an event, or has another kind, does not agree with its trace."""
    folder = tmp_path / "tampered"
    shutil.copytree(demo.folder, folder)
    path = folder / "replies" / "agent.jsonl"
    replies = [json.loads(line) for line in path.read_text().splitlines()]
    first, second = [reply for reply in replies if reply["report"] and reply["report"].get("failure_id")][:2]
    own = first["report"]["failure_id"]
    first["report"] = {"events": {own: {**first["report"]["events"][own], "cause_id": None}}, "failure_id": own}
    second["report"]["events"][second["report"]["failure_id"]]["failure_kind"] = "shutdown"
    path.write_text("".join(json.dumps(reply) + "\n" for reply in replies))
    agreement = compare(folder, sorted((folder / "spans").glob("*.jsonl")))
    assert not agreement.holds
    assert agreement.differing.keys() == {first["caller"], second["caller"]}


def test_nothing_to_compare_is_no_agreement(tmp_path):
    """A run without any report proves nothing."""
    assert not compare(tmp_path, []).holds
