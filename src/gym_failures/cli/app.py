"""The commands, put together."""

import logging
import os
import sys
from functools import partial
from typing import Annotated, NoReturn

import typer

from gym_failures import __version__
from gym_failures.cli import exits
from gym_failures.cli.count import count
from gym_failures.cli.decode import decode
from gym_failures.cli.demo import demo
from gym_failures.cli.diff import diff
from gym_failures.cli.doctor import doctor
from gym_failures.cli.export import export
from gym_failures.cli.kinds import kinds
from gym_failures.cli.report import report
from gym_failures.cli.rows import rows
from gym_failures.cli.run import run as run_command
from gym_failures.cli.show import show
from gym_failures.cli.terminal import NobodyReadsError, out, plain
from gym_failures.cli.usage import Command

app = typer.Typer(
    name="gym-failures",
    help="Show and count the failures of NeMo Gym, with their causes, from the traces of its servers.",
    epilog="Ends with status 0, or with 1 if the answer is no, 2 if it is called wrongly, 3 if nothing can be read,"
    " 4 with --strict if something cannot be read, 5 if the output cannot be written.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,  # theirs show local variables, which can hold secrets
    context_settings={"help_option_names": ["-h", "--help"]},
)
_add = partial(app.command, cls=Command)


EXAMPLE = "1.eJyrVkpLzMwpLUqNz0xRslJKVNJRSi1LzSspVrKqBvKABEw-OzMPrCIdKBtfVJoXn1pUlF8EVJ-UX5qXklhUCZNUqq2tBQAknR6a"
"""The value of a header, with the report of one failure."""


def _examples(*lines: str) -> str:
    # Click keeps the lines of a paragraph that begins with a backspace.
    return "\n".join(["\b", "Examples:", *(f"  {line}" for line in lines)])


_add(
    short_help="Run rollouts through small servers that fail in many ways.",
    epilog=_examples(
        "gym-failures demo",
        "gym-failures demo --otlp http://localhost:4318",
    ),
)(demo)
_add(
    short_help="Show why rollouts failed, a tree for each.",
    epilog=_examples(
        "gym-failures show agent.jsonl model.jsonl",
        "gym-failures show --by request --all traces/*.jsonl",
        "gym-failures show --kind 'provider_*' --boundary model traces",
        "gym-failures show --format jsonl traces | head -n 1",
        "gym-failures show --jaeger http://localhost:16686 --since 2h --rollout r07",
        "gym-failures show --follow traces",
        "zcat traces.jsonl.gz | gym-failures show -",
    ),
)(show)
_add(
    short_help="Count failures by kind, boundary and more.",
    epilog=_examples(
        "gym-failures count traces/*.jsonl",
        "gym-failures count --by service,kind --since 90d traces",
        "gym-failures count --format prometheus traces",
        "gym-failures count --exit-code traces/*.jsonl || echo something failed",
    ),
)(count)
_add(
    short_help="Write a page that shows a run.",
    epilog=_examples(
        "gym-failures report traces",
        "gym-failures report -o monday.html --title 'Monday, 512 rollouts' traces/*.jsonl.gz",
        "gym-failures report --jaeger http://localhost:16686 --since 2h -o now.html",
    ),
)(report)
_add(
    short_help="Compare the failures of two runs.",
    epilog=_examples(
        "gym-failures diff before/ after/",
        "gym-failures diff --exit-code before 'after/*.jsonl' || echo something is new or rose",
        "gym-failures diff --by service,kind --format json before after",
    ),
)(diff)
_add(
    short_help="Show the report that a reply carried.",
    epilog=_examples(
        f"gym-failures decode {EXAMPLE}",
        "curl -si http://localhost:8000/run | gym-failures decode -",
        "gym-failures decode --format json - < reply.txt",
    ),
)(decode)
_add(
    short_help="List the kinds of failures, and when each applies.",
    epilog=_examples(
        "gym-failures kinds",
        "gym-failures kinds 'agent_*' --format json",
    ),
)(kinds)
_add(
    short_help="Send an old run to a Collector or to Jaeger.",
    epilog=_examples(
        "gym-failures export traces",
        "gym-failures export --to http://localhost:4318 rollouts.jsonl",
    ),
)(export)
_add(
    short_help="Put what traces tell into saved rows.",
    epilog=_examples(
        "gym-failures rows rollouts.jsonl traces > told.jsonl && gym-failures show told.jsonl",
    ),
)(rows)
_add(
    short_help="Say whether failures would be seen here, and what to do.",
    epilog=_examples(
        "gym-failures doctor",
        "OTEL_EXPORTER_OTLP_ENDPOINT=http://localhost:4318 gym-failures doctor --format json",
    ),
)(doctor)
_add(
    "run",
    context_settings={"allow_interspersed_args": False},  # what stands behind the command is its own
    short_help="Run a command, and trace the servers that it starts.",
    epilog=_examples(
        "gym-failures run -- gym env start --config my_gym.yaml",
        "OTEL_EXPORTER_OTLP_ENDPOINT=http://localhost:4318 gym-failures run -- gym env start --config my_gym.yaml",
        "GYM_FAILURES_BOUNDARY=model gym-failures run -- python app.py",
    ),
)(run_command)


def _version(wanted: bool) -> None:  # noqa: FBT001 - typer calls it
    if wanted:
        out().print(f"gym-failures {__version__}")
        raise typer.Exit


@app.callback()
def _command(
    *,
    version: Annotated[  # noqa: ARG001 - its callback does it all
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    # What the package says of its input, such as of kinds that nobody has registered, the commands say themselves.
    logging.getLogger("gym_failures").addHandler(logging.NullHandler())


def run() -> None:
    """Run the command with the arguments of this process; where its output cannot go, say so and end."""
    try:
        app()
    except NobodyReadsError:
        _give_up_output(exits.NOBODY_READS)
    except OSError as error:
        where = "the output" if error.filename is None else plain(str(error.filename))
        print(f"gym-failures: {where}: {error.strerror}", file=sys.stderr)  # noqa: T201 - no colours, whatever broke
        _give_up_output(exits.UNWRITABLE)


def _give_up_output(status: int) -> NoReturn:
    # What Python still holds back would fail once more when it ends, and change the status.
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    sys.exit(status)
