"""Make the environments that hold a real NeMo Gym: `python tools/gym_venv.py`, once for all checkouts of a user.

Two of them: one with this package beside NeMo Gym, as one who follows our how-to has it, and one without, as the
servers have it that NeMo Gym makes environments for. They weigh a gigabyte each; uv links both to one copy.
"""

import fcntl
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from pythons import find_python

ROOT = Path(__file__).resolve().parent.parent
CONSTRAINTS = ROOT / "tests" / "gym" / "constraints.txt"
GYM_VERSION = "0.7.0"
GYM = f"nemo-gym[telemetry]=={GYM_VERSION}"
PYTHON = "3.13"
CLAIMED_PYTHON = "3.13.14"
"""What NeMo Gym's metadata asks for. It runs on 3.13.0; uv is told this, so that any 3.13 at hand will do."""


class MissingEnvironmentError(LookupError):
    """An environment that the tests need is not there; the message says what to do."""


@dataclass(frozen=True)
class Environment:
    """One environment of NeMo Gym: its name in the cache, and what else is installed in it."""

    name: str
    also: tuple[str, ...] = ()

    @property
    def folder(self) -> Path:
        """Where it lies: in the user's cache folder, with the versions in its name."""
        home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        return Path(home, "gym-failures", f"{self.name}-{GYM_VERSION}-{PYTHON}")

    @property
    def python(self) -> Path:
        """Its interpreter; raises MissingEnvironmentError where the environment was not made to the end."""
        if not self._mark.is_file():
            raise MissingEnvironmentError(f"{self.folder} is missing: run `make gym`")
        return self.folder / "bin" / "python"

    @property
    def _mark(self) -> Path:
        return self.folder / ".complete"

    def make(self) -> None:
        """Make it, or bring it to the pins in force; raises LookupError without a Python, CalledProcessError."""
        uv = Path(sys.executable).with_name("uv")
        python = self.folder / "bin" / "python"
        if not python.exists():
            _call(uv, "venv", "--quiet", "--clear", "--python", find_python(PYTHON), self.folder)
        self._mark.unlink(missing_ok=True)
        _call(
            uv, "pip", "install", "--quiet", "--python", python, "--python-version", CLAIMED_PYTHON,
            "--constraint", CONSTRAINTS, "--build-constraint", ROOT / "constraints.txt", GYM, *self.also,
        )  # fmt: skip
        self._mark.touch()


# Editable: this checkout's source, from whichever checkout `make gym` ran last.
WITH_US = Environment("nemo-gym", also=("--editable", f"{ROOT}[cli,file,gym]"))
WITHOUT_US = Environment("nemo-gym-alone")


def _call(*command: str | Path) -> None:
    subprocess.run(command, cwd=ROOT, check=True)


def main() -> None:
    """Make both, one run at a time between all checkouts, and print where they are."""
    WITH_US.folder.parent.mkdir(parents=True, exist_ok=True)
    begun = time.monotonic()
    with (WITH_US.folder.parent / ".gym.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for environment in (WITH_US, WITHOUT_US):
            try:
                environment.make()
            except (LookupError, subprocess.CalledProcessError) as error:
                sys.exit(f"gym: {error}")
            print(f"[{time.monotonic() - begun:4.0f} s] {environment.folder}", flush=True)


if __name__ == "__main__":
    main()
