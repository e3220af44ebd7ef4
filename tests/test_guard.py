"""The guard: our own errors stop here, the host's never do."""

import asyncio
import logging
from concurrent.futures import ThreadPoolExecutor

import pytest

from gym_failures import guard, limits, selfmetrics
from gym_failures.guard import Guard, reraised, warn_once


@pytest.fixture(autouse=True)
def nothing_said_yet(monkeypatch):
    """Let each test begin as a new process does."""
    monkeypatch.setattr(guard, "_said", {})


@pytest.fixture
def dropped(monkeypatch):
    """Collect the reasons that are counted as dropped."""
    reasons: list[str] = []
    monkeypatch.setattr(selfmetrics, "internal_error", reasons.append)
    return reasons


def warnings_of(caplog):
    """Return the texts of our warnings."""
    return [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]


def test_an_error_of_ours_is_swallowed_counted_and_reported(caplog, dropped):
    """An exception within the block ends there: one count, one line with type and place."""
    with Guard("codec"):
        raise ZeroDivisionError("text of a peer")
    assert dropped == ["codec"]
    (line,) = warnings_of(caplog)
    assert line.startswith("internal error in codec (ZeroDivisionError)")
    assert "test_guard.py" in line


def test_an_error_that_was_caught_is_reported_like_one_of_the_block(caplog, dropped):
    """`Guard.report` counts and says what the block does, with the place where the error was raised."""
    with pytest.raises(ZeroDivisionError) as caught:
        raise ZeroDivisionError("text of a peer")
    Guard("codec").report(caught.value)
    with pytest.raises(ZeroDivisionError), reraised():
        Guard("codec").report(caught.value)
    assert dropped == ["codec"]
    (line,) = warnings_of(caplog)
    assert line.startswith("internal error in codec (ZeroDivisionError)")
    assert "test_guard.py" in line


def test_the_report_quotes_nothing(caplog, dropped):
    """The line does not hold the error's message, which can quote what a peer sent (opentelemetry-kotlin#967)."""
    secret = "sk-" + "secret"
    with Guard("codec"):
        raise ValueError(secret)
    assert len(dropped) == 1
    assert secret not in caplog.text


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, GeneratorExit, asyncio.CancelledError])
def test_what_belongs_to_the_host_passes(error, dropped):
    """Interrupt, exit and cancellation are not ours to stop."""
    with pytest.raises(error), Guard("codec"):
        raise error
    assert dropped == []


def test_one_warning_a_cause_and_process(caplog, dropped):
    """10,000 errors of one cause are one line and 10,000 counts (opentelemetry-js#4223)."""
    for _ in range(10_000):
        with Guard("codec"):
            raise ZeroDivisionError
    with Guard("log"):
        raise ZeroDivisionError
    assert len(dropped) == 10_001
    assert [line.split()[3] for line in warnings_of(caplog)] == ["codec", "log"]


def test_threads_share_one_warning(caplog):
    """Threads that meet one cause at the same time warn once."""
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: warn_once("cause", "said"), range(200)))
    assert warnings_of(caplog) == ["said"]


def test_the_causes_that_are_remembered_are_bounded(caplog):
    """Names from outside, such as those of variables, can fill neither the memory nor the log."""
    for index in range(2 * limits.REMEMBERED_CAUSES):
        warn_once(f"cause {index}", "said")
    assert len(warnings_of(caplog)) == limits.REMEMBERED_CAUSES


@pytest.mark.parametrize("broken", ["meter", "log handler"])
def test_a_broken_meter_or_log_handler_reaches_nobody(monkeypatch, broken):
    """To report an error of ours must not raise a second one into the host."""

    def fail(*_args):
        raise RuntimeError(broken)

    ways_out = {"meter": (selfmetrics, "internal_error"), "log handler": (guard.logger, "warning")}
    monkeypatch.setattr(*ways_out[broken], fail)
    with Guard("codec"):
        raise ZeroDivisionError


def test_our_tests_can_let_errors_through(dropped):
    """Within `reraised` an error of ours is not hidden; afterwards, also after an error, it is again."""
    with pytest.raises(ZeroDivisionError), reraised(), Guard("codec"):
        raise ZeroDivisionError
    assert dropped == []
    with Guard("codec"):
        raise ZeroDivisionError
    assert dropped == ["codec"]


def test_one_guard_serves_nested_and_concurrent_uses(dropped):
    """A guard keeps no state, so one instance can be entered again before it was left."""
    shared = Guard("codec")
    with shared:
        with shared:
            raise ZeroDivisionError
        raise LookupError
    assert dropped == ["codec", "codec"]
