"""`gym-failures report`: one HTML file that shows what failed in a run, to look at and to pass on."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from gym_failures.cli.choice import Boundary, Choice, Kind, Rollout, Service, Since, Until
from gym_failures.cli.console import err
from gym_failures.cli.files import ExitCode, Files, Strict, Unit, Workers, end, read, say_untimed
from gym_failures.cli.jaeger import Url
from gym_failures.cli.page import contents, document
from gym_failures.cli.terminal import plain

_PAGES = ("http://", "https://")
"""How the URL of a page begins."""


def _page(said: str) -> str:
    if not said.startswith(_PAGES):
        raise typer.BadParameter(f"{said!r} is no URL that begins with http:// or https://")
    return said.rstrip("/")


def report(
    files: Files = None,
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="The HTML file to write.")] = Path(
        "failures.html"
    ),
    title: Annotated[str, typer.Option(metavar="TEXT", help="What the page is called.")] = "Failures of a run",
    links: Annotated[
        str | None,
        typer.Option("--links", metavar="URL", parser=_page, help="Where Jaeger is, for links to traces."),
    ] = None,
    *,
    kind: Kind = None,
    boundary: Boundary = None,
    service: Service = None,
    rollout: Rollout = None,
    since: Since = None,
    until: Until = None,
    jaeger: Url = None,
    exit_code: ExitCode = False,
    workers: Workers = None,
    strict: Strict = False,
) -> None:
    """Write a page that shows what failed, where, when, and what led to what.

    The file needs no network and no server. It holds reasons and ids: whoever gets it can read them. Options that
    choose failures choose the rollouts in which there is such a failure.
    """
    choice = Choice(kind, boundary, service, rollout, since, until)
    # Jaeger is asked for traces that failed only, so the requests in them are no share of all.
    whole = jaeger is None and choice == Choice()
    with read(files, Unit.ROLLOUT, jaeger=jaeger, choice=choice, requests=whole, workers=workers) as reports:
        untimed: set[str] = set()
        chosen = [*choice.of(reports, untimed)]
    title = plain(title)
    made = f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC"
    shown = contents(chosen, spans=reports.spans, skipped=reports.skips, requests=reports.requests)
    if links is None and jaeger is not None and jaeger.startswith(_PAGES):  # by gRPC there are no pages
        links = _page(jaeger)
    output.write_text(document(shown, title=title, made=made, jaeger=links), "utf-8")
    failed = sum(rebuilt.failed for rebuilt in chosen)
    err().print(f"wrote {plain(str(output))}: {failed} failed, {len(chosen) - failed} recovered", markup=False)
    say_untimed(len(untimed))
    end(reports.skips, strict=strict, failed=exit_code and failed > 0)
