"""Show that a file of 10 GB is read in bounded memory and in time that grows with its bytes and no faster.

Writes files of a tenth of the size and of the whole size, in each of which one span in a hundred failed as it does in a
Gym, and has `gym-failures count` read both: with one process, and with one for each core, which is compared and not
judged, because a machine may have one. Memory is that of all its processes together, as often as it can be looked at;
what several of them share counts each time. Exits with 1 when one process takes more than 300 MB, when a byte of the
large file costs more than 1.2 times what one of the small file does, or when a number differs. What is compared is the
time of its own processes on a processor, not the system's: that depends on how much of the file is in memory by chance.

Run it as a script, with the size in GB if it is not to be 10; `--folder` has to have room for 1.2 times as much.
"""

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from typing import Final, NamedTuple

import psutil
from large_files import write_large

GB: Final = 1_000_000_000
MB: Final = 1_000_000
FAILING: Final = 0.01
BATCH: Final = 512
"""Spans of a line, as the SDK batches them."""
MEMORY_BUDGET: Final = 300
"""In MB."""
LINEARITY: Final = 1.2
LOOK_EVERY: Final = 0.02
"""In seconds."""
COMMAND: Final = Path(sys.executable).with_name("gym-failures")


class Cost(NamedTuple):
    """What one run of the command took."""

    failures: int
    peak: float
    """In MB."""
    processor: float
    """In seconds, of all its processes, without the system's."""
    wall: float


def count(path: Path, *arguments: str) -> Cost:
    """Have the command count, and watch it."""
    asked = [COMMAND, "count", "--format", "json", *arguments, path]
    peak = processor = 0.0
    start = time.perf_counter()
    with TemporaryFile() as said, subprocess.Popen(asked, stdout=said) as process:  # noqa: S603 - our own command
        watched = psutil.Process(process.pid)
        while process.poll() is None:
            memory, so_far = _look(watched)
            peak, processor = max(peak, memory), max(processor, so_far)
            time.sleep(LOOK_EVERY)
        wall = time.perf_counter() - start
        said.seek(0)
        answer = said.read()
    if process.returncode:
        raise RuntimeError(f"the command ended with {process.returncode}")
    return Cost(json.loads(answer)["failures"], peak, processor, wall)


def _look(watched: psutil.Process) -> tuple[float, float]:
    """Return the memory of a process and those it started, in MB, and the seconds of processor time so far."""
    memory = seconds = 0.0
    try:
        times = watched.cpu_times()
        seconds = times.user + times.children_user
        for one in (watched, *watched.children(recursive=True)):
            memory += one.memory_info().rss / MB
            if one != watched:
                seconds += one.cpu_times().user
    except psutil.NoSuchProcess:  # it has ended, perhaps while it was looked at
        pass
    return memory, seconds


def judge(what: str, value: float, most: float, unit: str) -> bool:
    """Print a value beside its bound; return whether it is within."""
    within = value <= most
    print(f"{what}: {value:.2f}{unit}, budget at most {most:g}{unit}: {'holds' if within else 'MISSED'}")
    return within


def main(arguments: Sequence[str]) -> bool:
    """Run it; return whether all holds."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("size", nargs="?", type=float, default=10.0, help="of the large file, in GB (default: 10)")
    parser.add_argument("--folder", type=Path, help="where to write the files, which are removed (default: as TMPDIR)")
    said = parser.parse_args(arguments)
    costs: dict[str, list[Cost]] = {"--workers=1": [], "as many as cores": []}
    within = True
    print(f"{'':<10}{'':<20}{'failures':>10}{'peak MB':>9}{'MB/s':>7}{'s':>7}{'s, processor':>14}")
    for size in (said.size / 10, said.size):
        with TemporaryDirectory(dir=said.folder) as folder:
            path = Path(folder) / "traces.jsonl"
            written = write_large(path, int(size * GB), failing=FAILING, batch=BATCH)
            for how, found in costs.items():
                cost = count(path, *([how] if how.startswith("--") else []))
                found.append(cost)
                print(
                    f"{written.bytes / GB:>6.1f} GB {how:<20}{cost.failures:>10,}{cost.peak:>9.0f}"
                    f"{written.bytes / MB / cost.wall:>7.0f}{cost.wall:>7.1f}{cost.processor:>14.1f}",
                    flush=True,
                )
            within &= {found[-1].failures for found in costs.values()} == {written.failures}
    small, large = costs["--workers=1"]
    within &= judge("peak of memory", large.peak, MEMORY_BUDGET, " MB")
    within &= judge(
        "processor time of a byte, beside the small file", large.processor / small.processor / 10, LINEARITY, "x"
    )
    several = costs["as many as cores"][-1]
    print(f"{large.wall / several.wall:.2f}x as fast with as many processes as cores")
    return within


if __name__ == "__main__":
    sys.exit(0 if main(sys.argv[1:]) else 1)
