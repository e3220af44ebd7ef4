"""`gym-failures demo`: a small Gym that fails on demand, and what there is to see of it."""

import shlex
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.text import Text

from gym_failures.cli import exits
from gym_failures.cli.console import err, out
from gym_failures.cli.count import print_table
from gym_failures.cli.extras import needs
from gym_failures.cli.files import Unit, read
from gym_failures.cli.show import print_trees
from gym_failures.cli.terminal import plain

if TYPE_CHECKING:
    from gym_failures.demo.check import Agreement
    from gym_failures.demo.run import Run

_NEEDED: Final = (
    "aiohttp",
    "fastapi",
    "httptools",
    "uvicorn",
    "opentelemetry.sdk",
    "opentelemetry.exporter.otlp.json.file",
    "opentelemetry.exporter.otlp.proto.http",
    "opentelemetry.instrumentation.aiohttp_client",
    "opentelemetry.instrumentation.fastapi",
)
"""What the processes of a run import; better missed here than by one of them."""


def demo(
    otlp: Annotated[
        str | None,
        typer.Option(metavar="URL", help="Send all signals to a Collector or to Jaeger too, by OTLP over HTTP."),
    ] = None,
    folder: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            file_okay=False,
            help="Where to leave the files; a new folder. [default: a temporary one]",
        ),
    ] = None,
    seed: Annotated[int, typer.Option(metavar="N", help="Decides the order in which rollouts fail.")] = 0,
) -> None:
    """Run 40 rollouts through small servers that fail in many ways, and show what failed and why.

    Six servers and a collection client run as processes of this machine, and talk HTTP. Then their traces are read
    back: how many failures there were, why each rollout failed, and that the replies told the same as the traces.
    """
    with needs("demo", *_NEEDED):
        from gym_failures.demo import DemoError  # noqa: PLC0415 - so that what is missing can be named
        from gym_failures.demo.check import compare  # noqa: PLC0415 - as above
        from gym_failures.demo.otlp import check_endpoint  # noqa: PLC0415 - as above
        from gym_failures.demo.plan import FAULTS  # noqa: PLC0415 - as above
        from gym_failures.demo.run import run  # noqa: PLC0415 - as above

    if folder is not None and folder.exists() and any(folder.iterdir()):
        raise typer.BadParameter(f"{folder} is not empty", param_hint="--folder")
    try:
        endpoint = None if otlp is None else check_endpoint(otlp)
    except DemoError as error:
        raise typer.BadParameter(plain(str(error)), param_hint="--otlp") from None
    place = Path(tempfile.mkdtemp(prefix="gym-failures-demo-")) if folder is None else folder
    try:
        with _progress(sum(fault.rollouts for fault in FAULTS)) as advance:
            done = run(place, seed=seed, otlp=endpoint, on_end=lambda _: advance())
    except (DemoError, OSError) as error:
        for said in str(error).splitlines():
            err().print(f"gym-failures: {plain(said)}", markup=False)
        raise typer.Exit(exits.FAILED) from None

    spans = sorted((place / "spans").glob("*.jsonl"))
    agreement = compare(place, spans)
    console = out()
    console.print("rollouts  what was made to happen in them", style="bold")
    for fault in FAULTS:
        console.print(f"{fault.rollouts:8}  {fault.says}")
    console.print()
    with read(spans, Unit.ROLLOUT) as reports:
        print_trees(console, reports, Unit.ROLLOUT, recovered=True)
    with read(spans, Unit.TRACE) as reports:
        print_table(console, reports)
    for line in _summary(done, agreement, place, endpoint):
        console.print(line, soft_wrap=True)  # a path that is broken in two cannot be copied
    if done.unsent or not agreement.holds:
        raise typer.Exit(exits.FAILED)


def _summary(done: "Run", agreement: "Agreement", folder: Path, endpoint: str | None) -> Iterator[Text]:
    """Yield what is left to say: how the replies compare, and where everything is."""
    yield Text(f"{len(done.rollouts)} rollouts took {done.seconds:.1f} s", "bold")
    yield verdict(agreement)
    for caller, differences in agreement.differing.items():
        yield Text(f"  the reply to span {caller}: {'; '.join(differences)}")
    if endpoint is not None:
        yield Text(f"sent to {endpoint}; in Jaeger, search service agent for the tag failure.kind=agent_run_error")
    if done.unsent:
        yield Text(f"not all was taken there of: {', '.join(done.unsent)}; see the logs", "bold red")
    yield Text(f"look again: {_called()} show {shlex.quote(str(folder / 'spans'))}")


def _called() -> str:
    """Return what to type for this program: its name where a shell finds it, else the path that was typed."""
    called = sys.argv[0]
    name = Path(called).name
    found = shutil.which(name)
    return name if found is not None and Path(found).absolute() == Path(called).absolute() else shlex.quote(called)


def verdict(agreement: "Agreement") -> Text:
    """Return in one line whether the replies tell what the traces tell."""
    equal = agreement.replies - len(agreement.differing)
    return Text(
        f"{agreement.replies} replies, {agreement.reports} of them with a report, were compared with their traces:"
        f" {equal} say the same",
        "bold green" if agreement.holds else "bold red",
    )


@contextmanager
def _progress(total: int) -> Iterator[Callable[[], None]]:
    """Show how far the run is, on a terminal; gives what to call at the end of each rollout."""
    console = err()
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("starting 6 servers", total=total)

        def advance() -> None:
            progress.update(task, advance=1, description="running rollouts")

        yield advance
