"""Wait until a program imports what a server or a client of NeMo Gym is made of, and switch tracing on then.

This runs in every Python process below `gym-failures run`, most of which are none of those. So nothing is imported
before, nothing is borrowed before, and only the standard library is needed, that of older versions of Python too.
"""

import os
import sys

TYPE_CHECKING = False  # as `typing` has it, which takes longer to import than all of this
if TYPE_CHECKING:
    from typing import Any

AWAITED = frozenset({"aiohttp", "fastapi", "nemo_gym", "starlette.applications"})
"""Modules whose import switches tracing on; what one of them imports in turn is there by then."""

_PARTS_OF_RAY = frozenset({"_private", "autoscaler", "core", "dashboard", "scripts", "serve", "util"})
"""Folders of the package `ray` that hold programs: its workers, dashboards and monitors."""


_NEEDED = (
    "gym_failures",
    "opentelemetry.exporter.otlp.proto.http",
    "opentelemetry.instrumentation.aiohttp_client",
    "opentelemetry.instrumentation.fastapi",
    "opentelemetry.sdk",
    "pydantic_core",  # which a pydantic that is too old does not have
    "wrapt",
)
"""What a process is traced with."""

_OFF = "_GYM_FAILURES_OFF"
"""Is set in a process whose children are to be left alone too."""


def install() -> None:
    """Await the modules, once in a process and not in one of Ray's own."""
    part = _part_of_ray()
    if part == "dashboard":
        os.environ[_OFF] = (
            "1"  # It starts helpers by `multiprocessing`, and nothing tells those from a server's workers.
        )
    if part or _OFF in os.environ or any(isinstance(finder, _Awaiting) for finder in sys.meta_path):
        return
    if not AWAITED.isdisjoint(sys.modules):  # a `.pth` file of the environment was earlier
        begin()
    else:
        sys.meta_path.insert(0, _Awaiting())  # by its shape: the class to inherit takes time to import


def begin() -> None:
    """Switch tracing on; where that cannot be done, say so in one line and let the program run on without."""
    try:
        missing = _missing()
        if missing is None:
            from gym_failures.enabling import enable

            enable()
            return
    except ImportError as error:
        missing = f"{error.name or error} is not installed here"
    except Exception as error:  # noqa: BLE001 - the program must run on
        missing = f"{type(error).__name__}: {error}"
    from gym_failures_saying import say  # type: ignore[import-not-found]  # beside this file

    say(f"not active in process {os.getpid()}: {missing}")


def _missing() -> "str | None":
    """Have what is missing here borrowed; return why this package cannot be had, None if it can."""
    if all(_is_here(name) for name in _NEEDED):
        return None
    import gym_failures_lending  # type: ignore[import-not-found]  # beside this file

    reason = gym_failures_lending.borrow(os.environ)
    if reason is not None and not _is_here("gym_failures"):
        return f"it is not installed here, and {reason}"
    # Of a family that does not fit nothing is lent, and records are not made before the first request.
    if _is_here("pydantic_core"):
        return None
    return "pydantic is too old here" if _is_here("pydantic") else "pydantic is not installed here"


def _is_here(name: str) -> bool:
    from importlib.util import find_spec

    try:
        return find_spec(name) is not None
    except ModuleNotFoundError:  # not even the package that it is in
        return False


def _part_of_ray() -> str:
    """Return which part of Ray this process is, by its script or module; empty for a program that is not of Ray."""
    program = sys.argv[0] if getattr(sys, "argv", None) else ""
    given = getattr(sys, "orig_argv", [])
    if program == "-m" and "-m" in given[:-1]:
        package, part = [*given[given.index("-m") + 1].split("."), ""][:2]
        return part if package == "ray" and part in _PARTS_OF_RAY else ""
    parts = program.replace(os.sep, "/").split("/")
    if parts[-1] == "ray":
        return "scripts"  # the command
    folders = (at for at, part in enumerate(parts) if part in _PARTS_OF_RAY and parts[at - 1] == "ray" and at)
    # The home folder in images of Ray has that name too, and is no package.
    return next((parts[at] for at in folders if os.path.exists("/".join([*parts[:at], "__init__.py"]))), "")


class _Awaiting:
    """Finds nothing itself: it has modules that are awaited loaded as ever, and acts when that is done."""

    def __init__(self) -> None:
        self._asking = set()  # type: set[str]
        self._loading = 0
        self._loaded = False
        self._over = False

    def find_spec(self, name: str, path: "Any" = None, target: "Any" = None) -> "Any":
        if name not in AWAITED or self._over or name in self._asking:
            return None
        self._asking.add(name)
        try:
            found = (finder.find_spec(name, path, target) for finder in sys.meta_path if hasattr(finder, "find_spec"))
            spec = next((spec for spec in found if spec is not None), None)
        finally:
            self._asking.discard(name)
        if spec is not None and hasattr(spec.loader, "exec_module"):
            spec.loader = _Loader(spec.loader, self._load)  # type: ignore[assignment]  # by its shape
        return spec

    def _load(self, loader: "Any", module: "Any") -> None:
        self._loading += 1
        try:
            loader.exec_module(module)
            self._loaded = True
        finally:
            self._loading -= 1
            # Not within another one, which is not whole yet. Where that one fails, what it has loaded is there.
            if self._loaded and not self._loading and not self._over:
                self._over = True
                begin()


class _Loader:
    """Stands for a loader until its module is being loaded, and leaves no trace on that."""

    def __init__(self, loader: "Any", load: "Any") -> None:
        self._loader = loader
        self._load = load

    def __getattr__(self, name: str) -> "Any":
        return getattr(self._loader, name)

    def create_module(self, spec: "Any") -> "Any":
        create = getattr(self._loader, "create_module", None)  # it may be left out
        return None if create is None else create(spec)

    def exec_module(self, module: "Any") -> None:
        module.__spec__.loader = module.__loader__ = self._loader
        self._load(self._loader, module)
