"""The vocabulary: which names belong to it, and how names outside it are met."""

import enum
import logging
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from gym_failures import kinds, limits
from gym_failures.kinds import (
    FAILURE_KINDS,
    KIND_DESCRIPTIONS,
    FailureBoundary,
    FailureStage,
    is_namespaced,
    is_registered,
    validate_failure_kind,
)

PUBLISHED = {
    "agent_command_not_allowed",
    "agent_request_failed",
    "agent_run_error",
    "agent_timeout",
    "cancelled",
    "cohort_incomplete",
    "environment_server_failed",
    "judge_failed",
    "judge_unparseable",
    "kill_shaped",
    "persistence_failed",
    "protocol_violation",
    "provider_oom_killed",
    "provider_quota_exhausted",
    "provider_unavailable",
    "session_expired",
    "session_lost",
    "session_release_failed",
    "shutdown",
    "transport_local_resource",
    "transport_peer_drop",
    "transport_timeout",
    "transport_unreachable",
    "verifier_error",
}

# What is in neither form, though some of it nearly is.
NEITHER = {
    "unregistered": "my_new_kind",
    "empty": "",
    "newline after a registered name": "judge_failed\n",
    "space after a registered name": "judge_failed ",
    "capital": "Judge_failed",
    "newline after a namespaced name": "server:kind\n",
    "newline inside": "server:\nkind",
    "no server": ":kind",
    "no kind": "server:",
    "colon alone": ":",
    "two colons": "a:b:c",
    "digit first": "1server:kind",
    "underscore first": "server:_kind",
    "dash": "my-server:kind",
    "letter beyond ASCII": "sérver:kind",
    "digit beyond ASCII": "server:kind٣",
    "NUL": "server:kind\0",
    "lone surrogate": "server:kind\ud800",
}


@pytest.fixture(autouse=True)
def _no_names_remembered(monkeypatch):
    monkeypatch.setattr(kinds, "_WARNED_UNKNOWN", {})


@pytest.fixture
def said(caplog):
    """Return what was warned about so far, as one list of messages."""
    caplog.set_level(logging.WARNING, logger="gym_failures.kinds")
    return lambda: [record.getMessage() for record in caplog.records if record.name == "gym_failures.kinds"]


def test_the_vocabulary_is_the_published_one():
    """The vocabulary has the published names and no other."""
    assert FAILURE_KINDS == PUBLISHED


def test_each_kind_is_a_constant_of_its_own_name():
    """Each kind is a constant named like its value, and there is no constant for anything else."""
    constants = {name: value for name, value in vars(kinds).items() if name.isupper() and isinstance(value, str)}
    assert constants == {name.upper(): name for name in PUBLISHED}


@pytest.mark.parametrize("name", sorted(PUBLISHED))
def test_each_kind_is_described_by_one_sentence(name):
    """A kind says in one sentence when it applies, and no two say the same."""
    sentence = KIND_DESCRIPTIONS[name]
    assert sentence[0].isupper()
    assert sentence.endswith(".")
    assert sentence.count(". ") == 0
    assert list(KIND_DESCRIPTIONS.values()).count(sentence) == 1


def test_the_descriptions_cannot_be_changed():
    """The vocabulary is closed: no caller can add to it."""
    with pytest.raises(TypeError):
        KIND_DESCRIPTIONS["my_new_kind"] = "Mine."


def test_the_stages_are_the_published_ones():
    """An episode has five stages, in this order."""
    assert [stage.value for stage in FailureStage] == ["admission", "seed", "agent", "verification", "cleanup"]


def test_the_boundaries_are_the_published_ones():
    """A failure is observed at one of seven boundaries."""
    assert {boundary.value for boundary in FailureBoundary} == {
        "agent",
        "collection",
        "environment",
        "harness",
        "model",
        "resources_server",
        "sandbox",
    }


@pytest.mark.parametrize("ours", [FailureStage, FailureBoundary])
@pytest.mark.parametrize("mixin", [(), (str,)], ids=["enum", "str enum"])
def test_a_member_is_found_by_a_foreign_member_of_its_value(ours, mixin):
    """Another package's enum member of the same value names our member."""
    foreign = enum.Enum("Foreign", {member.name: member.value for member in ours}, type=mixin[0] if mixin else None)
    assert [ours(member) for member in foreign] == list(ours)


@pytest.mark.parametrize(
    "value",
    [
        FailureStage.AGENT,
        enum.Enum("Foreign", {"A": "nowhere"}).A,
        enum.Enum("Foreign", {"A": []}).A,
        "AGENT",
        None,
        [],
    ],
    ids=["our stage", "foreign value", "unhashable foreign value", "name", "None", "list"],
)
def test_a_boundary_is_not_found_by_anything_else(value):
    """A boundary is named by its value only, and the stage of the same value does not name it."""
    with pytest.raises(ValueError, match="is not a valid FailureBoundary"):
        FailureBoundary(value)


@pytest.mark.parametrize("name", sorted(PUBLISHED))
def test_a_published_name_is_registered_and_not_namespaced(name):
    """A name of the vocabulary is registered, never namespaced."""
    assert (is_registered(name), is_namespaced(name)) == (True, False)


@pytest.mark.parametrize("name", ["resources_server:tool_error", "a:b", "s1:k_2", "judge_failed:judge_failed"])
def test_a_servers_own_name_is_namespaced_and_not_registered(name):
    """`<server>:<kind>` of lower-case ASCII words is namespaced, never registered."""
    assert (is_registered(name), is_namespaced(name)) == (False, True)


@pytest.mark.parametrize("name", NEITHER.values(), ids=NEITHER.keys())
def test_a_name_that_only_resembles_is_neither(name):
    """The whole name has to match: a final newline does not pass."""
    assert (is_registered(name), is_namespaced(name)) == (False, False)


@pytest.mark.parametrize("name", [None, 5, 2.5, b"judge_failed", [], {}, ("judge_failed",)], ids=repr)
def test_what_is_no_text_is_neither(name):
    """Anything but text is no name, and to ask about it raises nothing, not even for the unhashable."""
    assert (is_registered(name), is_namespaced(name)) == (False, False)


@pytest.mark.parametrize("name", [None, "judge_failed", "server:kind"])
def test_a_known_name_passes_in_silence(name, said):
    """None, a registered and a namespaced name come back without a warning."""
    assert validate_failure_kind(name) is name
    assert said() == []


@pytest.mark.parametrize("name", NEITHER.values(), ids=NEITHER.keys())
def test_an_unregistered_name_passes_with_one_warning(name, said):
    """An unregistered name comes back unchanged each time, and is warned about the first time only."""
    assert validate_failure_kind(name) is name
    assert validate_failure_kind(name) is name
    assert len(said()) == 1
    assert repr(name) in said()[0]


def test_each_unregistered_name_has_its_own_warning(said):
    """The warning is once per name, not once per process."""
    for name in ["first", "second", "first"]:
        validate_failure_kind(name)
    assert [message.split()[2] for message in said()] == ["'first'", "'second'"]


@pytest.mark.parametrize("name", [5, [], b"judge_failed"], ids=repr)
def test_a_kind_that_is_no_text_is_refused(name):
    """What is neither text nor None is an error that names the type, not the value."""
    with pytest.raises(TypeError, match=f"^a failure kind is a string or None, not {type(name).__name__}$"):
        validate_failure_kind(name)


@pytest.mark.parametrize("separator", ["\n", "\r", "\x1b[2J", "\u2028", "\u202e", "\0", "\ud800"], ids=ascii)
def test_a_name_cannot_forge_a_log_line(separator, said):
    """Line breaks, terminal codes, direction marks and surrogates in a name are escaped in the log."""
    validate_failure_kind(f"kind{separator}ERROR all is lost")
    [message] = said()
    assert message.isprintable()
    assert separator not in message


def test_a_long_name_is_logged_and_remembered_by_its_start(said):
    """A name of a million characters costs the log and the memory its first 128 only, and still comes back whole."""
    name = "x" * 1_000_000
    assert validate_failure_kind(name) is name
    assert len(said()[0]) < 400
    assert max(len(start) for start in kinds._WARNED_UNKNOWN) == limits.KIND_LENGTH_LOGGED


def test_a_flood_of_names_is_bounded(said):
    """10,000 names leave bounded memory and a bounded log, whose last line says so (opentelemetry-js#4223)."""
    for number in range(10_000):
        assert validate_failure_kind(f"kind_{number}") == f"kind_{number}"
    assert len(said()) == limits.UNREGISTERED_KINDS_NAMED + 1
    assert "no more are named" in said()[-1]
    assert len(kinds._WARNED_UNKNOWN) == limits.UNREGISTERED_KINDS_NAMED + 1


def test_a_known_name_does_not_announce_the_end_of_warnings(said):
    """At the cap, a name that was warned about before is no further name: nothing more is said."""
    for number in range(limits.UNREGISTERED_KINDS_NAMED):
        validate_failure_kind(f"kind_{number}")
    validate_failure_kind("kind_0")
    assert len(said()) == limits.UNREGISTERED_KINDS_NAMED


def test_threads_that_meet_a_name_at_once_get_one_warning(monkeypatch, said):
    """Eight threads that all find a name unknown before any of them warns about it get one warning between them."""
    together = threading.Barrier(8, timeout=30)

    class SlowToAnswer(dict[str | None, object]):
        def __contains__(self, name: object) -> bool:
            known = super().__contains__(name)
            together.wait()
            return known

    monkeypatch.setattr(kinds, "_WARNED_UNKNOWN", SlowToAnswer())
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(validate_failure_kind, ["my_new_kind"] * 8)) == ["my_new_kind"] * 8
    assert len(said()) == 1
