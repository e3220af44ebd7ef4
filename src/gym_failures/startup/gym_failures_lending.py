"""Lend this package, and what it needs and an environment lacks, to a server with an environment of its own.

A server's own packages always come first. Of packages that belong together it gets what is missing only where those
that it has are of the lender's versions, so that it has the lender's whole family or none of it. And it gets anything
only for the very same version and build of Python, because some of it is compiled.
"""

import os
import sys
from importlib.machinery import EXTENSION_SUFFIXES, PathFinder

TYPE_CHECKING = False  # as `typing` has it, which takes time to import
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from importlib.metadata import Distribution, DistributionFinder
    from typing import Any

VARIABLE = "_GYM_FAILURES_LENDER"
"""Holds which build of Python the lender's packages are for, and their folders; from `run` to the servers."""

FAMILIES = {
    "opentelemetry": ("opentelemetry",),
    "pydantic": ("annotated_types", "pydantic", "pydantic_core", "typing_inspection"),
}
"""Modules that belong together. Beneath `opentelemetry` many distributions have their parts."""

OTHERS = (
    "asgiref",
    "certifi",
    "charset_normalizer",
    "deprecated",
    "google",
    "google.api",
    "google.protobuf",
    "google.rpc",
    "gym_failures",
    "idna",
    "importlib_metadata",
    "packaging",
    "requests",
    "typing_extensions",
    "urllib3",
    "wrapt",
    "zipp",
)
"""What this package and OpenTelemetry's need beside their families, as of any version that is supported."""

_BUILD = EXTENSION_SUFFIXES[0].split(".")[1]
"""Version and build of this Python, as the names of compiled modules have it."""

_ASKED = ("gym-failures", "opentelemetry-", "wrapt")
"""How names of distributions begin whose entry points and versions are asked for."""


def offer(folders: "Iterable[str]") -> str:
    """Return the value of the variable by which this Python lends what is in `folders`."""
    return os.pathsep.join([_BUILD, *folders])


def borrow(environ: "Mapping[str, str]") -> "str | None":
    """Let imports find this package and what is missing beside it; return why not if that cannot be."""
    build, *folders = environ.get(VARIABLE, "").split(os.pathsep)
    if not folders:
        return "nothing lends it"
    if build != _BUILD:
        return f"that of `gym-failures run` is for another Python ({build}, not {_BUILD})"
    sys.meta_path.append(Lent(folders))
    return None


class Lent:
    """Finds what is lent when all other finders have failed."""

    def __init__(self, folders: "Iterable[str]") -> None:
        """Lend from `folders`."""
        self._folders = list(folders)
        own, lent = _installed(sys.path), _installed(self._folders)
        self._refused = {}  # type: dict[str, str]
        for family, modules in FAMILIES.items():
            for name, (version, _) in own.items():
                if _is_of(family, modules, name) and name in lent and version != lent[name][0]:
                    self._refused[family] = f"{name} is {version} here and {lent[name][0]} there"
        families = [modules for family, modules in FAMILIES.items() if family not in self._refused]
        self._modules = frozenset(OTHERS).union(*families)
        self._metadata = {
            name: path
            for name, (_, path) in lent.items()
            if name.startswith(_ASKED) and name not in own and not self._is_refused(name)
        }

    def find_spec(self, name: str, path: "Any" = None, target: "Any" = None) -> "Any":  # noqa: ARG002 - as called
        """Find a lent module where the lender has it."""
        *within, _ = name.split(".")
        if name not in self._modules and within[:1] != ["opentelemetry"]:
            return None
        if within[:1] == ["opentelemetry"] and "opentelemetry" not in self._modules:
            self._tell(name)
            return None
        return PathFinder.find_spec(name, [os.path.join(folder, *within) for folder in self._folders])

    def _tell(self, name: str) -> None:
        """Say once why a part of OpenTelemetry that is missing here is not lent, if it is one that tracing needs."""
        if name in {"opentelemetry.instrumentation", "opentelemetry.sdk"} and "" not in self._refused:
            self._refused[""] = "said"
            why = self._refused["opentelemetry"]
            from gym_failures_saying import say  # type: ignore[import-not-found]  # beside this file

            say(f"process {os.getpid()} gets no {name} lent: {why}")

    def find_distributions(self, context: "DistributionFinder.Context") -> "Iterator[Distribution]":
        """Yield what `importlib.metadata` is to know of: OpenTelemetry finds its context and propagators by that."""
        if "path" in vars(context):
            return  # Whoever names folders asks what is installed in them.
        from importlib.metadata import PathDistribution
        from pathlib import Path

        for name, path in self._metadata.items():
            if context.name is None or name == _normal(context.name):
                yield PathDistribution(Path(path))

    def _is_refused(self, distribution: str) -> bool:
        return any(_is_of(family, FAMILIES[family], distribution) for family in self._refused if family)


def _installed(folders: "Iterable[str]") -> "dict[str, tuple[str, str]]":
    """Return the versions and the metadata's places of distributions, by name; of two of a name the first counts.

    By the names of folders: to read the metadata of hundreds of distributions takes longer than the rest of a start.
    """
    found = {}  # type: dict[str, tuple[str, str]]
    for folder in folders:
        try:
            entries = os.listdir(folder)
        except OSError:
            continue  # an archive, or not there
        for entry in entries:
            name, dash, version = entry.partition("-")
            if dash and version.endswith(".dist-info"):
                found.setdefault(_normal(name), (version[: -len(".dist-info")], os.path.join(folder, entry)))
    return found


def _is_of(family: str, modules: "Iterable[str]", distribution: str) -> bool:
    return distribution.startswith(family + "-") or distribution.replace("-", "_") in modules


def _normal(distribution: str) -> str:
    return distribution.lower().replace("_", "-").replace(".", "-")
