"""NeMo Gym's start under `gym-failures run`, and without it.

The head server and the seven servers of the tests' bed are brought up as NeMo Gym's own launcher does it, from the
environment that `make gym` makes, until each of them answers. The time is that of the whole command, from its first
process on. The two sides take turns, and which of them begins changes. A machine's speed can change by a third within
minutes, which is many times what is measured. So only the two of one round are compared, and the mean of all rounds
counts, given with its standard error. Exits with status 1 when the start takes longer than is promised; a number of
rounds, two at least, may be given.
"""

import json
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import mean, stdev
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tools")]

from backends.processes import free_ports  # noqa: E402 - from where the line above says
from gym_venv import WITH_US, MissingEnvironmentError  # noqa: E402 - as above
from tests.gym.bed.configuration import config  # noqa: E402 - as above
from tests.gym.bed.run import HERE, surroundings, tracing  # noqa: E402 - as above

ROUNDS: Final = 12
RATIO: Final = 1.05
SECONDS: Final = 1.0
"""Most that the start may take longer: one of the two has to hold."""
PATIENCE: Final = 600
"""Longest time that one start may take, in seconds; it takes half a minute on a machine of its own."""


class Took(NamedTuple):
    """What bringing NeMo Gym up took."""

    start: float
    """Seconds until every server answered."""
    cpu: float
    """The processor's seconds of all processes, those of taking it down again included."""

    def __str__(self) -> str:
        """Say both."""
        return f"{self.start:.1f} s ({self.cpu:.1f} s of the processor)"


def main() -> int:
    """Print the table; return 1 when the promise does not hold."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS
    try:
        WITH_US.python  # noqa: B018 - raises where it is missing
    except MissingEnvironmentError as missing:
        print(f"start of NeMo Gym left out: {missing}")
        return 0
    plain: list[Took] = []
    traced: list[Took] = []
    started(traced=False)  # What is read from disk and compiled at the first time.
    for number in range(rounds):
        for side in (False, True) if number % 2 else (True, False):
            (traced if side else plain).append(started(traced=side))
        print(f"round {number + 1}: without us {plain[-1]}, under run {traced[-1]}", flush=True)
    pairs = list(zip(plain, traced, strict=True))
    more = [ours.start - theirs.start for theirs, ours in pairs]
    ratio = mean(took.start for took in traced) / mean(took.start for took in plain)
    holds = ratio <= RATIO or mean(more) <= SECONDS
    print(f"processor, down again included: {about([ours.cpu / theirs.cpu for theirs, ours in pairs])}")
    print(f"start: {ratio:.3f} <= {RATIO} or {about(more)} s more <= {SECONDS} s  {'holds' if holds else 'MISSED'}")
    return 0 if holds else 1


def about(values: list[float]) -> str:
    """Say the mean of `values`, and how far it may be from what it stands for."""
    return f"{mean(values):.3f} +-{stdev(values) / len(values) ** 0.5:.3f}"


def started(*, traced: bool) -> Took:
    """Bring NeMo Gym up and down again; return what that took."""
    before_all = used()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        settings = folder / "settings.json"
        head, nobody = free_ports(0, 0)
        servers = config(folder, head, f"http://127.0.0.1:{nobody}")
        settings.write_text(json.dumps({"folder": name, "config": servers, "collection": None, "calls": []}))
        before = tracing(folder) if traced else ()
        log = folder / "driver.log"
        with log.open("wb") as file:
            done = subprocess.run(  # noqa: S603 - our own
                [*before, WITH_US.python, HERE / "driver.py", settings],
                cwd=HERE,
                env=surroundings(folder),
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                timeout=PATIENCE,
                check=False,
            )
        if done.returncode:
            raise RuntimeError(log.read_text(errors="replace")[-2_000:])
        return Took(json.loads((folder / "found.json").read_text())["up"], used() - before_all)


def used() -> float:
    """Return the processor's seconds of all processes that have ended below this one."""
    found = resource.getrusage(resource.RUSAGE_CHILDREN)
    return found.ru_utime + found.ru_stime


if __name__ == "__main__":
    sys.exit(main())
