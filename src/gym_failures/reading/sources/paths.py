"""Names of files as people give them: a file, a folder, or a pattern."""

import re
from collections.abc import Iterable, Iterator
from glob import glob, has_magic
from pathlib import Path
from typing import Final

from gym_failures import limits

SUFFIXES: Final = (".jsonl", ".gz", ".zst", ".pb")
"""How names of stored spans end; of a folder only such files are taken."""
JSON: Final = ".json"
"""How some others end, but much else too: of a folder such a file is taken if it begins like traces."""
_TRACES: Final = re.compile(rb'"(?:traceID|resource_?[sS]pans)"\s*:')
"""Where a text begins, if it is traces: those of OTLP, or of Jaeger."""

SPANS: Final = "spans"
"""The folder of a run that holds its traces, as the demo leaves it; its other folders hold other things."""
_NAMED: Final = 3
"""Most folders that an error names."""


class NothingThereError(Exception):
    """A folder or a pattern stands for no file; its text says which."""


def expanded(paths: Iterable[Path]) -> list[Path]:
    """Return the files that `paths` stand for, each once.

    A folder stands for the files in it whose names end in one of `SUFFIXES`, or in `JSON` if they begin like traces, in
    the order of their names; where it has none, for those of the folder `SPANS` in it. No other folder is looked into.
    What is not there and holds `*`, `?` or `[` is a pattern as of a shell, whose `**` is any number of folders.
    Anything else stands for itself, whether it is there or not. Raises NothingThereError.
    """
    return list(dict.fromkeys(file for path in paths for file in _files(path)))


def _files(path: Path) -> Iterator[Path]:
    if path.is_dir():
        found = _in_folder(path) or _in_folder(path / SPANS)
        if not found:
            ends = f"{', '.join(SUFFIXES)}, or in {JSON} with traces in it"
            raise NothingThereError(f"{path}: no file in this folder ends in {ends}{_beneath(path)}")
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
    return sorted(file for file in path.iterdir() if _is_of_spans(file))


def _is_of_spans(path: Path) -> bool:
    if not path.name.endswith((*SUFFIXES, JSON)):
        return False
    try:
        return path.is_file() and (path.name.endswith(SUFFIXES) or _begins_like_traces(path))
    except OSError:
        return True  # Whoever reads it says what is wrong.


def _begins_like_traces(path: Path) -> bool:
    with path.open("rb") as file:
        return _TRACES.search(file.read(limits.RECOGNISED_START)) is not None


def _beneath(path: Path) -> str:
    """Return which folders in this one have files of spans, as the end of a sentence."""
    names = glob("*/*", root_dir=path)  # noqa: PTH207 - passes over folders that nobody may look into
    folders = sorted({str(file.parent) for file in map(path.joinpath, names) if _is_of_spans(file)})
    if not folders:
        return ""
    return f"; there are some in {', '.join(folders[:_NAMED])}{' and more' if len(folders) > _NAMED else ''}"
