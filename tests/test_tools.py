"""The gate's own tools: they must not be fooled by the machine that they run on."""

import re
import tomllib
from pathlib import Path

import pytest

from tools.matrix import JOBS
from tools.pythons import find_python

ROOT = Path(__file__).parents[1]
CONTRIBUTING = ROOT / "CONTRIBUTING.md"
PACKAGE = ROOT / "src" / "gym_failures"


def program(path, script):
    """Write an executable shell script at `path`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def path(tmp_path, monkeypatch):
    """Give a PATH of one folder, with a pyenv in it that has Python 9.8 but has not selected it."""
    program(tmp_path / "bin" / "pyenv", f"echo {tmp_path}/pyenv")
    program(tmp_path / "bin" / "python9.8", "echo 'python9.8: command not found' >&2; exit 127")
    program(tmp_path / "pyenv" / "versions" / "9.8.1" / "bin" / "python", "echo 9.8")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    return tmp_path


def test_a_shim_that_fails_is_passed_over(path):
    """A name on PATH that does not run is no interpreter; the one behind it is found."""
    assert find_python("9.8") == path / "pyenv" / "versions" / "9.8.1" / "bin" / "python"


def test_path_comes_first(path):
    """An interpreter on PATH that runs is taken before any other."""
    chosen = program(path / "bin" / "python9.8", "echo 9.8")
    assert find_python("9.8") == chosen


def test_an_interpreter_of_another_version_is_passed_over(path):
    """What calls itself python9.8 and is not is never taken."""
    program(path / "bin" / "python9.8", "echo 9.7")
    assert find_python("9.8") == path / "pyenv" / "versions" / "9.8.1" / "bin" / "python"


@pytest.mark.usefixtures("path")
def test_no_interpreter_is_a_clear_error():
    """Where there is none, the error says which version is missing."""
    with pytest.raises(LookupError, match=r"no working Python 9\.7: install it"):
        find_python("9.7")


def test_every_job_of_the_matrix_is_explained():
    """The table of jobs that contributors read has each job of the matrix, in its order, with its Python."""
    page = CONTRIBUTING.read_text(encoding="utf-8")
    assert re.findall(r"^\| `(\S+)` \| (3\.\d+) \|", page, re.MULTILINE) == [
        (name, job.python) for name, job in JOBS.items()
    ]


def test_the_pythons_of_the_matrix_are_those_that_the_package_claims():
    """A classifier names a version of Python if and only if a job of the matrix runs on it."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    claimed = re.findall(r"Python :: (3\.\d+)", "\n".join(project["classifiers"]))
    assert claimed == sorted({job.python for job in JOBS.values()})


def test_every_module_has_its_place_on_the_page_for_contributors():
    """The table of where a change belongs names each module of the package once, and nothing that is not there."""
    page = CONTRIBUTING.read_text(encoding="utf-8")
    table = page.partition("\n## Where a change belongs\n")[2].partition("\n## ")[0].partition("| --- |")[2]
    named = re.findall(r"`([^`]+)`", table)
    parts = [name for name in named if "/" in name]  # of a package that is named too
    modules = [path.stem for path in PACKAGE.iterdir() if path.suffix == ".py" or (path / "__init__.py").is_file()]
    assert sorted(set(named) - set(parts)) == sorted(set(modules) - {"__init__"})
    assert len(named) == len(set(named))
    assert [part for part in parts if not (PACKAGE / part).exists()] == []
