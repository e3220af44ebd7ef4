"""Runs when Python starts, for `gym-failures run` puts this folder first on the path; then runs the next of its name.

It must work with the standard library alone, on versions of Python older than ours too.
"""

import os
import sys


def _begin() -> None:
    try:
        import gym_failures_hook  # type: ignore[import-not-found]  # beside this file, which is on the path as it runs

        gym_failures_hook.install()
    except Exception as error:  # noqa: BLE001 - the program must start
        from gym_failures_saying import say  # type: ignore[import-not-found]  # beside this file

        say(f"not active in this process: {type(error).__name__}")


def _hand_over() -> None:
    """Run the sitecustomize module that would have been found without us, under its own name, and let it raise."""
    # Another installation's copy of this file can be next, and this one after it: each of them passes all on the way.
    passed = sys.__dict__.setdefault("_gym_failures_passed", set())
    passed.add(os.path.dirname(os.path.abspath(__file__)))
    from importlib.machinery import PathFinder

    spec = PathFinder.find_spec(
        "sitecustomize", [folder for folder in sys.path if os.path.abspath(folder) not in passed]
    )
    if spec is None or spec.loader is None:
        return
    from importlib.util import module_from_spec

    module = sys.modules[__name__] = module_from_spec(spec)
    spec.loader.exec_module(module)


_begin()
_hand_over()
