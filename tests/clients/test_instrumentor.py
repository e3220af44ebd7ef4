"""A process instrumented as a whole: by a call, by an entry point, before and after everything else."""

import json
import logging
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import aiohttp
import httpx
import pytest
from fastapi import FastAPI
from opentelemetry.instrumentation.aiohttp_client import AioHttpClientInstrumentor
from opentelemetry.instrumentation.fastapi import FastAPIInstrumentor
from opentelemetry.instrumentation.httpx import HTTPXClientInstrumentor
from starlette.applications import Starlette

from gym_failures import guard
from gym_failures.config import Config, ConfigError
from gym_failures.header import decode_report
from gym_failures.instrumentation import GymFailuresInstrumentor, instrument_app, uninstrument_app
from gym_failures.recorder import default_recorder
from gym_failures.semconv import HEADER_NAME, METRIC_DECODE_ERRORS
from gym_failures.testing import Telemetry
from tests.clients.callers import CALLERS, PATIENCE
from tests.failing import peer, reply
from tests.servers.serving import Serving

PROGRAM = str(Path(__file__).with_name("program.py"))
IMPORTED = """
import json, sys
print(json.dumps({"imported": [name for name in ("aiohttp", "fastapi", "httpx", "starlette") if name in sys.modules]}))
"""


@pytest.fixture
def instrumentor(monkeypatch: pytest.MonkeyPatch) -> Iterator[GymFailuresInstrumentor]:
    """Give the instrumentor, in an environment that says nothing, and take its work back."""
    for variable in [name for name in os.environ if name.startswith("GYM_FAILURES_")]:
        monkeypatch.delenv(variable)
    instrumentor = GymFailuresInstrumentor()
    yield instrumentor
    if instrumentor.is_instrumented_by_opentelemetry:
        instrumentor.uninstrument()


def failing_app() -> FastAPI:
    """Make an app that fails."""
    app = FastAPI()

    @app.get("/{item}")
    def fail(item: str) -> None:
        raise LookupError(item)

    return app


def boundaries_told_by(app: FastAPI) -> list[str]:
    """Return the boundary of each failure that a reply of `app` tells of; none where it brings no report."""
    with Serving(app) as serving:
        response = httpx.get(f"{serving.url}/it", timeout=PATIENCE)
    assert response.status_code == 500
    report = decode_report(response.headers.get(HEADER_NAME))
    return [] if report is None else [event.boundary.value for event in report.events.values()]


def observed_by_clients(telemetry: Telemetry) -> list[str]:
    """Return the boundary of each failure that the clients observe of one 500 each."""
    with telemetry.span("top"), peer(reply(500)) as port:
        for caller in CALLERS:
            caller.call(f"http://127.0.0.1:{port}")
    return [event["failure.boundary"] for event in telemetry.events()]


PLACES = {
    Starlette: ["__call__"],
    aiohttp.ClientSession: ["__init__"],
    aiohttp.ClientRequest: ["send"],
    aiohttp.ClientResponse: ["start", "read"],
    httpx.HTTPTransport: ["handle_request"],
    httpx.AsyncHTTPTransport: ["handle_async_request"],
}


def _places() -> list[object]:
    return [owner.__dict__[name] for owner, names in PLACES.items() for name in names]


def test_servers_and_clients(instrumentor: GymFailuresInstrumentor, telemetry: Telemetry) -> None:
    """One call instruments apps and clients, those that exist and those to come, and one undoes it."""
    before = failing_app()
    assert boundaries_told_by(failing_app()) == []
    instrumentor.instrument(boundary="agent", config=Config(), tracer_provider=telemetry.tracer_provider)
    assert boundaries_told_by(before) == ["agent"]
    assert boundaries_told_by(failing_app()) == ["agent"]
    assert observed_by_clients(telemetry) == ["agent"] * len(CALLERS)
    instrumentor.uninstrument()
    assert boundaries_told_by(before) == []
    assert boundaries_told_by(failing_app()) == []


def test_an_app_that_has_served_before(instrumentor: GymFailuresInstrumentor) -> None:
    """An app that has started is instrumented too, and once more after it was not."""
    app = failing_app()
    assert boundaries_told_by(app) == []
    for _ in range(2):
        instrumentor.instrument(boundary="model")
        assert boundaries_told_by(app) == ["model"]
        instrumentor.uninstrument()
        assert boundaries_told_by(app) == []


def test_an_app_of_its_own_boundary(instrumentor: GymFailuresInstrumentor) -> None:
    """An app that was told where it stands keeps to it, with the instrumentor and after."""
    app = failing_app()
    instrument_app(app, boundary="sandbox")
    instrumentor.instrument(boundary="agent")
    assert boundaries_told_by(app) == ["sandbox"]
    instrumentor.uninstrument()
    assert boundaries_told_by(app) == ["sandbox"]
    uninstrument_app(app)


OTHERS: list[Callable[[], Any]] = [AioHttpClientInstrumentor, HTTPXClientInstrumentor, FastAPIInstrumentor]


@pytest.mark.parametrize("ours_goes", ["first", "last"])
@pytest.mark.parametrize("ours_comes", ["first", "last"])
def test_any_number_of_times(
    ours_comes: str, ours_goes: str, instrumentor: GymFailuresInstrumentor, telemetry: Telemetry
) -> None:
    """Done and undone again and again among OpenTelemetry's own, everything is as it was each time."""
    places, recorder = _places(), default_recorder()
    others = [other() for other in OTHERS]
    for _ in range(3):
        for one in (instrumentor, *others) if ours_comes == "first" else (*others, instrumentor):
            given = {"boundary": "agent"} if one is instrumentor else {}
            one.instrument(tracer_provider=telemetry.tracer_provider, **given)
        assert boundaries_told_by(failing_app()) == ["agent"]
        for one in (instrumentor, *others) if ours_goes == "first" else (*others, instrumentor):
            one.uninstrument()
        assert _places() == places
        assert default_recorder() is recorder


def test_what_the_variables_say(instrumentor: GymFailuresInstrumentor, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without arguments the environment is read, once, at the start."""
    monkeypatch.setenv("GYM_FAILURES_BOUNDARY", "harness")
    monkeypatch.setenv("GYM_FAILURES_HEADER_REASONS", "off")
    instrumentor.instrument()
    monkeypatch.setenv("GYM_FAILURES_BOUNDARY", "nonsense")
    assert boundaries_told_by(failing_app()) == ["harness"]
    assert default_recorder().config.header_reasons == "off"


WRONG = {
    "boundary": ({"GYM_FAILURES_BOUNDARY": "nowhere"}, {}, "GYM_FAILURES_BOUNDARY='nowhere'"),
    "switch": ({"GYM_FAILURES_ENABLED": "maybe"}, {}, "GYM_FAILURES_ENABLED='maybe'"),
    "number": ({"GYM_FAILURES_HEADER_BUDGET": "9000"}, {}, "GYM_FAILURES_HEADER_BUDGET='9000'"),
    "host": ({"GYM_FAILURES_ACCEPT_FROM": "http://x"}, {}, "GYM_FAILURES_ACCEPT_FROM='http://x'"),
    "argument": ({}, {"boundary": "nowhere"}, "boundary must be one of .* not 'nowhere'"),
    "argument beside a configuration": ({}, {"boundary": "nowhere", "config": Config()}, "not 'nowhere'"),
}


@pytest.mark.parametrize(("variables", "arguments", "message"), WRONG.values(), ids=WRONG.keys())
def test_a_wrong_value_is_an_error_at_the_start(
    variables: dict[str, str],
    arguments: dict[str, Any],
    message: str,
    instrumentor: GymFailuresInstrumentor,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A value that cannot be used is named, with its variable, before anything is instrumented."""
    for variable, value in variables.items():
        monkeypatch.setenv(variable, value)
    places, recorder = _places(), default_recorder()
    with pytest.raises(ConfigError, match=message):
        instrumentor.instrument(**arguments)
    assert (_places(), default_recorder()) == (places, recorder)
    assert not instrumentor.is_instrumented_by_opentelemetry


def test_an_argument_that_does_not_exist(instrumentor: GymFailuresInstrumentor) -> None:
    """A misspelt argument is an error, and not passed over."""
    with pytest.raises(TypeError, match="border"):
        instrumentor.instrument(border="model")


def test_switched_off(instrumentor: GymFailuresInstrumentor, telemetry: Telemetry) -> None:
    """Switched off by its configuration, it leaves everything as it is."""
    places = _places()
    instrumentor.instrument(boundary="agent", config=Config(enabled=False))
    assert _places() == places
    assert boundaries_told_by(failing_app()) == []
    assert observed_by_clients(telemetry) == []


def test_without_a_boundary(
    instrumentor: GymFailuresInstrumentor, telemetry: Telemetry, caplog: pytest.LogCaptureFixture
) -> None:
    """Nobody said which server this is: its apps are left alone, with a warning, and clients observe at collection."""
    guard._said.pop("boundary", None)
    with caplog.at_level(logging.WARNING, "gym_failures.guard"):
        instrumentor.instrument(tracer_provider=telemetry.tracer_provider)
    assert "GYM_FAILURES_BOUNDARY is not set" in caplog.text
    assert boundaries_told_by(failing_app()) == []
    assert observed_by_clients(telemetry) == ["collection"] * len(CALLERS)


# --- Without a line of code -------------------------------------------------------------------------------------------


def run(*arguments: str, **variables: str) -> dict[str, Any]:
    """Run Python with these arguments under `opentelemetry-instrument`, and return the JSON that it prints."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("GYM_", "OTEL_"))}
    instrument = Path(sys.executable).with_name("opentelemetry-instrument")
    done = subprocess.run(
        [instrument, sys.executable, *arguments],
        env={**environment, "OTEL_TRACES_EXPORTER": "none", "OTEL_METRICS_EXPORTER": "none", **variables},
        capture_output=True,
        text=True,
        check=True,
        timeout=100,
    )
    told: dict[str, Any] = json.loads(done.stdout)
    return told | {"errors": done.stderr}


def test_by_the_entry_point() -> None:
    """`opentelemetry-instrument` and one variable are enough: the server reports, and the client observes it."""
    told = run(PROGRAM, GYM_FAILURES_BOUNDARY="model")
    assert told["reported"] == ["model"]
    assert told["observed"] == {"aiohttp": ["model"], "httpx": ["model"]}


def test_the_entry_point_switched_off() -> None:
    """OTEL_PYTHON_DISABLED_INSTRUMENTATIONS switches us off by our name, and nobody else."""
    told = run(PROGRAM, GYM_FAILURES_BOUNDARY="model", OTEL_PYTHON_DISABLED_INSTRUMENTATIONS="gym_failures")
    assert (told["reported"], told["observed"]) == ([], {"aiohttp": [], "httpx": []})


def test_without_the_others() -> None:
    """With every other instrumentation switched off ours works alone."""
    told = run(
        PROGRAM, GYM_FAILURES_BOUNDARY="agent", OTEL_PYTHON_DISABLED_INSTRUMENTATIONS="aiohttp-client, fastapi, httpx"
    )
    assert told["reported"] == ["agent"]
    assert told["observed"] == {"aiohttp": ["agent"], "httpx": ["agent"]}


def test_a_wrong_variable_stops_no_program() -> None:
    """A wrong value is named in what the program prints at its start, and the program itself runs as it would."""
    told = run(PROGRAM, GYM_FAILURES_BOUNDARY="nowhere")
    assert "GYM_FAILURES_BOUNDARY='nowhere'" in told["errors"]
    assert told["reported"] == []


def test_nothing_is_imported_for_our_sake() -> None:
    """What the program does not import is not imported by us; above, it was instrumented when it was."""
    others = "aiohttp-client,fastapi,httpx,httpx2,asgi"
    told = run("-c", IMPORTED, GYM_FAILURES_BOUNDARY="model", OTEL_PYTHON_DISABLED_INSTRUMENTATIONS=others)
    assert told["imported"] == []


def test_the_given_provider_gets_what_the_package_says_of_itself(instrumentor: GymFailuresInstrumentor) -> None:
    """What is refused or dropped is counted where failures are, until the instrumentation is undone."""
    telemetry = Telemetry()
    instrumentor.instrument(boundary="agent", meter_provider=telemetry.meter_provider)
    decode_report("junk")
    instrumentor.uninstrument()
    decode_report("junk")
    assert telemetry.count(METRIC_DECODE_ERRORS) == 1
