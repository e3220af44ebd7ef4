"""The commands, put together."""

import logging
import os
import sys
from importlib import import_module
from typing import Annotated, Final, NoReturn

import typer

from gym_failures import __version__
from gym_failures.cli import exits
from gym_failures.cli.terminal import NobodyReadsError, UnwritableError, plain, tell, write
from gym_failures.cli.usage import Command

EXAMPLE = "1.eJyrVkpLzMwpLUqNz0xRslJKVNJRSi1LzSspVrKqBvKABEw-OzMPrCIdKBtfVJoXn1pUlF8EVJ-UX5qXklhUCZNUqq2tBQAknR6a"
"""The value of a header, with the report of one failure."""


class _Listed:
    """How a command is shown in the help."""

    def __init__(self, short_help: str, *examples: str) -> None:
        self.short_help = short_help
        # Click keeps the lines of a paragraph that begins with a backspace.
        self.epilog = "\n".join(["\b", "Examples:", *(f"  {line}" for line in examples)])


_COMMANDS: Final = {
    "demo": _Listed(
        "Run rollouts through small servers that fail in many ways.",
        "gym-failures demo",
        "gym-failures demo --otlp http://localhost:4318",
    ),
    "show": _Listed(
        "Show why rollouts failed, a tree for each.",
        "gym-failures show agent.jsonl model.jsonl",
        "gym-failures show --by request --all traces/*.jsonl",
        "gym-failures show --kind 'provider_*' --boundary model traces",
        "gym-failures show --format jsonl traces | head -n 1",
        "gym-failures show --jaeger http://localhost:16686 --since 2h --rollout r07",
        "gym-failures show --follow traces",
        "zcat traces.jsonl.gz | gym-failures show -",
    ),
    "count": _Listed(
        "Count failures by kind, boundary and more.",
        "gym-failures count traces/*.jsonl",
        "gym-failures count --by service,kind --since 90d traces",
        "gym-failures count --format prometheus traces",
        "gym-failures count --exit-code traces/*.jsonl || echo something failed",
    ),
    "report": _Listed(
        "Write a page that shows a run.",
        "gym-failures report traces",
        "gym-failures report -o monday.html --title 'Monday, 512 rollouts' traces/*.jsonl.gz",
        "gym-failures report --jaeger http://localhost:16686 --since 2h -o now.html",
    ),
    "diff": _Listed(
        "Compare the failures of two runs.",
        "gym-failures diff before/ after/",
        "gym-failures diff --exit-code before 'after/*.jsonl' || echo something is new or rose",
        "gym-failures diff --by service,kind --format json before after",
    ),
    "decode": _Listed(
        "Show the report that a reply carried.",
        f"gym-failures decode {EXAMPLE}",
        "curl -si http://localhost:8000/run | gym-failures decode -",
        "gym-failures decode --format json - < reply.txt",
    ),
    "kinds": _Listed(
        "List the kinds of failures, and when each applies.",
        "gym-failures kinds",
        "gym-failures kinds 'agent_*' --format json",
    ),
    "export": _Listed(
        "Send an old run to a Collector or to Jaeger.",
        "gym-failures export traces",
        "gym-failures export --to http://localhost:4318 rollouts.jsonl",
    ),
    "rows": _Listed(
        "Put what traces tell into saved rows.",
        "gym-failures rows rollouts.jsonl traces > told.jsonl && gym-failures show told.jsonl",
    ),
    "doctor": _Listed(
        "Say whether failures would be seen here, and what to do.",
        "gym-failures doctor",
        "OTEL_EXPORTER_OTLP_ENDPOINT=http://localhost:4318 gym-failures doctor --format json",
    ),
    "run": _Listed(
        "Run a command, and trace the servers that it starts.",
        "gym-failures run -- gym env start --config my_gym.yaml",
        "OTEL_EXPORTER_OTLP_ENDPOINT=http://localhost:4318 gym-failures run -- gym env start --config my_gym.yaml",
        "GYM_FAILURES_BOUNDARY=model gym-failures run -- python app.py",
    ),
}
"""Every command, by its name: that of the module and of the function in it."""

_SETTINGS: Final = {"run": {"allow_interspersed_args": False}}  # what stands behind the command is its own


def app(first: str = "") -> typer.Typer:
    """Return the command, with no more than the subcommand that its first argument names; with all if that is none.

    What is not needed is not imported: `gym-failures run` is in front of whatever a user starts.
    """
    whole = typer.Typer(
        name="gym-failures",
        help="Show and count the failures of NeMo Gym, with their causes, from the traces of its servers.",
        epilog="Ends with status 0, or with 1 if the answer is no, 2 if it is called wrongly, 3 if nothing can be read,"
        " 4 with --strict if something cannot be read, 5 if the output cannot be written.",
        no_args_is_help=True,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,  # theirs show local variables, which can hold secrets
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    whole.callback()(_command)
    for name, listed in _COMMANDS.items():
        if first in _COMMANDS and name != first:
            continue
        add = whole.command(
            name, cls=Command, context_settings=_SETTINGS.get(name), short_help=listed.short_help, epilog=listed.epilog
        )
        add(getattr(import_module(f"gym_failures.cli.{name}"), name))
    return whole


def _version(wanted: bool) -> None:  # noqa: FBT001 - typer calls it
    if wanted:
        write(f"gym-failures {__version__}")
        raise typer.Exit


def _command(
    *,
    version: Annotated[  # noqa: ARG001 - its callback does it all
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    # What the package says of its input, such as of kinds that nobody has registered, the commands say themselves.
    logging.getLogger("gym_failures").addHandler(logging.NullHandler())


def run(command: typer.Typer) -> None:
    """Run `command` with the arguments of this process; where its output cannot go, say so and end."""
    try:
        command()
    except NobodyReadsError:
        _give_up_output(exits.NOBODY_READS)
    except UnwritableError as error:
        tell(f"gym-failures: the output: {error}")
        _give_up_output(exits.UNWRITABLE)
    except OSError as error:
        where = "the output" if error.filename is None else plain(str(error.filename))
        tell(f"gym-failures: {where}: {error.strerror}")
        _give_up_output(exits.UNWRITABLE)


def _give_up_output(status: int) -> NoReturn:
    # What Python still holds back would fail once more when it ends, and change the status.
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    sys.exit(status)
