"""Results and messages with colours and tables, as a terminal shows them."""

import sys
from typing import Final

from rich.console import Console

from gym_failures.cli.terminal import NobodyReadsError, never_fail_for_a_character

_PIPE_WIDTH: Final = 10_000
"""Width where no terminal sets one, in characters; so wide that a line stays a line."""


class _Console(Console):
    def on_broken_pipe(self) -> None:
        raise NobodyReadsError


def out() -> Console:
    """Return where results go: standard output, in colours only on a terminal, in whole lines elsewhere."""
    return _console(stderr=False)


def err() -> Console:
    """Return where everything else goes: standard error."""
    return _console(stderr=True)


def _console(*, stderr: bool) -> Console:
    never_fail_for_a_character(sys.stderr if stderr else sys.stdout)
    console = _Console(stderr=stderr, highlight=False)
    if not console.is_terminal:
        console.width = _PIPE_WIDTH
    return console
