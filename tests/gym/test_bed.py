"""The bed itself: NeMo Gym as it is, so that what is said of it elsewhere is seen to be said of the real one."""

from tests.gym.bed import scenarios


def test_every_scenario_leaves_what_it_is_there_for(plain):
    """Each rollout has a row, and each other call has had a reply or was left in the middle."""
    assert plain.rows.keys() == set(scenarios.ROLLOUTS)
    left = {scenario for scenario, call in plain.found["calls"].items() if call.get("cancelled")}
    assert left == {"model-mhang", "run-mhang"}
    assert plain.replies.keys() - {""} == {*scenarios.ROLLOUTS, *scenarios.CALLS} - left


def test_only_the_process_that_is_killed_ends_early(plain):
    """One server dies, all others serve to the end and stop when they are asked to; no cluster of Ray is started."""
    assert plain.found["ended_early"] == {"fragile_resources": -9}
    assert {name for name, status in plain.found["ended"].items() if status != 0} == {"fragile_resources"}
    assert not plain.found["ray"]


def test_nothing_is_told_without_this_package(plain):
    """A row of NeMo Gym alone names a cause only where a verifier put it there, and no reply carries a report."""
    named = {scenario for scenario, row in plain.rows.items() if row.get("failure_kind")}
    assert named == {"relay-vjudge", "relay-vmask", "relay-vunreg"}
    assert not [scenario for scenario, reply in plain.replies.items() if reply.report]
    assert not [key for row in plain.rows.values() for key in row if key.startswith("_ng_failure_event")]
