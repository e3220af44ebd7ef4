"""What the package promises before any of its code does its work: imports, names, and the versions it asks for."""

import subprocess
import sys
import tomllib
from importlib import import_module
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

import gym_failures

ROOT = Path(__file__).parent.parent
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())

# A finder that is asked first and refuses whatever is neither of the standard library nor ours.
ONLY_THE_STANDARD_LIBRARY = """
import sys

class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] not in {*sys.stdlib_module_names, "gym_failures"}:
            raise ModuleNotFoundError(f"{name} is blocked", name=name)

sys.meta_path.insert(0, Refuse())
"""


def run(code: str) -> subprocess.CompletedProcess[str]:
    """Run `code` in a fresh interpreter where only the standard library and this package can be imported."""
    command = [sys.executable, "-I", "-c", ONLY_THE_STANDARD_LIBRARY + code]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    "module",
    [
        "gym_failures",
        "gym_failures.kinds",
        "gym_failures.limits",
        "gym_failures.semconv",
        "gym_failures.startup.gym_failures_hook",
        "gym_failures.startup.gym_failures_lending",
    ],
)
def test_imports_without_dependencies(module):
    """The package, its vocabulary and its hook import where neither pydantic nor OpenTelemetry is installed."""
    done = run(f"import {module}")
    assert (done.returncode, done.stderr) == (0, "")


def test_the_vocabulary_works_without_dependencies():
    """The public names of the vocabulary are usable, through the package too, with the standard library alone."""
    done = run(
        "import gym_failures; print(gym_failures.is_registered('judge_failed'), len(gym_failures.FAILURE_KINDS))"
    )
    assert (done.stdout, done.stderr) == ("True 24\n", "")


@pytest.mark.parametrize("dependency", ["pydantic", "opentelemetry"])
def test_the_block_blocks(dependency):
    """The dependencies cannot be imported behind the block, so that the tests above can fail."""
    assert f"{dependency} is blocked" in run(f"import {dependency}").stderr


def test_a_missing_dependency_is_named():
    """A name that needs a dependency says which one is missing, and is no AttributeError."""
    assert "ModuleNotFoundError: pydantic is blocked" in run("import gym_failures; gym_failures.FailureReport").stderr


def test_public_surface():
    """The package's public names are exactly these: one that vanishes breaks a user, one that slips in must stay."""
    assert gym_failures.__all__ == [
        "FAILURE_KINDS",
        "Config",
        "ConfigError",
        "EpisodeFailure",
        "FailureBoundary",
        "FailureDetails",
        "FailureError",
        "FailureEvent",
        "FailureLog",
        "FailureReport",
        "FailureStage",
        "GymFailuresError",
        "ModelFailureDetails",
        "SandboxFailureDetails",
        "SdkErrorDetails",
        "__version__",
        "enable",
        "error_from",
        "is_namespaced",
        "is_registered",
        "observe",
        "record_failure",
        "report_for",
        "validate_failure_event_map",
        "validate_failure_kind",
    ]


@pytest.mark.parametrize(
    ("module", "names"),
    [
        ("config", ["Config", "ConfigError"]),
        ("header", ["EncodedReport", "decode_report", "decode_reports", "encode", "encode_report"]),
        ("log", ["FailureLog", "current_log"]),
        (
            "propagation",
            [
                "FailureReportPropagator",
                "HeaderGetter",
                "RawHeaderSetter",
                "get_outgoing",
                "get_report",
                "header_values",
                "set_report",
            ],
        ),
        ("recording", ["FailureRecorder", "default_recorder", "observe", "record_failure", "set_default_recorder"]),
    ],
)
def test_public_names_of_a_module(module, names):
    """Modules that other modules of the package share parts of publish these names, and not those parts."""
    assert import_module(f"gym_failures.{module}").__all__ == names


def test_every_public_name_has_a_home():
    """The table of lazy names and `__all__` list the same names."""
    assert sorted({*gym_failures._HOME, "__version__"}) == sorted(gym_failures.__all__)


@pytest.mark.parametrize(("name", "module"), sorted(gym_failures._HOME.items()))
def test_lazy_name_is_the_module_s_own(name, module):
    """A name of the package is the very object of its module."""
    assert getattr(gym_failures, name) is getattr(import_module(f"gym_failures.{module}"), name)


def test_dir_lists_names_not_yet_imported():
    """`dir()` of the package, which completes names in a shell, shows the lazy ones before their first use."""
    done = run(
        "import gym_failures; assert 'FailureReport' in dir(gym_failures); print('FailureReport' in vars(gym_failures))"
    )
    assert (done.stdout, done.stderr) == ("False\n", "")


def test_unknown_name_is_an_attribute_error():
    """A misspelt name fails as it would in any module, and names itself."""
    with pytest.raises(AttributeError, match="module 'gym_failures' has no attribute 'FailureReports'"):
        gym_failures.FailureReports  # noqa: B018 - the access is what is tested


def _requirements() -> list[Requirement]:
    """Return what the project asks for directly, for its users and for its tests."""
    project, groups = PYPROJECT["project"], PYPROJECT["dependency-groups"]
    lists = [project["dependencies"], *project["optional-dependencies"].values(), groups["test"], groups["hosts"]]
    found = {text: Requirement(text) for texts in lists for text in texts}
    return [requirement for requirement in found.values() if requirement.name != project["name"]]


def _pins(file: str) -> dict[str, str]:
    """Return name and version of every pin in `file`."""
    lines = (line.partition(";")[0].strip() for line in (ROOT / file).read_text().splitlines())
    pins = (line.split("==", 1) for line in lines if line and not line.startswith("#"))
    return dict(pins)


# Published for the newest SDK only, so there is no oldest supported version to test.
NEWEST_ONLY = {"opentelemetry-exporter-otlp-json-file"}
REQUIREMENTS = _requirements()


@pytest.mark.parametrize("requirement", [r for r in REQUIREMENTS if r.name not in NEWEST_ONLY], ids=str)
def test_lower_bounds_are_what_the_oldest_job_installs(requirement):
    """A lower bound is tested as it stands: the oldest job installs that version and no newer one."""
    (bound,) = requirement.specifier
    assert bound.operator == ">="
    assert Version(_pins("constraints-oldest.txt")[requirement.name]) == Version(bound.version)


@pytest.mark.parametrize("requirement", REQUIREMENTS, ids=str)
def test_pins_are_within_the_bounds(requirement):
    """Every dependency is pinned for development, to a version that pyproject.toml allows."""
    assert requirement.specifier.contains(_pins("constraints.txt")[requirement.name], prereleases=True)


@pytest.mark.parametrize("group", sorted(PYPROJECT["dependency-groups"]))
def test_every_group_is_pinned(group):
    """What a target of the Makefile installs, such as what benchmarks compare with, is the same version everywhere."""
    wanted = [one for one in PYPROJECT["dependency-groups"][group] if isinstance(one, str)]
    assert {Requirement(one).name for one in wanted} <= _pins("constraints.txt").keys()
