"""Put many mutated inputs to a target: `python fuzz/volume.py TARGET [--inputs N] [--seed S]`.

The first input that breaks the invariant is written to a file, its number is said, and the exit code is 1. The same
seed gives the same inputs.
"""

import argparse
import logging
import sys
import time
from hashlib import sha256
from pathlib import Path
from random import Random

from inputs import mutated
from invariants import TARGETS

EVERY_SECONDS = 60


def main() -> int:
    """Run until the inputs are through, or one breaks the invariant."""
    parser = argparse.ArgumentParser(description="Put many mutated inputs to a target.")
    parser.add_argument("target", choices=TARGETS)
    parser.add_argument("--inputs", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    logging.disable()  # unregistered kinds are warned about; here nearly all are

    target = TARGETS[options.target]
    understood = 0
    start = said = time.monotonic()
    for number, data in enumerate(mutated(options.target, Random(options.seed)), 1):
        try:
            understood += target(data)
        except BaseException:
            found = Path(f"crash-{options.target}-{sha256(data).hexdigest()[:12]}")
            found.write_bytes(data)
            print(f"input {number} of seed {options.seed} breaks the invariant: {found}", flush=True)
            raise
        if number == options.inputs:
            break
        if time.monotonic() - said > EVERY_SECONDS:
            said = time.monotonic()
            print(f"{number:,} inputs in {said - start:.0f} s", flush=True)
    print(
        f"{options.target}: {options.inputs:,} inputs of seed {options.seed}, {understood:,} of them understood, "
        f"none broke the invariant; {time.monotonic() - start:.0f} s"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
