"""The command on what a Jaeger has."""

import json
import time

import pytest

from tests.jaeger import served, trace

NOW = time.time_ns() // 1_000
MINUTE = 60 * 10**6
ONE = trace(1, event_id="f1", start=NOW - MINUTE)
TWO = trace(2, event_id="f2", start=NOW - 2 * MINUTE, service="model", kind="shutdown")
OLD = trace(3, event_id="f3", start=NOW - 3_000 * MINUTE)


def test_show_of_a_jaeger(command):
    """`show --jaeger` prints the trees of what failed within a day."""
    with served(ONE, TWO, OLD) as store:
        ended = command("show", "--jaeger", store.url)
    assert (ended.status, ended.errors) == (0, "")
    assert ended.output.endswith("\n2 rollouts failed, 1 of them cancelled\n")


def test_files_and_a_jaeger_together(command, write):
    """Files and a Jaeger are read together, and what both have counts once."""
    from tests.spans import failure, server, told  # noqa: PLC0415 - for this test only

    with served(ONE, TWO) as store:
        ended = command("count", "--format", "json", "--jaeger", store.url, write(server(9, None, told(failure("f1")))))
    assert json.loads(ended.output)["failures"] == 2


ASKED = {
    "everything": ((), 2, None),
    "a service": (("--service", "mod*"), 1, None),
    "a kind": (("--kind", "shutdown"), 2, {"failure.kind": "shutdown"}),
    "a rollout": (("--rollout", "r02"), 2, {"nemo.gym.rollout.id": "r02"}),
    "a rollout and a kind": (("--rollout", "r02", "--kind", "shutdown"), 2, {"nemo.gym.rollout.id": "r02"}),
    "a pattern, which Jaeger knows nothing of": (("--kind", "shut*"), 2, None),
    "either of two kinds": (("--kind", "shutdown", "--kind", "cancelled"), 2, None),
}


@pytest.mark.parametrize(("options", "searches", "tags"), ASKED.values(), ids=ASKED)
def test_what_is_chosen_is_asked_for(command, options, searches, tags):
    """Of what is chosen, Jaeger is asked for what it can choose by, and the command chooses again."""
    with served(ONE, TWO) as store:
        ended = command("count", "--format", "json", "--jaeger", store.url, *options)
    assert len(store.asked) == searches
    assert {json.dumps(query.get("tags")) for query in store.asked} == {json.dumps(tags and json.dumps(tags))}
    assert json.loads(ended.output)["failures"] == (2 if options in {(), ASKED["either of two kinds"][0]} else 1)


def test_since_is_asked_for(command):
    """A time that is given takes the place of a day; spans may have started some hours before."""
    with served(ONE, OLD) as store:
        assert "2 rollouts failed" in command("show", "--jaeger", store.url, "--since", "60h").output
        assert int(store.asked[0]["start"]) <= time.time_ns() // 1_000 - 66 * 60 * MINUTE


def test_no_jaeger_is_an_error(command):
    """Where no Jaeger answers, the command says so in one line and ends with status 3."""
    ended = command("show", "--jaeger", "http://127.0.0.1:1")
    assert (ended.status, ended.output) == (3, "")
    assert ended.errors.startswith("gym-failures: http://127.0.0.1:1/api/services did not answer: ")
    assert len(ended.errors.splitlines()) == 1


def test_a_crowded_moment_is_said(command, monkeypatch):
    """Where traces may be missing, the command says so."""
    monkeypatch.setattr(
        "gym_failures.reading.sources.jaeger.Jaeger.__init__.__kwdefaults__", {"seconds": 60.0, "most": 1}
    )
    with served(ONE) as store:
        ended = command("show", "--jaeger", store.url)
    assert "some may be missing" in ended.errors
