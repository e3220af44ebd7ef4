"""Check an installed copy of the package: `python -I tools/smoke.py [--bare]`.

`--bare` is for an environment that holds nothing else: there only what needs the standard library alone must import.
"""

import sys
from importlib import import_module, metadata, resources

BARE = ["gym_failures", "gym_failures.kinds", "gym_failures.limits", "gym_failures.semconv"]


def main(*arguments: str) -> None:
    """Import what must import here and compare it with what the distribution says of itself; AssertionError if not."""
    for module in BARE:
        import_module(module)
    package = import_module("gym_failures")
    distribution = metadata.distribution("gym-failures")
    _must(distribution.version == package.__version__, "the version of the metadata is that of the code")
    _must(resources.files(package).joinpath("py.typed").is_file(), "the types are public: py.typed is in the wheel")
    _must(distribution.metadata["License-Expression"] == "Apache-2.0", "the licence is named")
    _must(bool([f for f in distribution.files or [] if f.name == "LICENSE"]), "the licence text is in the wheel")
    if "--bare" not in arguments:
        for name in package.__all__:
            getattr(package, name)
    print(f"gym-failures {package.__version__} imports from {package.__file__}")


def _must(holds: bool, rule: str) -> None:  # noqa: FBT001 - read as a sentence
    if not holds:
        sys.exit(f"not so: {rule}")


if __name__ == "__main__":
    main(*sys.argv[1:])
