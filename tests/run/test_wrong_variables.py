"""Variables of OpenTelemetry that hold nonsense, of which a program hears nothing but what it hears without us."""

import re
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gym_failures import provided
from gym_failures.config import Config
from gym_failures.enabling import patterns
from gym_failures.enabling.reticence import Reticence, ReticentProvider
from gym_failures.header import decode_report
from tests.run.collecting import collecting
from tests.run.programs import COMMAND, PROGRAMS, files, hooked, ran, surroundings
from tests.run.test_enable import SERVER

CAPTURE = "OTEL_INSTRUMENTATION_HTTP_CAPTURE_HEADERS"
PROVIDERS = ("OTEL_PYTHON_TRACER_PROVIDER", "OTEL_PYTHON_METER_PROVIDER")
CALLING = """
import asyncio, aiohttp

async def main():
    async with aiohttp.ClientSession() as session:
        for _ in range(2):
            try:
                await session.get("http://127.0.0.1:9/")
            except aiohttp.ClientConnectorError as error:
                print("refused")

asyncio.run(main())
"""
RECORDING = """
import gym_failures
with gym_failures.FailureLog("model", operation="x") as log:
    gym_failures.record_failure(ConnectionRefusedError("down"))
print(len(log.report().events))
"""


def wrong(variable):
    """Return a variable with a value that means nothing to it."""
    return {variable: "nonsense" if variable in PROVIDERS else "(("}


@pytest.mark.parametrize("variable", [*PROVIDERS, *patterns.VARIABLES["aiohttp_client"]])
def test_a_client_runs_on(tmp_path, variable):
    """A client with a variable that nobody can use calls as ever, and hears once which one that is."""
    ended = ran(sys.executable, "-c", CALLING, env=hooked(tmp_path, **wrong(variable)))
    assert (ended.status, ended.output) == (0, "refused\nrefused\n"), ended.errors
    (said,) = re.findall(rf"^{variable} .*", ended.errors, re.MULTILINE)
    assert re.search("names no provider that can be made|is no list of regular expressions", said)


@pytest.mark.parametrize("variable", patterns.VARIABLES["fastapi"])
def test_a_server_runs_on(tmp_path, variable):
    """A server with patterns that cannot be compiled answers as ever, with the failure in its reply."""
    ended = ran(sys.executable, PROGRAMS / "round_trip.py", env=hooked(tmp_path, **wrong(variable), **SERVER))
    told = ended.told()
    assert (told["status"], told["body"]) == (500, "Internal Server Error")
    (event,) = decode_report(told["report"]).events.values()
    assert event.exception_type == "ConnectionRefusedError"
    assert ended.errors.count("opentelemetry-instrumentation-fastapi is left out") == 1


@pytest.mark.parametrize("variable", PROVIDERS)
def test_a_provider_that_cannot_be_made_is_none(tmp_path, variable):
    """Without the provider that is named the spans of a client are written as if none were named."""
    ran(sys.executable, "-c", CALLING, env=hooked(tmp_path, **wrong(variable)))
    assert files(tmp_path)[0].read_text().count('"name":"GET"') == 2


def test_spans_are_sent_whatever_becomes_of_counts(tmp_path):
    """Where the SDK for metrics cannot be set up, the last spans are sent all the same."""
    with collecting() as taken:
        env = hooked(tmp_path, OTEL_EXPORTER_OTLP_ENDPOINT=taken.endpoint, OTEL_METRICS_EXEMPLAR_FILTER="nonsense")
        assert ran(sys.executable, "-c", CALLING, env=env).output == "refused\nrefused\n"
    assert taken.spans == ["GET", "GET"]


@pytest.mark.parametrize("variable", PROVIDERS)
@pytest.mark.parametrize("arguments", [("--version",), ("run", "--", sys.executable, "-c", "print(1)")])
def test_a_command_that_needs_no_provider_asks_for_none(tmp_path, variable, arguments):
    """The command does its work, and says nothing of a provider that it has no use for."""
    ended = ran(COMMAND, *arguments, env=surroundings(**wrong(variable)), cwd=tmp_path)
    assert (ended.status, ended.errors) == (0, "")


@pytest.mark.parametrize("variable", PROVIDERS)
def test_a_failure_is_recorded_without_a_provider(variable):
    """What a program records by itself is recorded, and raises nothing."""
    ended = ran(sys.executable, "-c", RECORDING, env=surroundings(**wrong(variable)))
    assert (ended.status, ended.output) == (0, "1\n"), ended.errors
    assert ended.errors.count(f"{variable} names no provider") == 1


LATER = """
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from gym_failures import provided
tracer = provided.tracer_provider().get_tracer("early")
print(tracer.start_span("none").is_recording())
trace.set_tracer_provider(TracerProvider())
late = provided.tracer_provider().get_tracer("late")
print(tracer.start_span("some").is_recording(), late.start_span("some").is_recording())
"""


def test_a_provider_that_is_set_later_is_used():
    """A program that sets a provider itself has its spans, whatever the variable says."""
    env = surroundings(OTEL_PYTHON_TRACER_PROVIDER="nonsense")
    assert ran(sys.executable, "-c", LATER, env=env).output == "False\nTrue True\n"


class Broken:
    """A provider that gives no tracer."""

    def get_tracer(self, *_, **__):
        """Raise what ends a coroutine with another error."""
        raise StopIteration


def test_a_provider_that_gives_no_tracer(monkeypatch):
    """Where the provider of a program fails, its calls have no spans, and go on."""
    monkeypatch.setattr(provided, "tracer_provider", Broken)
    with ReticentProvider(Reticence(Config())).get_tracer("t").start_as_current_span("s") as span:
        assert not span.is_recording()


@pytest.mark.parametrize(
    ("value", "usable"),
    [
        ("", True),
        ("x-a, x-.*", True),
        ("((", False),
        ("(a, b)", True),  # the commas part what is put together with "|" again
        ("a{99999999999999999999}", False),
        ("(" * 5_000 + ")" * 5_000, False),
    ],
)
def test_what_can_be_compiled(value, usable):
    """Patterns are tried as OpenTelemetry uses them, all together, and no error of the trial comes out."""
    found = patterns.unusable("fastapi", {f"{CAPTURE}_SERVER_REQUEST": value})
    assert found == (None if usable else f"{CAPTURE}_SERVER_REQUEST")


@given(st.text(max_size=30))
def test_any_text_can_be_asked_of(value):
    """Whatever a variable holds, the question has an answer, and variables of the other side do not matter."""
    of_clients = {f"{CAPTURE}_CLIENT_REQUEST": value}
    assert patterns.unusable("aiohttp_client", of_clients) in {None, *of_clients}
    assert patterns.unusable("fastapi", of_clients) is None
