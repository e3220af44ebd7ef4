"""Which programs there are, of which versions, and where they lie: in the user's cache folder, never in the tree."""

import hashlib
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CONFIG = ROOT / "collector-config"
BUILDER = CONFIG / "builder.yaml"

JAEGER_MODULE = "github.com/jaegertracing/jaeger/cmd/jaeger"
JAEGER_VERSION = "v1.76.0"
BUILDER_MODULE = "go.opentelemetry.io/collector/cmd/builder"
COLLECTOR_VERSION = "v0.161.0"


class MissingProgramError(LookupError):
    """A program that the tests need is not there; the message says what to do."""


@dataclass(frozen=True)
class Program:
    """One executable: its name on PATH, and the folder of the cache that it is put into."""

    name: str
    folder: str

    @property
    def cached(self) -> Path:
        """Where the cache holds it once it is made."""
        return cache() / self.folder / self.name

    def find(self) -> Path:
        """Return the executable: the cache's, else, for what a distribution may install, the one on PATH.

        Raises MissingProgramError when there is neither.
        """
        if self.cached.is_file():
            return self.cached
        installed = shutil.which(self.name) if self in FROM_A_DISTRIBUTION else None
        if installed is None:
            raise MissingProgramError(f"{self.name} is missing: run `make backends`")
        return Path(installed)


def cache() -> Path:
    """Return the folder that holds what was made: `gym-failures/backends` in the user's cache folder."""
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home, "gym-failures", "backends")


def _digest(path: Path) -> str:
    """Return a short digest of a file, so that a change of what is built is a build of its own."""
    return hashlib.sha256(path.read_bytes()).hexdigest()[:12]


JAEGER = Program("jaeger", f"jaeger-{JAEGER_VERSION}")
COLLECTOR = Program("otelcol-gym", f"collector-{COLLECTOR_VERSION}-{_digest(BUILDER)}")
PROMETHEUS = Program("prometheus", "prometheus-debian")
PROMTOOL = Program("promtool", "prometheus-debian")
PROMETHEUS_PAGES = Path("usr", "share", "prometheus", "web")
"""Where Debian's package has its pages, seen from the folder that it was taken apart in."""

PROGRAMS = (JAEGER, COLLECTOR, PROMETHEUS, PROMTOOL)
FROM_A_DISTRIBUTION = (PROMETHEUS, PROMTOOL)
"""The versions of these are the distribution's; any from 2.42 on will do."""
