"""What a command asks of a running Jaeger."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from gym_failures import limits
from gym_failures.cli import exits
from gym_failures.cli.choice import Choice, is_like
from gym_failures.cli.console import err
from gym_failures.cli.extras import needs
from gym_failures.cli.terminal import plain

if TYPE_CHECKING:
    from gym_failures.reading.sources.jaeger_search import Found, JaegerSearch

Url = Annotated[
    str | None,
    typer.Option(
        "--jaeger",
        metavar="URL",
        help="Ask this Jaeger, such as http://localhost:16686 or grpc://localhost:16685; of the last day, or --since.",
    ),
]

_SECOND = 10**9
"""In nanoseconds."""


def ask(url: str, choice: Choice) -> "Found":
    """Return what Jaeger has of the failures in `choice`; ends the command where it does not answer.

    Asks for the services and the times of the choice only, and only for what has an attribute that it insists on.
    """
    with needs("reading"):
        from gym_failures.reading.sources.jaeger_search import JaegerError  # noqa: PLC0415 - so that it can be named
    until = time.time_ns() if choice.until is None else choice.until
    since = until - limits.JAEGER_LOOKBACK * _SECOND if choice.since is None else choice.since
    try:
        jaeger = _at(url)
    except JaegerError as error:
        err().print(f"gym-failures: {plain(str(error))}", markup=False)
        raise typer.Exit(exits.USAGE) from None
    try:
        services = [name for name in jaeger.services() if is_like(name, choice.services)]
        with _progress(services) as one_by_one:
            found = jaeger.failing(
                one_by_one,
                since_ns=since - limits.JAEGER_MARGIN * _SECOND,
                until_ns=until,
                tags=choice.exactly(),
            )
    except JaegerError as error:
        err().print(f"gym-failures: {plain(str(error))}", markup=False)
        raise typer.Exit(exits.UNREADABLE) from None
    if found.full:
        err().print("gym-failures: more traces than one answer holds began at the same time; some may be missing")
    return found


def _at(url: str) -> "JaegerSearch":
    """Return the API that is asked at such a URL; raises JaegerError for what is none."""
    # Imported here, so that what is missing can be named.
    if url.lower().startswith(("grpc:", "grpcs:")):
        os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # Its library would write to standard error what we say below.
        with needs("grpc"):
            from gym_failures.reading.sources.jaeger_grpc import JaegerGrpc  # noqa: PLC0415 - as above

            return JaegerGrpc(url)
    with needs("reading"):
        from gym_failures.reading.sources.jaeger import Jaeger  # noqa: PLC0415 - as above

        return Jaeger(url)


@contextmanager
def _progress(services: list[str]) -> Iterator[Iterator[str]]:
    console = err()
    if not console.is_terminal:  # Where a bar is only disabled, an older rich still leaves an empty line.
        yield iter(services)
        return
    columns = (TextColumn("asking Jaeger"), BarColumn(), MofNCompleteColumn(), TextColumn("services"))
    with Progress(*columns, console=console, transient=True) as progress:
        yield iter(progress.track(services))
