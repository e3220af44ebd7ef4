"""The command `gym-failures`, which needs the extra `cli`."""

import sys

from gym_failures.cli.extras import needs


def main() -> None:
    """Run the command; where a dependency of its own is missing, say which extra brings it."""
    with needs("cli", "pydantic"):  # which typer imports, but not before it is called
        from gym_failures.cli.app import app, run  # noqa: PLC0415 - so that what is missing can be named

        command = app(*sys.argv[1:2])
    run(command)
