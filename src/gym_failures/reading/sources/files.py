"""Files and texts of lines, opened so that they can be read twice."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO, IOBase
from pathlib import Path
from tempfile import TemporaryFile

from gym_failures.reading.otlp_values import as_bytes

File = str | bytes | os.PathLike[str] | IOBase
"""A path, an open file, or the text itself: a str that begins like JSON is text, and any other str is a path."""


@contextmanager
def opened(source: File) -> Iterator[IOBase]:
    """Open `source` for reading lines, at a place that one can seek back to.

    An open file is read from where it stands and left open; one that cannot seek, such as a pipe, is copied to disk
    first. Raises OSError for a path that cannot be opened.
    """
    if isinstance(source, str) and source.lstrip()[:1] not in {"{", "[", ""}:
        source = Path(source)
    if isinstance(source, os.PathLike):
        with Path(source).open("rb") as file:
            yield file
    elif isinstance(source, str | bytes):
        yield BytesIO(as_bytes(source))
    elif source.seekable():
        yield source
    else:
        with TemporaryFile() as copy:
            copy.writelines(map(as_bytes, source))
            copy.seek(0)
            yield copy
