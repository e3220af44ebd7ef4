"""The file into which a process writes its spans where nobody takes them."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from gym_failures.enabling.span_lines import line_of
from gym_failures.guard import Guard, warn_once

if TYPE_CHECKING:
    from io import FileIO

_GUARD: Final = Guard("span_file")


class SpanFile(SpanExporter):
    """Writes spans to a file of this process, which is made with the first of them; a fork gets a file of its own.

    Each call writes whole lines at once, so threads need no lock and a process that is killed has written what it knew.
    """

    def __init__(self, folder: str | os.PathLike[str], name: str) -> None:
        """Write into `folder`, to a file whose name begins with `name`."""
        self._folder: Final = Path(folder)
        self._name: Final = name
        self._process: int | None = None
        self._file: FileIO | None = None
        self._torn = False

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Write these spans; a folder that cannot be written, or is full, is warned about once."""
        with _GUARD:
            try:
                self._write(f"{line_of(spans)}\n".encode())
            except OSError as error:
                warn_once("span_file", "spans are lost: cannot write to %s: %s", self._folder, error.strerror)
            else:
                return SpanExportResult.SUCCESS
        return SpanExportResult.FAILURE

    def _write(self, line: bytes) -> None:
        if self._process != os.getpid():
            self._process = os.getpid()
            self._file = None
        if self._file is None:
            self._file = self._open()
        start = b"\n" if self._torn else b""  # A cut line must not take the next one with it.
        self._torn = self._file.write(start + line) < len(start + line)

    def _open(self) -> "FileIO":
        self._folder.mkdir(parents=True, exist_ok=True)
        # A process id is unique on one machine and at one time only; folders are shared by more.
        path = self._folder / f"{self._name.replace(os.sep, '_')}-{self._process}-{os.urandom(4).hex()}.jsonl"
        return path.open("ab", buffering=0)
