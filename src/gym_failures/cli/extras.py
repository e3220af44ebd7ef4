"""What is not installed, said in a way that helps; it needs the standard library only."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec

from gym_failures.cli import exits


@contextmanager
def needs(extra: str, *modules: str) -> Iterator[None]:
    """Import within the block what `extra` brings; if anything is missing, end the command and name the extra.

    `modules` are what has to be there beside what the block imports.
    """
    try:
        for module in modules:
            if find_spec(module) is None:
                raise ModuleNotFoundError(name=module)  # noqa: TRY301 - as an import would
        yield
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] == "gym_failures":
            raise  # A fault of ours, and no extra mends it.
        extra = getattr(error, "extra", extra)  # that of a `MissingExtraError`, which may be another
        print(  # noqa: T201 - rich may be what is missing
            f"gym-failures: {error.name} is not installed; it comes with the extra {extra}:"
            f" pip install 'gym-failures[{extra}]'",
            file=sys.stderr,
        )
        sys.exit(exits.USAGE)
