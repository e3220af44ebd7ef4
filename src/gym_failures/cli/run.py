"""`gym-failures run -- CMD`: any command, with the servers and clients of NeMo Gym that it starts being traced."""

import os
import signal
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Final, NoReturn

import typer

from gym_failures import startup
from gym_failures.cli import exits
from gym_failures.cli.checkup.exporting import missing_exporters
from gym_failures.cli.extras import needs
from gym_failures.cli.terminal import plain, tell
from gym_failures.config import Config, ConfigError
from gym_failures.enabling.process import RUN_ID
from gym_failures.startup import gym_failures_lending as lending

_NEEDED: Final = (
    "wrapt",
    "opentelemetry.sdk",
    "opentelemetry.exporter.otlp.proto.http",
    "opentelemetry.instrumentation.aiohttp_client",
    "opentelemetry.instrumentation.fastapi",
)
"""What the processes import; better missed here than by one of them."""


def run(
    command: Annotated[list[str], typer.Argument(metavar="CMD...", help="The command and its arguments, after --.")],
    folder: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            file_okay=False,
            help="Where traces go that no endpoint takes. [default: gym-failures-traces]",
        ),
    ] = None,
) -> None:
    """Run a command, and trace the servers and clients of NeMo Gym that it starts.

    The command takes the place of this process: same process id, signals and exit status. Where OpenTelemetry's
    variables name an endpoint (OTEL_EXPORTER_OTLP_ENDPOINT), spans and metrics go there; otherwise each process writes
    its spans to a file, which `gym-failures show` reads. Servers that are not NeMo Gym's are told by
    GYM_FAILURES_BOUNDARY what they are.
    """
    try:
        config = Config.from_env()
    except ConfigError as error:
        tell(f"gym-failures: {plain(str(error))}")
        raise typer.Exit(exits.USAGE) from None
    if not config.enabled:
        _become(command, os.environ)
    with needs("gym", *_NEEDED):
        traced = environment(os.environ, folder if folder is not None else Path(config.traces))
    for finding in missing_exporters(os.environ):  # Each process would find that out for itself, somewhere in its log.
        tell(f"gym-failures: {plain(finding.says)}; {finding.fix}")
    _become(command, traced)


def environment(given: Mapping[str, str], traces: Path) -> dict[str, str]:
    """Return `given` with what makes every Python below trace itself where that is called for; all else in it stays."""
    hook = str(Path(startup.__file__).parent)
    path = given.get("PYTHONPATH")
    others = [entry for entry in path.split(os.pathsep) if entry != hook] if path else []
    return {
        **given,
        "PYTHONPATH": os.pathsep.join([hook, *others]),
        "GYM_FAILURES_TRACES": str(_absolute(traces)),  # a server's working folder is its own
        lending.VARIABLE: lending.offer(_folders()),
        RUN_ID: given.get(RUN_ID) or os.urandom(6).hex(),
    }


def _absolute(folder: Path) -> Path:
    """Return `folder` from the root on; as it is where the folder that this process is in is gone."""
    try:
        return folder.absolute()
    except FileNotFoundError:
        return folder


def _folders() -> list[str]:
    """Return the folders that hold this package and what it needs, each once."""
    modules = [*lending.OTHERS, *(name for family in lending.FAMILIES.values() for name in family)]
    specs = [spec for name in modules if "." not in name and (spec := find_spec(name)) is not None]
    places = [place for spec in specs for place in spec.submodule_search_locations or [spec.origin or ""]]
    return list(dict.fromkeys(str(Path(place).parent) for place in places))


def _become(command: Sequence[str], environ: Mapping[str, str]) -> NoReturn:
    """Let the command take the place of this process."""
    for name in ("SIGPIPE", "SIGXFSZ"):  # Python ignores these, and whoever takes its place would go on with that.
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_DFL)
    if not command[0]:
        tell("gym-failures: an empty text is no command")
        raise typer.Exit(exits.NOT_FOUND)
    try:
        os.execvpe(command[0], list(command), environ)  # noqa: S606 - that is what the user has asked for
    except OSError as error:
        tell(f"gym-failures: {plain(command[0])}: {error.strerror}")
        raise typer.Exit(exits.NOT_FOUND if isinstance(error, FileNotFoundError) else exits.NOT_RUN) from None
