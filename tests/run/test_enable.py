"""A program that knows nothing of tracing is traced, and is not changed by it."""

import re
import sys
from pathlib import Path

import pytest

from gym_failures import limits
from gym_failures.header import decode_report
from gym_failures.reading import read_files
from tests.run.programs import PROGRAMS, files, hooked, ran, resources, surroundings

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "enable-tracing-in-gym-servers.md"
ROUND_TRIP = PROGRAMS / "round_trip.py"
CONFIGURATION = """\
head_server:
  host: 127.0.0.1
policy_model:
  responses_api_models:
    openai_model:
      entrypoint: app.py
"""
SERVER = {"NEMO_GYM_CONFIG_DICT": CONFIGURATION, "NEMO_GYM_CONFIG_PATH": "policy_model"}


@pytest.mark.parametrize("lifespan", ["auto", "off"])
def test_a_server_and_its_caller_are_traced(tmp_path, lifespan):
    """A server's failure is in the reply and in its file of traces, under the names that NeMo Gym gives to servers."""
    env = hooked(tmp_path, LIFESPAN=lifespan, NEMO_GYM_OTEL_RUN_ID="run7", **SERVER)
    told = ran(sys.executable, ROUND_TRIP, env=env).told()
    sent = decode_report(told["report"])
    assert (told["status"], sent.events[sent.failure_id].boundary.value) == (500, "model")
    (file,) = files(tmp_path)
    assert file.name.startswith("policy_model-")
    (read,) = read_files([file])
    assert read.report.events.keys() == sent.events.keys()
    assert read.report.events[sent.failure_id].operation == "nemo-gym/policy_model GET /fail"
    for resource in resources(tmp_path):
        assert resource["service.name"] == "nemo-gym/policy_model"
        assert resource["nemo.gym.service_group"] == "nemo-gym"
        assert resource["nemo.gym.server.name"] == "policy_model"
        assert resource["nemo.gym.server.type"] == "responses_api_models"
        assert resource["nemo.run.id"] == "run7"


def test_nothing_else_changes(tmp_path):
    """Status, body and the loaders of modules are those of the program without us."""
    env = hooked(tmp_path, **SERVER)
    traced = ran(sys.executable, ROUND_TRIP, env=env).told()
    plain = ran(sys.executable, ROUND_TRIP, env={**env, "PYTHONPATH": ""}).told()
    assert plain["report"] is None
    for what in ("status", "body", "loaders"):
        assert traced[what] == plain[what]


def test_what_takes_time_to_import_waits_for_its_use(tmp_path):
    """Without an exporter of metrics a process does without the SDK's metrics, which take as long as all the rest."""
    assert "opentelemetry.sdk.metrics" not in ran(sys.executable, ROUND_TRIP, env=hooked(tmp_path)).told()["imported"]
    env = hooked(tmp_path, OTEL_EXPORTER_OTLP_ENDPOINT="http://127.0.0.1:9")
    assert "opentelemetry.sdk.metrics" in ran(sys.executable, ROUND_TRIP, env=env).told()["imported"]


def test_a_provider_of_the_program_wins(tmp_path):
    """A provider that the program sets before its first request gets all spans, and no file is written."""
    ended = ran(sys.executable, ROUND_TRIP, env=hooked(tmp_path, PROVIDER="own", **SERVER))
    assert ended.told()["finished"] == ["GET", "GET /fail"]
    assert "Overriding" not in ended.errors
    assert not files(tmp_path)


@pytest.mark.parametrize("variable", ["OTEL_SDK_DISABLED=true", "OTEL_TRACES_EXPORTER=none"])
def test_nothing_is_written_that_is_switched_off(tmp_path, variable):
    """OpenTelemetry's own switches are obeyed; the report still goes to the caller."""
    name, value = variable.split("=")
    told = ran(sys.executable, ROUND_TRIP, env=hooked(tmp_path, **{name: value}, **SERVER)).told()
    assert told["report"] is not None
    assert not files(tmp_path)


def test_an_instrumentation_that_is_unwanted(tmp_path):
    """OTEL_PYTHON_DISABLED_INSTRUMENTATIONS takes its spans away, and not the report."""
    env = hooked(tmp_path, OTEL_PYTHON_DISABLED_INSTRUMENTATIONS="aiohttp-client, urllib3", **SERVER)
    assert ran(sys.executable, ROUND_TRIP, env=env).told()["report"] is not None
    assert [line.count('"kind":3') for line in files(tmp_path)[0].read_text().splitlines()] == [0]


@pytest.mark.parametrize("names", ["", "http/dup"])
def test_the_lowest_limit_that_keeps_an_own_failure(tmp_path, names):
    """Of as many attributes as `doctor` asks for at least, the failure that a request ended with is among the last."""
    least = {"OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT": str(limits.LAST_OF_A_SPAN), "OTEL_SEMCONV_STABILITY_OPT_IN": names}
    sent = decode_report(ran(sys.executable, ROUND_TRIP, env=hooked(tmp_path, **least, **SERVER)).told()["report"])
    (read,) = read_files(files(tmp_path))
    assert read.report.failure_id == sent.failure_id


MADE = """
import asyncio, round_trip
from fastapi import FastAPI
from starlette.applications import Starlette
from starlette.routing import Mount, Route

async def fail(request):
    raise ConnectionRefusedError("down")

child, parent = round_trip.app, FastAPI()
parent.mount("/", child)
round_trip.app = {
    "Starlette": Starlette(routes=[Route("/fail", fail)]),
    "Starlette above FastAPI": Starlette(routes=[Mount("/", child)]),
    "FastAPI above FastAPI": parent,
}[sys.argv[1]]
asyncio.run(round_trip.main())
"""


@pytest.mark.parametrize("name", ["Starlette", "Starlette above FastAPI", "FastAPI above FastAPI"])
def test_apps_of_other_makes(tmp_path, name):
    """A failure of an app of any make is one event in the reply, and one in the traces, mounted or not."""
    program = tmp_path / "program.py"
    program.write_text(f"import sys\nsys.path.insert(0, {str(PROGRAMS)!r})\n{MADE}")
    told = ran(sys.executable, program, name, env=hooked(tmp_path, LIFESPAN="off", **SERVER)).told()
    sent = decode_report(told["report"])
    assert [event.boundary.value for event in sent.events.values()] == ["model"]
    (read,) = read_files(files(tmp_path))
    assert read.report.events.keys() == sent.events.keys()


INSTRUMENTING = """
from opentelemetry.instrumentation.aiohttp_client import AioHttpClientInstrumentor
from opentelemetry.instrumentation.fastapi import FastAPIInstrumentor

AioHttpClientInstrumentor().instrument()
FastAPIInstrumentor().instrument(exclude_spans=["receive", "send"])
"""


def test_what_is_instrumented_already(tmp_path):
    """A program that has OpenTelemetry instrument it gets each span once, and no complaint."""
    (tmp_path / "sitecustomize.py").write_text(INSTRUMENTING)
    ended = ran(sys.executable, ROUND_TRIP, env=hooked(tmp_path, PYTHONPATH=str(tmp_path), **SERVER))
    assert ended.told()["report"] is not None
    assert "already instrumented" not in ended.errors
    written = files(tmp_path)[0].read_text()
    assert (written.count('"kind":2'), written.count('"kind":3')) == (1, 1)


def test_a_service_name_is_that_of_the_group(tmp_path):
    """OTEL_SERVICE_NAME names all servers of a Gym, as it does in NeMo Gym, and OTEL_RESOURCE_ATTRIBUTES are kept."""
    env = hooked(tmp_path, OTEL_SERVICE_NAME="night", OTEL_RESOURCE_ATTRIBUTES="team=x", **SERVER)
    ran(sys.executable, ROUND_TRIP, env=env).told()
    for resource in resources(tmp_path):
        assert (resource["service.name"], resource["nemo.gym.service_group"]) == ("night/policy_model", "night")
        assert resource["team"] == "x"


def test_what_the_user_says_of_a_process_is_kept(tmp_path):
    """OTEL_RESOURCE_ATTRIBUTES win over what is found out, whatever they name but the service."""
    given = {
        "nemo.run.id": "mine",
        "nemo.gym.service_group": "g",
        "nemo.gym.server.name": "x",
        "nemo.gym.server.type": "y",
        "telemetry.distro.name": "acme",
        "telemetry.distro.version": "1",
        "service.instance.id": "i1",
    }
    said = ",".join(f"{name}={value}" for name, value in {**given, "service.name": "night"}.items())
    ran(sys.executable, ROUND_TRIP, env=hooked(tmp_path, OTEL_RESOURCE_ATTRIBUTES=said, **SERVER)).told()
    for resource in resources(tmp_path):
        assert resource.items() >= {**given, "service.name": "night/policy_model"}.items()


def test_the_line_of_the_page(tmp_path):
    """What the page on enabling has in a program of one's own traces a server under the name that it gives."""
    (line,) = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    program = tmp_path / "program.py"
    program.write_text(
        f"{line}\nimport asyncio, sys\nsys.path.insert(0, {str(PROGRAMS)!r})\n"
        "import round_trip\nasyncio.run(round_trip.main())\n"
    )
    told = ran(sys.executable, program, env=surroundings(GYM_FAILURES_TRACES=str(tmp_path / "traces"))).told()
    report = decode_report(told["report"])
    assert report.events[report.failure_id].operation == "nemo-gym/my_model GET /fail"
    assert report.events[report.failure_id].boundary.value == "model"


def test_in_a_program_of_ones_own(tmp_path):
    """`enable` does the same without `run`, for the server that its arguments name, however often it is called."""
    program = tmp_path / "program.py"
    program.write_text(
        "import gym_failures, sys\n"
        "named = {'server_name': 'judge', 'server_type': 'resources_servers'}\n"
        "assert gym_failures.enable(**named) and gym_failures.enable(server_name='other')\n"
        f"sys.path.insert(0, {str(PROGRAMS)!r})\n"
        "import asyncio, round_trip\n"
        "assert gym_failures.enable()\n"
        "asyncio.run(round_trip.main())\n"
    )
    told = ran(sys.executable, program, env=surroundings(GYM_FAILURES_TRACES=str(tmp_path / "traces"))).told()
    report = decode_report(told["report"])
    assert report.events[report.failure_id].boundary.value == "resources_server"
    (file,) = files(tmp_path)
    assert file.name.startswith("judge-")
