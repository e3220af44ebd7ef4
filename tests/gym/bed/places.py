"""What is hooked, in the real package; it runs in NeMo Gym's environment.

Writes, for each place, the parameters of the function there and of what is put round it, to the file that is named.
"""

import importlib
import inspect
import json
import sys
from pathlib import Path

from gym_failures.instrumentation import nemo_gym


def named(function):
    """Return the parameters that a function has names for, in order; a bound one is called `self`."""
    parameters = inspect.signature(function, follow_wrapped=False).parameters.values()
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return [parameter.name for parameter in parameters if parameter.kind in kinds]


def places():
    """Yield every place that is hooked: its name, the function there, what is put round it, and whether it is bound."""
    for module, groups in nemo_gym._GROUPS.items():
        for group in groups:
            for hook in importlib.import_module(f"{nemo_gym.__name__}.{group}").HOOKS[module]:
                owner = importlib.import_module(module)
                *holder, name = hook._place.split(".")
                for part in holder:
                    owner = getattr(owner, part)
                function = vars(owner)[name]
                yield f"{module}: {hook._place}", function, hook._wrap(function), bool(holder)


found = {}
for place, function, ours, bound in places():
    theirs, named_by_us = named(function), named(ours)
    found[place] = {"theirs": theirs[bound:], "ours": named_by_us[bound:] if named_by_us else []}
Path(sys.argv[1]).write_text(json.dumps(found))
