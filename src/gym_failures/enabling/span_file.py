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

    Where it is deleted while the process runs, spans go on in a new one.

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
        if self._file is None or _is_deleted(self._file):
            self._file = self._open()
            self._torn = False
        rest = whole = (b"\n" if self._torn else b"") + line  # A cut line must not take the next one with it.
        try:
            while rest:  # A disk takes what it has room for, and refuses the rest.
                rest = rest[self._file.write(rest) :]
        finally:
            if rest is not whole:
                self._torn = bool(rest)

    def _open(self) -> "FileIO":
        self._folder.mkdir(parents=True, exist_ok=True)
        # A process id is unique on one machine and at one time only; folders are shared by more.
        path = self._folder / f"{self._name.replace(os.sep, '_')}-{self._process}-{os.urandom(4).hex()}.jsonl"
        return path.open("ab", buffering=0)


def _is_deleted(file: "FileIO") -> bool:
    """Tell whether nobody would find what is written to an open file, as after its folder has been cleared."""
    try:
        return os.fstat(file.fileno()).st_nlink == 0
    except OSError:  # A file system of another machine may not know it any more.
        return True
