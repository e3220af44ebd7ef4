"""How an object of someone else's is looked at: it has no say in what becomes of the program."""

from collections.abc import Callable
from typing import ParamSpec, TypeGuard, TypeVar

_P = ParamSpec("_P")
_R = TypeVar("_R")
_T = TypeVar("_T")


def look(read: Callable[_P, _R], *args: _P.args, **kwargs: _P.kwargs) -> _R | None:
    """Return what `read` finds on a foreign object, or None when its code raises.

    That may be anything, such as a property's SystemExit, which only our look would bring about. KeyboardInterrupt
    alone passes: it comes from outside, at any place, and a program that is asked to stop must.
    """
    try:
        return read(*args, **kwargs)
    except KeyboardInterrupt:
        raise
    except BaseException:  # noqa: BLE001 - see above
        return None


def is_really(value: object, kind: type[_T]) -> TypeGuard[_T]:
    """Tell whether a foreign object is a `kind` by its own type, where `isinstance` would ask its `__class__` too.

    A lazy proxy computes `__class__`, and raises there when it stands for nothing.
    """
    return issubclass(type(value), kind)


def attribute(source: object, name: str) -> object | None:
    """Return an attribute of a foreign object, or None when it has none or reading it raises; as `look` does it."""
    try:
        return getattr(source, name, None)
    except KeyboardInterrupt:
        raise
    except BaseException:  # noqa: BLE001 - see `look`
        return None
