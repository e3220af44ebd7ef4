"""Make the programs once: Jaeger and the Collector from their Go modules, Prometheus from Debian's package.

Everything is made in a folder beside its place and moved there at the end, so a build that was broken off leaves
nothing that looks finished. One build runs at a time, also between two checkouts that share the cache.
"""

import fcntl
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from backends.programs import (
    BUILDER,
    BUILDER_MODULE,
    COLLECTOR,
    COLLECTOR_VERSION,
    JAEGER,
    JAEGER_MODULE,
    JAEGER_VERSION,
    PROMETHEUS,
    PROMTOOL,
    MissingProgramError,
    Program,
    cache,
)

PAGES = (
    "fonts-glyphicons-halflings",
    "libjs-bootstrap4",
    "libjs-d3",
    "libjs-eonasdan-bootstrap-datetimepicker",
    "libjs-jquery",
    "libjs-jquery-hotkeys",
    "libjs-moment",
    "libjs-moment-timezone",
    "libjs-mustache",
    "libjs-popper.js",
    "libjs-rickshaw",
)
"""What the pages of Debian's Prometheus are made with, in packages of their own."""

SAY_EVERY = 10.0
"""Time between two lines of progress, in seconds."""


class BuildError(Exception):
    """A program could not be made; the message ends with the last lines of what the tool said."""


def build_all(say: Callable[[str], None]) -> None:
    """Make every program that is not there yet and tell `say` what happens.

    Raises BuildError when a step fails, MissingProgramError when a tool is missing that the machine must bring.
    """
    cache().mkdir(parents=True, exist_ok=True)
    with (cache() / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for program, make in ((PROMETHEUS, _unpack_prometheus), (COLLECTOR, _build_collector), (JAEGER, _build_jaeger)):
            _build(program, make, say)


def _build(program: Program, make: Callable[[Path, Callable[[str], None]], None], say: Callable[[str], None]) -> None:
    try:
        say(f"{program.name}: {program.find()}")
    except MissingProgramError:
        begun = time.monotonic()
        place = program.cached.parent
        with tempfile.TemporaryDirectory(dir=cache(), prefix="making-") as temporary:
            made = Path(temporary, "made")
            made.mkdir()
            make(made, lambda line: say(f"{program.name}: {line}"))
            shutil.rmtree(place, ignore_errors=True)
            made.rename(place)
        say(f"{program.name}: {program.cached}, made in {time.monotonic() - begun:.0f} s")


def _build_jaeger(made: Path, say: Callable[[str], None]) -> None:
    say(f"building {JAEGER_VERSION}; about four minutes the first time")
    with _go_module() as module:
        _go(module, "get", "-tool", f"{JAEGER_MODULE}@{JAEGER_VERSION}", say=say)
        _go(module, "build", "-v", "-trimpath", "-ldflags=-s -w", "-o", made / JAEGER.name, JAEGER_MODULE, say=say)


def _build_collector(made: Path, say: Callable[[str], None]) -> None:
    say(f"building {COLLECTOR_VERSION} from {BUILDER.name}; about two minutes the first time")
    with _go_module() as module:
        _go(module, "install", f"{BUILDER_MODULE}@{COLLECTOR_VERSION}", say=say, GOBIN=str(module))
        _run(module / "builder", f"--config={BUILDER}", "--skip-compilation", cwd=module, say=say)
        # The manifest's own output path, which the builder takes from where it runs.
        _go(module / "out", "build", "-v", "-trimpath", "-ldflags=-s -w", "-o", made / COLLECTOR.name, ".", say=say)


def _unpack_prometheus(made: Path, say: Callable[[str], None]) -> None:
    """Take Debian's package apart without installing it: no root is needed, and no service starts by itself."""
    for tool in ("apt-get", "dpkg-deb"):
        if shutil.which(tool) is None:
            raise MissingProgramError(
                f"prometheus is missing and there is no {tool} to fetch Debian's package with: put prometheus and"
                " promtool (2.42 or newer) on PATH"
            )
    say("fetching Debian's package")
    with tempfile.TemporaryDirectory(dir=made.parent) as folder:
        try:
            _run("apt-get", "download", "prometheus", cwd=Path(folder), say=say)
        except BuildError:
            if os.geteuid() != 0:
                raise
            _run("apt-get", "update", cwd=Path(folder), say=say)
            _run("apt-get", "download", "prometheus", cwd=Path(folder), say=say)
        try:
            _run("apt-get", "download", *PAGES, cwd=Path(folder), say=say)
        except BuildError:
            say("the scripts of its pages were not found: it will answer queries, and show no pages")
        for package in Path(folder).glob("*.deb"):
            _run("dpkg-deb", "--extract", package, made, cwd=Path(folder), say=say)
    for program in (PROMETHEUS, PROMTOOL):
        (made / program.name).symlink_to(Path("usr", "bin", program.name))


@contextmanager
def _go_module() -> Iterator[Path]:
    if shutil.which("go") is None:
        raise MissingProgramError("there is no `go` on PATH: Jaeger and the Collector are built with Go 1.25 or newer")
    with tempfile.TemporaryDirectory(dir=cache(), prefix="module-") as folder:
        Path(folder, "go.mod").write_text("module backends\n\ngo 1.25.0\n")
        yield Path(folder)


def _go(cwd: Path, *arguments: str | Path, say: Callable[[str], None], **environment: str) -> None:
    _run("go", *arguments, cwd=cwd, say=say, environment={"CGO_ENABLED": "0", **environment})


def _run(
    *command: str | Path,
    cwd: Path,
    say: Callable[[str], None],
    environment: Mapping[str, str] | None = None,
) -> None:
    """Run one step, telling now and then how many lines it has said; its last lines are shown when it fails."""
    words = [str(word) for word in command]
    lines: list[str] = []
    said = time.monotonic()
    with subprocess.Popen(
        words,
        cwd=cwd,
        env={**os.environ, **(environment or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    ) as process:
        for line in process.stdout or ():
            lines.append(line.rstrip())
            if time.monotonic() - said > SAY_EVERY:
                said = time.monotonic()
                say(f"{Path(words[0]).name} {words[1]}: {len(lines)} lines, now {lines[-1][:100]}")
    if process.returncode != 0:
        raise BuildError("\n".join([f"`{' '.join(words)}` failed ({process.returncode}):", *lines[-20:]]))
