"""How functions of NeMo Gym are wrapped: when their module is imported, each by itself, and taken away again."""

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from types import ModuleType
from typing import Final

from wrapt import register_post_import_hook

from gym_failures.guard import Guard, warn_once
from gym_failures.patching import Method, wrap_method

_GUARD: Final = Guard("nemo_gym")

Wrap = Callable[[Method], Method]


class Hook:
    """One function that is wrapped: its place in a module, and what is put round it.

    `place` is the name of a function, or of a class and its method with a dot between. What is put round it calls each
    parameter, but the one that is bound, as the function does. What is not there, as in a version that we do not know,
    is said once, and costs only what this hook gives.
    """

    __slots__ = ("_place", "_wrap")

    def __init__(self, place: str, wrap: Wrap) -> None:
        """Name the place; `wrap` gets the function and returns what stands there instead."""
        self._place: Final = place
        self._wrap: Final = wrap

    def apply(self, module: ModuleType) -> Callable[[], None]:
        """Wrap the function in `module`, and return what undoes that."""
        holder, _, name = self._place.rpartition(".")
        owner = getattr(module, holder, None) if holder else module
        if not isinstance(owner, type | ModuleType):
            warn_once(f"nemo_gym:{self._place}", "%s has no %s; what shows there is not seen", module.__name__, holder)
            return lambda: None
        return wrap_method(owner, name, self._wrap)


class Hooks:
    """The hooks of a process, by module. A module is never imported for their sake."""

    def __init__(self, package: str, groups: Mapping[str, Sequence[str]]) -> None:
        """Take the names of the modules of `package` whose HOOKS, by module, hold those of each module."""
        self._package: Final = package
        self._groups: Final = groups
        self._awaited: Final[set[str]] = set()
        self._undo: Final[dict[str, list[Callable[[], None]]]] = {}
        self._is_on = False

    def install(self) -> None:
        """Wrap what is in the modules that are imported already, and in the others when they are; once."""
        if self._is_on:
            return
        self._is_on = True
        for name in self._groups:
            if name in sys.modules:
                self._apply(sys.modules[name])
            elif name not in self._awaited:
                self._awaited.add(name)
                register_post_import_hook(self._apply, name)

    def uninstall(self) -> None:
        """Put everything back, and leave alone what is imported from now on."""
        self._is_on = False
        while self._undo:
            _, undo = self._undo.popitem()
            for one in reversed(undo):
                one()

    def _apply(self, module: ModuleType) -> None:
        if not self._is_on or module.__name__ in self._undo:
            return
        undo = self._undo[module.__name__] = []
        for group in self._groups[module.__name__]:
            with _GUARD:
                hooks = import_module(f"{self._package}.{group}").HOOKS[module.__name__]
                undo.extend(hook.apply(module) for hook in hooks)
