"""Find an interpreter of a given version that really runs, and print its path.

A name on PATH is no proof: pyenv's shims answer for versions that are installed but not selected, and then fail.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path


def find_python(version: str) -> Path:
    """Return the first working interpreter of `version` ("3.13"): on PATH, of pyenv, or known to uv.

    Raises LookupError when there is none; nothing is ever downloaded.
    """
    tried: list[str] = []
    for candidate in _candidates(version):
        if _runs(candidate, version):
            return candidate
        tried.append(str(candidate))
    message = (
        f"no working Python {version}: install it, or put python{version} on PATH (tried: {tried or 'nothing found'})"
    )
    raise LookupError(message)


def _candidates(version: str) -> Iterator[Path]:
    for folder in os.get_exec_path():
        candidate = Path(folder, f"python{version}")
        if candidate.is_file():
            yield candidate
    pyenv = _output("pyenv", "root")
    if pyenv:
        yield from sorted(Path(pyenv, "versions").glob(f"{version}.*/bin/python"), reverse=True)
    uv = _output("uv", "python", "find", "--no-python-downloads", "--system", version)
    if uv:
        yield Path(uv)


def _runs(candidate: Path, version: str) -> bool:
    return _output(str(candidate), "-c", "import sys; print('%d.%d' % sys.version_info[:2])") == version


def _output(program: str, *arguments: str) -> str:
    """Return what `program` printed, or nothing where it is absent or fails."""
    # Beside this interpreter first: uv is installed in the same environment, which need not be activated.
    path = shutil.which(program, path=os.pathsep.join([str(Path(sys.executable).parent), *os.get_exec_path()]))
    if path is None:
        return ""
    done = subprocess.run([path, *arguments], capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else ""


if __name__ == "__main__":
    try:
        print(find_python(sys.argv[1]))
    except LookupError as error:
        sys.exit(str(error))
