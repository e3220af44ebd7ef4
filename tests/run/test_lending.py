"""A server whose environment lacks this package borrows it, and only what else it lacks, from that of `run`."""

import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from gym_failures.header import decode_report
from gym_failures.startup import gym_failures_lending as lending
from tests.run.programs import PROGRAMS, files, hooked, ran, resources
from tests.run.test_enable import SERVER

ROUND_TRIP = PROGRAMS / "round_trip.py"
SITE = Path(sysconfig.get_path("purelib"))
OURS = ("gym_failures", "_editable_impl_gym_failures", "opentelemetry", "wrapt")


@pytest.fixture
def environment_without(tmp_path):
    """Give what makes an environment that has all packages of this one but those whose names begin so."""

    def make(*names):
        folder = tmp_path / "environment"
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
        (site,) = folder.glob("lib/python*/site-packages")
        for entry in SITE.iterdir():
            if not entry.name.startswith((*names, "__pycache__")):
                (site / entry.name).symlink_to(entry)
        return folder / "bin" / "python"

    return make


def test_a_server_borrows_what_it_lacks(tmp_path, environment_without):
    """A server without this package and OpenTelemetry is traced like any other; what it has is its own."""
    python = environment_without(*OURS)
    told = ran(python, ROUND_TRIP, env=hooked(tmp_path, **SERVER)).told()
    report = decode_report(told["report"])
    assert report.events[report.failure_id].boundary.value == "model"
    assert len(files(tmp_path)) == 1
    assert {one["service.name"] for one in resources(tmp_path)} == {"nemo-gym/policy_model"}
    own = Path(python).parents[1]
    borrowed = {name for name, place in told["imported"].items() if own not in Path(place).parents}
    assert borrowed == {"gym_failures", "opentelemetry.context", "wrapt"}


def test_entry_points_are_borrowed_too(tmp_path, environment_without):
    """OpenTelemetry finds what its variables name by the entry points of what was borrowed, which nobody else sees."""
    program = (
        "import aiohttp, json\n"
        "from importlib.metadata import distributions, version\n"
        "from opentelemetry import propagate\n"
        "import sysconfig\n"
        "here = [sysconfig.get_path('purelib')]\n"
        "print(json.dumps([sorted(propagate.get_global_textmap().fields), version('opentelemetry-api') != '',\n"
        "    [one.metadata['Name'] for one in distributions(path=here) if 'opentelemetry' in one.metadata['Name']]]))\n"
    )
    env = hooked(tmp_path, OTEL_PROPAGATORS="tracecontext,gym_failures")
    ended = ran(environment_without(*OURS), "-c", program, env=env)
    assert ended.told() == [["gym-failure-report", "traceparent", "tracestate"], True, []]
    assert not ended.errors


def test_nothing_is_borrowed_before_it_is_needed(tmp_path, environment_without):
    """A program that is no server finds only what its environment has."""
    program = "import importlib.util; print(importlib.util.find_spec('gym_failures'))"
    assert ran(environment_without(*OURS), "-c", program, env=hooked(tmp_path)).output == "None\n"


CALLER = """
import json, sys
import aiohttp
try:
    import gym_failures.records
except ImportError as error:
    print(json.dumps(str(error.name)))
else:
    print(json.dumps([name for name in ("pydantic", "pydantic_core", "annotated_types", "typing_inspection")
                      if sys.prefix not in sys.modules[name].__file__]))
"""
FAMILY = ("pydantic", "annotated_types", "typing_inspection")


def test_a_family_is_borrowed_whole(tmp_path, environment_without):
    """Without pydantic, pydantic comes with everything that belongs to it."""
    python = environment_without(*OURS, *FAMILY, "fastapi")
    borrowed = ran(python, "-c", CALLER, env=hooked(tmp_path)).told()
    assert borrowed == ["pydantic", "pydantic_core", "annotated_types", "typing_inspection"]


def altered(folder, *, distribution, version):
    """Write down another version of a distribution in the environment that is in `folder`."""
    (site,) = folder.glob("environment/lib/python*/site-packages")
    name = distribution.replace("-", "_")
    metadata = site / f"{name}-{version}.dist-info"
    metadata.mkdir()
    for installed in site.glob(f"{name}-*.dist-info"):
        points = installed / "entry_points.txt"
        if installed.is_symlink() and points.exists():  # the older API finds its parts by them
            (metadata / points.name).write_text(points.read_text())
        if installed.is_symlink():
            installed.unlink()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: {version}\n")


def test_a_family_of_other_versions_is_not_completed(tmp_path, environment_without):
    """Beside a part of pydantic's family of another version no other comes; one line says so, and the program runs."""
    python = environment_without(*OURS, "pydantic", "annotated_types", "fastapi")
    altered(tmp_path, distribution="annotated-types", version="0.1")
    ended = ran(python, "-c", CALLER, env=hooked(tmp_path))
    assert ended.told() == "pydantic"
    (line,) = ended.errors.splitlines()
    assert line.startswith("gym-failures: not active in process ")
    assert line.endswith(": pydantic is not installed here")


def test_a_pydantic_that_is_too_old_is_told_of(tmp_path, environment_without):
    """Beside a pydantic of version 1 nothing is borrowed in part; one line says so, and the program runs."""
    python = environment_without(*OURS, "pydantic", "fastapi")
    (site,) = tmp_path.glob("environment/lib/python*/site-packages")
    (site / "pydantic.py").write_text("VERSION = '1.10.27'\n")
    altered(tmp_path, distribution="pydantic", version="1.10.27")
    ended = ran(python, "-c", "import aiohttp, pydantic; print(pydantic.VERSION)", env=hooked(tmp_path))
    assert ended.output == "1.10.27\n"
    (line,) = ended.errors.splitlines()
    assert line.startswith("gym-failures: not active in process ")
    assert line.endswith(": pydantic is too old here")


UNHEARD = {
    "nobody reads it": "import os; r, w = os.pipe(); os.dup2(w, 2); os.close(r); os.close(w)",
    "it is full": "import os; os.dup2(os.open('/dev/full', os.O_WRONLY), 2)",
    "the program has closed it": "import sys; sys.stderr.close()",
    "it is closed": "import os; os.close(2)",
    "there is none": "import sys; sys.stderr = None",
    "it breaks": "import sys; sys.stderr = object()",
}
"""What programs do to their standard error."""


def test_what_cannot_be_said_is_not_said(tmp_path, environment_without):
    """Where standard error takes nothing, a server that borrows nothing runs as it does without `run`."""
    python = environment_without(*OURS)
    env = {**hooked(tmp_path), lending.VARIABLE: "cpython-27-nowhere:/nowhere"}
    for done in UNHEARD.values():
        program = f"{done}\nimport aiohttp; print('ran', flush=True)"
        ended, alone = (ran(python, "-c", program, env=one) for one in (env, {**env, "PYTHONPATH": ""}))
        assert (ended.status, ended.output) == (alone.status, "ran\n"), done
    told = ran(
        python,
        "-c",
        "import io, sys; sys.stderr = io.StringIO(); import aiohttp; print(sys.stderr.getvalue())",
        env=env,
    )
    assert told.output.startswith("gym-failures: not active in process ")


API_ONLY = ("opentelemetry_exporter", "opentelemetry_instrumentation", "opentelemetry_proto", "opentelemetry_sdk")


@pytest.fixture
def environment_with_the_api(tmp_path, environment_without):
    """Give an environment that has of OpenTelemetry the API alone, as FastAPI brings it."""
    python = environment_without("gym_failures", "_editable_impl_gym_failures", "wrapt", *API_ONLY, "opentelemetry")
    (site,) = (tmp_path / "environment").glob("lib/python*/site-packages")
    (api,) = SITE.glob("opentelemetry_api-*")
    (site / api.name).symlink_to(api)
    parts = {Path(file).parts[1] for file in _files_of(api) if file.startswith("opentelemetry/")}
    (site / "opentelemetry").mkdir()
    for part in parts:
        (site / "opentelemetry" / part).symlink_to(SITE / "opentelemetry" / part)
    return python


def _files_of(metadata):
    return [line.split(",")[0] for line in (metadata / "RECORD").read_text().splitlines()]


def test_a_family_of_the_same_versions_is_completed(tmp_path, environment_with_the_api):
    """A server that has OpenTelemetry's API alone, of the lender's version, gets the rest."""
    told = ran(environment_with_the_api, ROUND_TRIP, env=hooked(tmp_path, **SERVER)).told()
    assert told["report"] is not None
    assert len(files(tmp_path)) == 1


def test_an_api_of_another_version_is_left_alone(tmp_path, environment_with_the_api):
    """A server that has OpenTelemetry's API alone, of another version, gets nothing of it, and is told so."""
    altered(tmp_path, distribution="opentelemetry-api", version="9.9.9")
    ended = ran(environment_with_the_api, ROUND_TRIP, env=hooked(tmp_path, **SERVER))
    assert ended.told()["status"] == 500
    assert ended.told()["report"] is None
    assert not files(tmp_path)
    assert "gets no opentelemetry.instrumentation lent: opentelemetry-api is 9.9.9 here and " in ended.errors
    assert "Traceback" not in ended.errors.partition("Exception in ASGI")[0]


def test_this_package_alone_is_completed(tmp_path, environment_without):
    """An environment in which this package is installed without its extras gets the rest."""
    told = ran(environment_without(*OURS[2:]), ROUND_TRIP, env=hooked(tmp_path, **SERVER)).told()
    assert told["report"] is not None
    assert len(files(tmp_path)) == 1


LENDERS = {
    "another Python": (
        "cpython-39-x86_64-linux-gnu:/lib",
        "is for another Python (cpython-39-x86_64-linux-gnu,",
    ),
    "nobody": ("", "nothing lends it"),
}


@pytest.mark.parametrize("name", LENDERS)
def test_nothing_fits(tmp_path, environment_without, name):
    """Where nothing can be borrowed the program runs as ever, and one line says why it is not traced."""
    offer, reason = LENDERS[name]
    env = {**hooked(tmp_path, **SERVER), lending.VARIABLE: offer}
    ended = ran(environment_without(*OURS), "-c", "import aiohttp; print('ran')", env=env)
    assert (ended.status, ended.output) == (0, "ran\n")
    (line,) = ended.errors.splitlines()
    assert reason in line
