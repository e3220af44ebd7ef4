"""The page on how to record a failure: each example stands alone, and does what the page says of it."""

import asyncio
import importlib
import logging
import re
import sys
from pathlib import Path

import pytest

from gym_failures import FailureError, FailureLog, kinds, limits
from gym_failures.config import Config
from gym_failures.testing import Telemetry
from tests.failing import nobody

PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "record-a-failure.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
EXAMPLES = {re.match(r"# (\w+)\.py\n", text)[1]: text for language, text in BLOCKS if language == "python"}


@pytest.fixture
def example(tmp_path, monkeypatch):
    """Give what imports an example of the page by its name, as a program of the reader's would."""
    for name, text in EXAMPLES.items():
        (tmp_path / f"{name}.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    yield importlib.import_module
    for name in EXAMPLES:
        sys.modules.pop(name, None)


def test_every_block_is_tested():
    """No example stands on the page untested."""
    assert [language for language, _ in BLOCKS].count("text") == 1
    assert {language for language, _ in BLOCKS} == {"python", "text"}
    assert sorted(EXAMPLES) == ["grader", "sandbox", "session", "test_grader", "tool", "verify"]


@pytest.mark.parametrize("name", sorted(EXAMPLES))
def test_an_example_is_whole(example, name):
    """Each example is a module by itself; the tests below run all that is in it."""
    assert example(name).__file__.endswith(f"{name}.py")


def test_what_cannot_be_graded_is_raised(example, telemetry):
    """A grader that cannot start raises the page's failure, which keeps what it came of; raising records nothing."""
    with telemetry.span("verify"), pytest.raises(FailureError) as raised:
        example("grader").passes(["no-such-program"])
    assert str(raised.value) == "verifier_error at resources_server: the tests could not be started"
    assert isinstance(raised.value.__cause__, FileNotFoundError)
    assert telemetry.events() == []


def test_tests_that_fail_are_no_failure(example):
    """An answer that does not pass is a result, and a failure is only what kept a result from being reached."""
    assert not example("grader").passes([sys.executable, "-c", "raise SystemExit(1)"])
    assert example("grader").passes([sys.executable, "-c", ""])


def test_the_page_s_own_test_passes(example):
    """The test that the page shows passes, and fails where the failure is another."""
    module = example("test_grader")
    module.test_tests_that_cannot_start_are_the_verifier_s_failure()
    module.passes = _unfit
    with pytest.raises(ValueError, match="no-such-program"):
        module.test_tests_that_cannot_start_are_the_verifier_s_failure()


async def _answered(example, answer):
    """Run a command in a shell that gives this answer, and return its status."""

    async def answers(reader, writer):
        await reader.readline()
        writer.write(answer)
        writer.close()

    async with await asyncio.start_server(answers, "127.0.0.1", 0) as server:
        return await example("sandbox").run("127.0.0.1", server.sockets[0].getsockname()[1], "true")


def test_a_watched_block_that_goes_well(example, telemetry):
    """The three forms of `observe` change nothing of what is returned, and record nothing."""
    assert asyncio.run(_answered(example, b"3\n")) == 3
    assert telemetry.events() == []
    assert telemetry.named("sandbox.run")


def test_a_watched_block_that_fails(example, telemetry):
    """What leaves a block is recorded at its boundary under its operation; at another it is caused by the first."""
    with telemetry.span("work"), pytest.raises(ValueError, match="invalid literal"):
        asyncio.run(_answered(example, b"killed\n"))
    with nobody() as port, telemetry.span("more"), pytest.raises(ConnectionRefusedError), FailureLog("agent"):
        asyncio.run(example("sandbox").shell("127.0.0.1", port))
    answer, shell, agent = telemetry.events()
    assert (answer["failure.operation"], answer["failure.boundary"]) == ("read an exit status", "sandbox")
    assert (shell["failure.operation"], shell["failure.kind"]) == ("open a shell", "transport_unreachable")
    assert (agent["failure.boundary"], agent["failure.cause_id"]) == ("agent", shell["failure.id"])


def _late(answer):
    raise TimeoutError(answer)


def _unfit(answer):
    raise ValueError(answer)


def test_what_was_recovered_from_is_in_the_reply(example, telemetry):
    """A judge that is late is recorded, and the request that goes on by a rule has not failed."""
    with telemetry.span("/verify"), FailureLog("resources_server") as log:
        assert example("verify").verify("42", _late, float) == 42
    assert telemetry.only_event()["failure.operation"] == "ask the judge"
    assert telemetry.only_event()["failure.stage"] == "verification"
    (told,) = telemetry.reports(by="request")
    assert log.report().failure_id is None
    assert not told.failed
    assert [told.report.events[event_id].failure_kind for event_id in told.recovered] == ["transport_timeout"]


def test_a_request_that_answers_can_fail(example, telemetry):
    """Where there is no verdict the reward is 0, and the request has failed; without a request nothing is raised."""
    with telemetry.span("/verify"), FailureLog("resources_server", stage="verification") as log:
        assert example("verify").verify("x", _late, _unfit) == 0
    assert log.own.failure_kind == "verifier_error"
    assert example("verify").verify("x", _late, _unfit) == 0


def test_attempts_of_one_operation(example, telemetry, monkeypatch):
    """Failed attempts share an operation and are numbered."""
    monkeypatch.setattr(example("session").time, "sleep", lambda _: None)
    with telemetry.span("close"), pytest.raises(ConnectionResetError), FailureLog("resources_server"):
        example("session").release("s1", _reset)
    events = telemetry.events()
    (operation,) = {event["failure.operation_id"] for event in events}
    assert [event["failure.attempt_id"] for event in events] == [f"{operation}.{number}" for number in (1, 2, 3)]


def _reset(session):
    raise ConnectionResetError(session)


def test_a_kind_of_one_s_own(example, telemetry):
    """A namespaced kind is recorded and counted by its name."""
    with telemetry.span("tool"), pytest.raises(FailureError), FailureLog("resources_server"):
        example("tool").query({}, "users")
    assert telemetry.only_event()["failure.reason"] == "there is no table 'users'"
    assert telemetry.count(failure_kind="my_server:no_table") == 1


def test_any_other_name_is_warned_about(telemetry, caplog, monkeypatch):
    """The warning is the one that the page shows, once, and the kind is counted under another name."""
    monkeypatch.setattr(kinds, "_WARNED_UNKNOWN", {})
    with caplog.at_level(logging.WARNING), telemetry.span("tool"):
        for _ in range(2):
            with pytest.raises(FailureError), FailureLog("resources_server"):
                raise FailureError("no_table", boundary="resources_server")
    assert [f"{record.getMessage()}\n" for record in caplog.records] == [
        text for language, text in BLOCKS if language == "text"
    ]
    assert telemetry.count(failure_kind="_OTHER") == 2
    assert {event["failure.kind"] for event in telemetry.events()} == {"no_table"}


def test_the_page_s_facts():
    """The page names every boundary, and its numbers are those of the vocabulary and of the bounds."""
    assert {f"`{boundary.value}`" for boundary in kinds.FailureBoundary} <= set(re.findall(r"`\w+`", PAGE))
    assert f"lists the {len(kinds.FAILURE_KINDS)} that are shared" in PAGE
    assert f"a process counts {limits.NAMESPACED_KINDS_COUNTED} such kinds" in PAGE
    assert f"Spans keep {limits.REASON_LENGTH:,} characters of it, replies {limits.HEADER_REASON_LENGTH}." in PAGE


def test_switched_off_it_is_nothing(example):
    """The examples run as they are where the package is switched off, and leave no trace."""
    with Telemetry(Config(enabled=False)) as telemetry, telemetry.span("/verify"), FailureLog("resources_server"):
        assert example("verify").verify("x", _late, _unfit) == 0
        with pytest.raises(FailureError):
            example("tool").query({}, "users")
    assert telemetry.events() == []
    assert telemetry.counts() == {}
