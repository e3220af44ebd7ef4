"""What the processes of a run have to know of it."""

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final, Self

SERVERS: Final = ("provider", "sandbox", "relay", "model", "resources", "agent")
"""The servers, each with a module of its name in `servers`."""
COLLECTION: Final = "collection"

UNSENT: Final = 3
"""Status of a process that could not send all that it had to the endpoint."""


@dataclass(frozen=True)
class Settings:
    """One run: where it writes, where its servers are, in what order its rollouts go."""

    folder: str
    urls: Mapping[str, str]
    """The address of each server, without a slash at its end."""
    seed: int
    otlp: str | None
    """Base of an OTLP endpoint to send to over HTTP, beside the files; None sends nowhere."""

    @classmethod
    def from_line(cls, line: str) -> Self:
        """Read what `to_line` has written."""
        return cls(**json.loads(line))

    def to_line(self) -> str:
        """Write everything in one line."""
        return json.dumps(asdict(self)) + "\n"

    def file(self, kind: str, name: str) -> Path:
        """Return the path of a file of this process; `kind` is the folder: spans, replies or logs."""
        return Path(self.folder, kind, f"{name}.{'log' if kind == 'logs' else 'jsonl'}")


def prepare(folder: Path) -> None:
    """Make what is in `folder` of a run."""
    for kind in ("spans", "replies", "logs"):
        (folder / kind).mkdir(parents=True, exist_ok=True)


def environment() -> dict[str, str]:
    """Return the environment for the processes of a run: the same on any machine, but for how to reach a Collector."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if name.startswith("OTEL_EXPORTER_OTLP_") or not name.startswith(("OTEL_", "GYM_FAILURES_"))
    }
    return kept | {"OTEL_SEMCONV_STABILITY_OPT_IN": "http", "PYTHONUNBUFFERED": "1"}
