"""The command `gym-failures`, which needs the extra `cli`."""

from gym_failures.cli.extras import needs


def main() -> None:
    """Run the command; where a dependency of its own is missing, say which extra brings it."""
    with needs("cli"):
        from gym_failures.cli.app import run  # noqa: PLC0415 - so that what is missing can be named
    run()
