"""Make the programs that are missing: `python -m backends`."""

import sys
import time

from backends.build import BuildError, build_all
from backends.programs import MissingProgramError


def main() -> None:
    """Make what is missing and show the progress with the time since the start."""
    begun = time.monotonic()

    def say(line: str) -> None:
        print(f"[{time.monotonic() - begun:4.0f} s] {line}", flush=True)

    try:
        build_all(say)
    except (BuildError, MissingProgramError) as error:
        sys.exit(f"backends: {error}")


if __name__ == "__main__":
    main()
