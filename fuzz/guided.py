"""Let atheris find inputs by coverage: `python fuzz/guided.py TARGET [options and folders of libFuzzer]`.

Needs atheris, which is built for few versions of Python and is no dependency of the project. It starts from the same
well-formed inputs as `volume.py`.
"""

import logging
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import atheris

with atheris.instrument_imports(include=["gym_failures"]):
    from inputs import SEEDS
    from invariants import TARGETS


def main() -> None:
    """Run until a target breaks its invariant, or the options end it."""
    name = sys.argv.pop(1) if len(sys.argv) > 1 else ""
    if name not in TARGETS:
        sys.exit(f"usage: {sys.argv[0]} {'|'.join(TARGETS)} [options and folders of libFuzzer]")
    logging.disable()  # unregistered kinds are warned about; here nearly all are
    target = TARGETS[name]

    def run(data: bytes) -> None:
        target(data)

    with TemporaryDirectory() as folder:
        for number, seed in enumerate(SEEDS[name]):
            (Path(folder) / str(number)).write_bytes(seed)
        atheris.Setup([*sys.argv, folder], run)
        atheris.Fuzz()


if __name__ == "__main__":
    main()
