"""Wrap a method of someone else's class, beneath the wrappers of others, and take the wrapper away again.

OpenTelemetry's instrumentation wraps the same methods. Beneath its wrapper its span is current, whoever came first; and
when either of the two is taken away the other one stays.
"""

import sys
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

from gym_failures.guard import warn_once

Method = Callable[..., Any]


def wrap_method(owner: type | ModuleType, name: str, wrap: Callable[[Method], Method]) -> Callable[[], None]:
    """Put ``wrap(method)`` in the place of the method `name` of `owner`, and return what undoes that.

    `owner` may be a module, and the method a function of it.

    A method that is not there, as in a version that we do not know, is warned about once and left out. What undoes
    leaves a wrapper where another package holds on to it; the wrapper itself has to know that it is no longer wanted.
    """
    layers = list(_layers(owner.__dict__.get(name)))
    if not layers:
        warn_once(f"patch:{owner.__name__}.{name}", "%s has no %s; what shows there is not seen", owner, name)
        return lambda: None
    outer, method = layers[-1]
    ours = wrap(method)
    _put(ours, owner, name, outer)

    def undo() -> None:
        for outer, inner in _layers(owner.__dict__.get(name)):
            if inner is ours:
                _put(method, owner, name, outer)
                return

    return undo


def _layers(method: Any) -> Iterator[tuple[Any, Any]]:  # noqa: ANN401 - wrapt's wrappers, which may not be installed
    """Yield what stands at a method's place and each function below it, with the wrapper that holds it (None: none).

    Only wrappers made by wrapt are looked into: those ask for what they wrap at each call, so it can be replaced.
    """
    wrapt = sys.modules.get("wrapt")
    outer = None
    while method is not None:
        yield outer, method
        if wrapt is None or not isinstance(method, wrapt.FunctionWrapper):
            return
        outer, method = method, method.__wrapped__


def _put(method: Method, owner: type | ModuleType, name: str, outer: Any) -> None:  # noqa: ANN401 - as above
    if outer is None:
        setattr(owner, name, method)
    else:
        outer.__wrapped__ = method
