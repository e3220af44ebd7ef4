"""Names of files as people give them: a file, a folder, or a pattern."""

from collections.abc import Iterable, Iterator
from glob import glob, has_magic
from pathlib import Path
from typing import Final

SUFFIXES: Final = (".jsonl", ".gz", ".zst", ".pb")
"""How names of stored spans end; of a folder only such files are taken."""


class NothingThereError(Exception):
    """A folder or a pattern stands for no file; its text says which."""


def expanded(paths: Iterable[Path]) -> list[Path]:
    """Return the files that `paths` stand for, each once.

    A folder stands for the files in it whose names end in one of `SUFFIXES`, in the order of their names. What is not
    there and holds `*`, `?` or `[` is a pattern as of a shell, whose `**` is any number of folders. Anything else
    stands for itself, whether it is there or not. Raises NothingThereError.
    """
    return list(dict.fromkeys(file for path in paths for file in _files(path)))


def _files(path: Path) -> Iterator[Path]:
    if path.is_dir():
        found = sorted(file for file in path.iterdir() if file.name.endswith(SUFFIXES) and file.is_file())
        if not found:
            raise NothingThereError(f"{path}: no file in this folder ends in {', '.join(SUFFIXES)}")
    elif has_magic(str(path)) and not path.exists():
        found = [Path(name) for name in sorted(glob(str(path), recursive=True)) if not Path(name).is_dir()]  # noqa: PTH207 - Path.glob refuses a pattern that begins at the root
        if not found:
            raise NothingThereError(f"{path}: no file is like this")
    else:
        found = [path]
    yield from found
