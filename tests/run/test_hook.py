"""What happens in every Python process below `gym-failures run`, most of which have nothing to trace."""

import shutil
import sys
from pathlib import Path

import pytest

from gym_failures import startup
from tests.run.programs import hooked, ran

HOOK = Path(startup.__file__).parent
MODULES = "import json, sys; print(json.dumps(sorted(sys.modules)))"
FOREIGN = "import sys; print('foreign', __name__, sys.modules['sitecustomize'].__file__ == __file__)"


def test_nothing_is_imported_before_it_is_needed(tmp_path):
    """A program with nothing to trace has the hook and what finds the next of its kind, and nothing else of ours."""
    env = hooked(tmp_path)
    plain = ran(sys.executable, "-c", MODULES, env={**env, "PYTHONPATH": ""}).told()
    traced = ran(sys.executable, "-c", MODULES, env=env).told()
    assert set(traced) - set(plain) <= {
        "gym_failures_hook",
        "importlib",
        "importlib._bootstrap",
        "importlib._bootstrap_external",
        "importlib.machinery",
        "sitecustomize",
        "warnings",
        "_warnings",
    }


@pytest.fixture
def foreign(tmp_path):
    """Give a folder with a sitecustomize of somebody else, and what writes that."""
    folder = tmp_path / "foreign"
    folder.mkdir()

    def write(text):
        (folder / "sitecustomize.py").write_text(text)
        return folder

    return write


def test_the_next_sitecustomize_is_loaded_too(tmp_path, foreign):
    """What would have run at the start without us still runs, under its name."""
    env = hooked(tmp_path, PYTHONPATH=str(foreign(FOREIGN)))
    ended = ran(sys.executable, "-c", "import sitecustomize; print(sitecustomize.__file__)", env=env)
    assert ended.output.splitlines() == ["foreign sitecustomize True", str(foreign(FOREIGN) / "sitecustomize.py")]


def test_an_error_of_the_next_sitecustomize_is_told_as_ever(tmp_path, foreign):
    """Python says what it says of a sitecustomize that fails, and the program runs."""
    env = hooked(tmp_path, PYTHONPATH=str(foreign("raise ValueError('theirs')")))
    ended = ran(sys.executable, "-c", "print('ran')", env=env)
    without = ran(
        sys.executable, "-c", "print('ran')", env={**env, "PYTHONPATH": str(foreign("raise ValueError('theirs')"))}
    )
    assert ended == without
    assert "theirs" in ended.errors


def test_another_copy_of_the_hook_is_passed(tmp_path, foreign):
    """Hooks of two installations run once each, and then whatever is behind both."""
    copy = shutil.copytree(HOOK, tmp_path / "copy")
    env = hooked(tmp_path, PYTHONPATH=f"{copy}:{HOOK}:{foreign(FOREIGN)}")
    program = "import sys; print(sum(type(one).__name__ == '_Awaiting' for one in sys.meta_path))"
    ended = ran(sys.executable, "-c", program, env=env)
    assert (ended.output.splitlines(), ended.errors) == (["foreign sitecustomize True", "1"], "")


PROGRAMS = {
    "worker": ("ray/_private/workers/default_worker.py", False),
    "dashboard": ("ray/dashboard/dashboard.py", False),
    "command": ("bin/ray", False),
    "a server in a folder of that name": ("ray/app.py", True),
    "a server in a part of a folder of that name": ("ray/projects/core/app.py", True),
    "a server": ("servers/array/app.py", True),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_rays_own_processes_are_left_alone(tmp_path, name):
    """Nothing awaits anything in a program of Ray."""
    path, awaiting = PROGRAMS[name]
    package(tmp_path / "ray")
    assert looks(tmp_path, path) == f"True {awaiting}\n"


@pytest.mark.parametrize("path", ["ray/scripts/app.py", "ray/util/app.py", "ray/projects/scripts/app.py"])
def test_a_home_folder_called_ray(tmp_path, path):
    """Programs below a folder that is called ray and is no package, as in images of Ray, are awaited like any."""
    assert looks(tmp_path, path) == "True True\n"


def package(folder):
    """Make a package of a folder."""
    folder.mkdir()
    (folder / "__init__.py").touch()


def looks(tmp_path, path):
    """Run a program at a path, and return whether the hook is there, and whether it awaits anything."""
    script = tmp_path / path
    script.parent.mkdir(parents=True, exist_ok=True)
    script.write_text(
        "import sys; print('gym_failures_hook' in sys.modules, type(sys.meta_path[0]).__name__ == '_Awaiting')"
    )
    return ran(sys.executable, "-u", script, env=hooked(tmp_path)).output


@pytest.mark.parametrize("method", ["forkserver", "spawn"])
def test_helpers_of_rays_dashboard_are_left_alone(tmp_path, method):
    """What the dashboard starts by `multiprocessing` is left alone too."""
    package(tmp_path / "ray")
    script = tmp_path / "ray" / "dashboard" / "dashboard.py"
    script.parent.mkdir()
    script.write_text(
        "import multiprocessing, sys\n"
        "def look():\n"
        "    print(any(type(one).__name__ == '_Awaiting' for one in sys.meta_path), flush=True)\n"
        "if __name__ == '__main__':\n"
        f"    helper = multiprocessing.get_context({method!r}).Process(target=look)\n"
        "    helper.start()\n"
        "    helper.join()\n"
    )
    assert ran(sys.executable, script, env=hooked(tmp_path)).output == "False\n"


MODULES_RUN = {"ray.dashboard.agent": False, "projects.ray.dashboard.agent": True}


@pytest.mark.parametrize("module", MODULES_RUN)
def test_rays_modules_are_left_alone(tmp_path, module):
    """A program of Ray is known by its module too, which is one of Ray's if it is in that package from the top."""
    script = tmp_path / f"{module.replace('.', '/')}.py"
    script.parent.mkdir(parents=True)
    script.write_text("import sys; print(type(sys.meta_path[0]).__name__ == '_Awaiting')")
    ended = ran(sys.executable, "-m", module, env=hooked(tmp_path), cwd=tmp_path)
    assert (ended.output, ended.errors) == (f"{MODULES_RUN[module]}\n", "")


FINDER = """
import sys
from importlib.machinery import ModuleSpec

class Loader:
    def exec_module(self, module):
        module.answer = 42

class Finder:
    def find_spec(self, name, path=None, target=None):
        return ModuleSpec(name, Loader()) if name == "aiohttp" else None

sys.meta_path.insert(1, Finder())
"""


def test_a_module_that_somebody_else_loads(tmp_path, foreign):
    """A library from a finder and a loader that have no more than they must have is imported as ever."""
    program = "import aiohttp; print(aiohttp.answer, type(aiohttp.__loader__).__name__)"
    env = hooked(tmp_path, PYTHONPATH=str(foreign(FINDER)), GYM_FAILURES_ENABLED="false")
    ended = ran(sys.executable, "-c", program, env=env)
    assert (ended.output, ended.errors) == ("42 Loader\n", "")


def test_an_import_that_fails_fails_as_ever(tmp_path):
    """A library that cannot be imported raises its own error, and nothing is switched on."""
    (tmp_path / "aiohttp.py").write_text("raise ImportError('theirs')")
    program = (
        "import sys\n"
        "try:\n"
        "    import aiohttp\n"
        "except ImportError as error:\n"
        "    print(error, 'gym_failures' in sys.modules)\n"
    )
    env = hooked(tmp_path, PYTHONPATH=str(tmp_path))
    ended = ran(sys.executable, "-c", program, env=env)
    assert (ended.output, ended.errors) == ("theirs False\n", "")


def test_an_import_that_fails_after_it_has_loaded_another(tmp_path):
    """What a library has loaded before it failed is there, so tracing is switched on: nothing else may be imported."""
    (tmp_path / "fastapi.py").write_text("import starlette.applications\nraise ImportError('theirs')")
    program = (
        "import sys\n"
        "try:\n"
        "    import fastapi\n"
        "except ImportError as error:\n"
        "    print(error, 'gym_failures.enabling' in sys.modules)\n"
    )
    env = hooked(tmp_path, PYTHONPATH=str(tmp_path))
    ended = ran(sys.executable, "-c", program, env=env)
    assert (ended.output, ended.errors) == ("theirs True\n", "")
