"""Lend this package, and what it needs and an environment lacks, to a server with an environment of its own.

A server's own packages always come first. It gets a family of packages that belong together whole, or not at all, and
everything only for the very same version and build of Python, because some of it is compiled.
"""

import os
import sys
from importlib.machinery import EXTENSION_SUFFIXES, PathFinder
from importlib.util import find_spec

TYPE_CHECKING = False  # as `typing` has it, which takes time to import
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from importlib.metadata import Distribution, DistributionFinder
    from typing import Any

VARIABLE = "_GYM_FAILURES_LENDER"
"""Holds which build of Python the lender's packages are for, and their folders; from `run` to the servers."""

FAMILIES = (
    ("opentelemetry",),
    ("pydantic", "annotated_types", "pydantic_core", "typing_inspection"),
    ("requests", "certifi", "charset_normalizer", "idna", "urllib3"),
    ("google.protobuf",),
    ("google.rpc",),
    ("google.api",),
    ("asgiref",),
    ("deprecated",),
    ("importlib_metadata",),
    ("packaging",),
    ("typing_extensions",),
    ("wrapt",),
    ("zipp",),
)
"""Modules that belong together: a family is lent where none of its modules is there."""

_DISTRIBUTIONS = ("gym-failures", "opentelemetry-", "wrapt")
"""How names of distributions begin whose entry points and versions are asked for."""


def offer(folders: "Iterable[str]") -> str:
    """Return the value of the variable by which this Python lends what is in `folders`."""
    return os.pathsep.join([EXTENSION_SUFFIXES[0], *folders])


def borrow(environ: "Mapping[str, str]") -> "str | None":
    """Let imports find this package and what is missing beside it; return why not if that cannot be."""
    build, *folders = environ.get(VARIABLE, "").split(os.pathsep)
    if not folders:
        return "nothing lends it"
    if build != EXTENSION_SUFFIXES[0]:
        return f"that of `gym-failures run` is for another Python ({build}, not {EXTENSION_SUFFIXES[0]})"
    lent = {"gym_failures"}
    for family in FAMILIES:
        if not any(_is_here(name) for name in family):
            lent.update(family)
    if any(name.startswith("google.") for name in lent) and not _is_here("google"):
        lent.add("google")
    if sys.meta_path[-1:] and not isinstance(sys.meta_path[-1], Lent):
        sys.meta_path.append(Lent(folders, lent))
    return None


def _is_here(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError:  # not even the package that it is in
        return False


class Lent:
    """Finds the modules that are lent, after all other finders; what is in a package is found by the package's path."""

    def __init__(self, folders: "Iterable[str]", names: "Iterable[str]") -> None:
        self.folders = list(folders)
        self.names = frozenset(names)

    def find_spec(self, name: str, path: "Any" = None, target: "Any" = None) -> "Any":  # noqa: ARG002 - as called
        """Find a lent module where the lender has it."""
        if name not in self.names:
            return None
        within = name.split(".")[:-1]
        return PathFinder.find_spec(name, [os.path.join(folder, *within) for folder in self.folders])

    def find_distributions(self, context: "DistributionFinder.Context") -> "Iterator[Distribution]":
        """Yield what `importlib.metadata` is to know of: OpenTelemetry finds its context and propagators by that."""
        if "path" in vars(context):
            return  # Whoever names folders asks what is installed in them.
        from importlib.metadata import DistributionFinder, MetadataPathFinder

        everything = DistributionFinder.Context(name=context.name, path=self.folders)
        for distribution in MetadataPathFinder.find_distributions(everything):
            name = (distribution.metadata["Name"] or "").lower().replace("_", "-")
            if name.startswith(_DISTRIBUTIONS) and self._lends(name):
                yield distribution

    def _lends(self, distribution: str) -> bool:
        head = distribution.partition("-")[0]
        return "gym_failures" in self.names if head == "gym" else head in self.names
