"""Names of files as people give them: a file, a folder, or a pattern."""

from collections.abc import Iterable, Iterator
from glob import glob, has_magic
from pathlib import Path
from typing import Final

SUFFIXES: Final = (".jsonl", ".gz", ".zst", ".pb")
"""How names of stored spans end; of a folder only such files are taken."""


SPANS: Final = "spans"
"""The folder of a run that holds its traces, as the demo leaves it; its other folders hold other things."""
_NAMED: Final = 3
"""Most folders that an error names."""


class NothingThereError(Exception):
    """A folder or a pattern stands for no file; its text says which."""


def expanded(paths: Iterable[Path]) -> list[Path]:
    """Return the files that `paths` stand for, each once.

    A folder stands for the files in it whose names end in one of `SUFFIXES`, in the order of their names; where it has
    none, for those of the folder `SPANS` in it. No other folder is looked into. What is not there and holds `*`, `?` or
    `[` is a pattern as of a shell, whose `**` is any number of folders. Anything else stands for itself, whether it is
    there or not. Raises NothingThereError.
    """
    return list(dict.fromkeys(file for path in paths for file in _files(path)))


def _files(path: Path) -> Iterator[Path]:
    if path.is_dir():
        found = _in_folder(path) or _in_folder(path / SPANS)
        if not found:
            raise NothingThereError(f"{path}: no file in this folder ends in {', '.join(SUFFIXES)}{_beneath(path)}")
    elif has_magic(str(path)) and not path.exists():
        found = [Path(name) for name in sorted(glob(str(path), recursive=True)) if not Path(name).is_dir()]  # noqa: PTH207 - Path.glob refuses a pattern that begins at the root
        if not found:
            raise NothingThereError(f"{path}: no file is like this")
    else:
        found = [path]
    yield from found


def _in_folder(path: Path) -> list[Path]:
    """Return the files of spans in a folder; none where there is no such folder."""
    if not path.is_dir():
        return []
    return sorted(file for file in path.iterdir() if file.name.endswith(SUFFIXES) and file.is_file())


def _beneath(path: Path) -> str:
    """Return which folders in this one have files of spans, as the end of a sentence."""
    names = glob("*/*", root_dir=path)  # noqa: PTH207 - passes over folders that nobody may look into
    files = [path / name for name in names]
    folders = sorted({str(file.parent) for file in files if file.name.endswith(SUFFIXES)})
    if not folders:
        return ""
    return f"; there are some in {', '.join(folders[:_NAMED])}{' and more' if len(folders) > _NAMED else ''}"
