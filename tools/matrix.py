"""Test the built wheel on the versions that users have: `python tools/matrix.py WHEEL [JOB ...]`.

Every job gets a new environment. A folder below tests/ that is named after an extra runs where that extra is
installed, and one for real servers and clients where any is; all other tests need the core dependencies alone, and the
job without extras proves it.
"""

import subprocess
import sys
import time
import tomllib
from dataclasses import dataclass
from pathlib import Path

from pythons import find_python

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = frozenset(PROJECT["optional-dependencies"]) - {"all"}
NEWEST_ONLY = frozenset({"demo", "file"})
"""Extras for the newest SDK only: the file exporter exists for no other, and the demo writes with it."""
HOSTS = frozenset({"clients", "hosts", "run", "servers"})
"""Folders of tests that need the dependency group `hosts`."""


@dataclass(frozen=True)
class Job:
    """One set of versions to test on."""

    python: str
    constraints: str
    extras: frozenset[str]
    instead: tuple[tuple[str, str], ...] = ()
    """Versions to take in place of others in the pins."""
    folders: tuple[str, ...] = ()
    """Tests to run; none: all that can be run."""

    def pins(self) -> str:
        """Return the pins of this job, as text of a constraints file."""
        text = (ROOT / self.constraints).read_text()
        for old, new in self.instead:
            text = text.replace(f"=={old}\n", f"=={new}\n")
        return text


JOBS = {
    "core": Job("3.11", "constraints.txt", frozenset()),
    "oldest": Job("3.11", "constraints-oldest.txt", EXTRAS - NEWEST_ONLY),
    # In 0.55b0 OpenTelemetry's middleware moved to another place in the stack of an app. And early versions of Python
    # 3.12 start no thread while they exit, which is when clients send the last spans.
    "otel-0.55b0": Job(
        "3.12",
        "constraints-oldest.txt",
        EXTRAS - NEWEST_ONLY,
        instead=(("0.54b1", "0.55b0"), ("1.33.1", "1.34.0")),
        folders=("tests/clients", "tests/run/test_sending.py", "tests/sdk", "tests/servers"),
    ),
    "newest": Job("3.13", "constraints.txt", EXTRAS),
}


def run(name: str, wheel: Path) -> None:
    """Make the environment of the job `name`, install `wheel` into it and run the tests that it can run."""
    job = JOBS[name]
    environment = ROOT / ".matrix" / name
    python = environment / "bin" / "python"
    uv = Path(sys.executable).with_name("uv")
    extras = f"[{','.join(sorted(job.extras))}]" if job.extras else ""
    groups = ("test", "hosts") if job.extras else ("test",)
    missing = sorted((EXTRAS - job.extras) | (HOSTS if not job.extras else frozenset()))
    _call(uv, "venv", "--quiet", "--clear", "--python", find_python(job.python), environment)
    pins = environment / "constraints.txt"
    pins.write_text(job.pins())
    _call(
        uv, "pip", "install", "--quiet", "--python", python,
        "--constraint", pins,
        *(argument for group in groups for argument in ("--group", group)),
        f"gym-failures{extras} @ {wheel.resolve().as_uri()}",
    )  # fmt: skip
    _call(python, "-m", "pytest", "-q", "-n", "auto", *(f"--ignore=tests/{folder}" for folder in missing), *job.folders)


def _call(*command: str | Path) -> None:
    subprocess.run(command, cwd=ROOT, check=True)


def main(wheel: str, *names: str) -> None:
    """Run the named jobs, or all of them; the first that fails ends the run with its status."""
    unknown = [name for name in names if name not in JOBS]
    if unknown:
        sys.exit(f"no such job: {', '.join(unknown)} (there are: {', '.join(JOBS)})")
    for name in names or JOBS:
        job = JOBS[name]
        print(
            f"== {name}: Python {job.python}, {job.constraints}, extras: {' '.join(sorted(job.extras)) or 'none'}",
            flush=True,
        )
        begun = time.monotonic()
        try:
            run(name, Path(wheel))
        except subprocess.CalledProcessError as error:
            sys.exit(f"== {name}: failed ({error.returncode})")
        except LookupError as error:
            sys.exit(f"== {name}: {error}")
        print(f"== {name}: passed in {time.monotonic() - begun:.0f} s", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
