"""The middleware's parts put into a Starlette or FastAPI app, each where it has to stand.

The outer part stands round the app's `__call__`, because replies to exceptions that nobody handled are made outside of
every middleware that can be added. One inner part stands innermost, another outermost of the added middleware. No
element of the app's stack is replaced, so OpenTelemetry's instrumentation finds what it expects, in either order.
"""

import functools
from collections.abc import Callable
from types import MethodType
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakValueDictionary

from gym_failures.guard import Guard
from gym_failures.instrumentation.asgi.exchange import SCOPE_KEY
from gym_failures.instrumentation.asgi.middleware import FailureMiddleware, InnerPart
from gym_failures.instrumentation.asgi.request_log import Operation, Stage
from gym_failures.instrumentation.asgi.scope import Receive, Scope, Send
from gym_failures.kinds import FailureBoundary
from gym_failures.recorder import FailureRecorder

if TYPE_CHECKING:
    from starlette.applications import Starlette

_OUTER: Final = "_gym_failures"
"""Where an instrumented app holds its outer part."""
_OPENTELEMETRY: Final = "opentelemetry.instrumentation."

_GUARD: Final = Guard("asgi")

# By identity, because a subclass may be without a hash.
_instrumented: Final[WeakValueDictionary[int, Any]] = WeakValueDictionary()
_automatically: Final[WeakValueDictionary[int, Any]] = WeakValueDictionary()
_left_alone: Final[WeakValueDictionary[int, Any]] = WeakValueDictionary()
_every_app: dict[str, Any] | None = None
# `Starlette.__call__` as it was, and what stands there instead.
_original: Callable[..., Any] | None = None
_patched: Callable[..., Any] | None = None


def instrument_app(
    app: "Starlette",
    *,
    boundary: FailureBoundary | str,
    stage: Stage = None,
    recorder: FailureRecorder | None = None,
    operation: Operation = None,
) -> None:
    """Put `FailureMiddleware` and its inner parts into a Starlette or FastAPI app; the last call for an app counts.

    Works before and after other middleware is added, OpenTelemetry's instrumentation is applied, and the app has
    started. In an app that has started, the stack of middleware is built anew, for the requests to come. An app that is
    mounted in an instrumented one shares its log and its boundary. The arguments are those of `FailureMiddleware`.
    Raises TypeError for an app of another framework: wrap that in `FailureMiddleware`.
    """
    from starlette.applications import Starlette  # noqa: PLC0415 - whoever has such an app has it

    if not isinstance(app, Starlette):
        raise TypeError(
            f"not a Starlette or FastAPI app: {type(app).__qualname__}; wrap it in FailureMiddleware instead"
        )
    inner = MethodType(_original or Starlette.__call__, app)
    outer = FailureMiddleware(inner, boundary=boundary, stage=stage, recorder=recorder, operation=operation)
    _patch()
    app.__dict__[_OUTER] = outer
    _instrumented[id(app)] = app
    _place(app)


def uninstrument_app(app: "Starlette") -> None:
    """Take out of `app` what `instrument_app` put in; an app without it stays as it is."""
    if app.__dict__.pop(_OUTER, None) is None:
        return
    _instrumented.pop(id(app), None)
    _automatically.pop(id(app), None)
    _set_middleware(app, _without_ours(app))
    _unpatch()


def is_instrumented(app: object) -> bool:
    """Tell whether `instrument_app`, or `instrument_all_apps` at the app's first use, was here."""
    return id(app) in _instrumented


def instrument_all_apps(
    *, boundary: FailureBoundary | str, stage: Stage = None, recorder: FailureRecorder | None = None
) -> None:
    """Instrument every Starlette and FastAPI app of this process at its first use, unless it is already.

    It makes no difference whether an app exists yet. The arguments are those of `instrument_app`.
    """
    global _every_app  # noqa: PLW0603 - one choice a process
    FailureMiddleware(_nothing, boundary=boundary, stage=stage, recorder=recorder)  # Raises what would be wrong later.
    _every_app = {"boundary": boundary, "stage": stage, "recorder": recorder}
    _patch()


def leave_app_alone(app: "Starlette") -> None:
    """Keep `instrument_all_apps` from an app: one that takes no part in the work, and whose 503 is no failure of it."""
    _left_alone[id(app)] = app


def uninstrument_all_apps() -> None:
    """Undo `instrument_all_apps`, in the apps that it has reached too; others stay instrumented."""
    global _every_app  # noqa: PLW0603 - one choice a process
    _every_app = None
    for app in list(_automatically.values()):
        uninstrument_app(app)
    _unpatch()


async def _nothing(scope: Scope, receive: Receive, send: Send) -> None:
    """Stand for an app that does not exist yet."""


def _patch() -> None:
    """Let every Starlette app look for its outer part when it is called."""
    global _original, _patched  # noqa: PLW0603 - one class a process
    if _original is not None:
        return
    from starlette.applications import Starlette  # noqa: PLC0415 - only where there is one

    _original = original = Starlette.__call__

    @functools.wraps(original)
    async def call(self: Starlette, scope: Scope, receive: Receive, send: Send) -> None:
        outer = self.__dict__.get(_OUTER)
        if outer is None and _every_app is not None:
            outer = _instrument_late(self, scope)
        if outer is None:
            await original(self, scope, receive, send)
            return
        if self.middleware_stack is None:
            with _GUARD:
                _place(self)  # Middleware may have been added since.
        await outer(scope, receive, send)

    Starlette.__call__ = _patched = call  # type: ignore[method-assign]


def _unpatch() -> None:
    """Put `Starlette.__call__` back when no app needs ours, unless another package has wrapped it since."""
    global _original  # noqa: PLW0603 - one class a process
    if _original is None or _every_app is not None or len(_instrumented):
        return
    from starlette.applications import Starlette  # noqa: PLC0415 - only where there is one

    if Starlette.__call__ is _patched:
        Starlette.__call__ = _original  # type: ignore[method-assign]
        _original = None


def _instrument_late(app: "Starlette", scope: Scope) -> FailureMiddleware | None:
    """Instrument an app at its first use, if it is no mounted part of another one and not to be left alone."""
    if SCOPE_KEY in scope or scope["type"] not in {"http", "lifespan"} or _every_app is None or id(app) in _left_alone:
        return None
    with _GUARD:
        instrument_app(app, **_every_app)
        _automatically[id(app)] = app
    outer: FailureMiddleware | None = app.__dict__.get(_OUTER)
    return outer


def _place(app: "Starlette") -> None:
    """Put the inner parts in their places: outermost but for OpenTelemetry's middleware, and innermost.

    Versions of its instrumentation before 0.55b0 add their middleware like everyone else.
    """
    from starlette.middleware import Middleware  # noqa: PLC0415 - only where there is one

    others = _without_ours(app)
    first = 1 + max((index for index, one in enumerate(others) if _is_opentelemetry(one)), default=-1)
    outermost: Any = Middleware(InnerPart, span_ends_outside=functools.partial(_has_opentelemetry, app))
    innermost: Any = Middleware(InnerPart)
    placed = [*others[:first], outermost, *others[first:], innermost]
    if all(_is_opentelemetry(one) for one in others):
        placed.pop()  # Nothing stands between that could hide an exception, or send its reply from another task.
    if [one.cls for one in placed] != [one.cls for one in app.user_middleware]:
        _set_middleware(app, placed)


def _without_ours(app: "Starlette") -> list[Any]:
    middleware: list[Any] = app.user_middleware
    return [one for one in middleware if one.cls is not InnerPart]


def _set_middleware(app: "Starlette", middleware: list[Any]) -> None:
    app.user_middleware[:] = middleware
    if app.middleware_stack is not None:
        app.middleware_stack = app.build_middleware_stack()


def _is_opentelemetry(middleware: Any) -> bool:  # noqa: ANN401 - Starlette's own class, which differs with its version
    return str(getattr(middleware.cls, "__module__", "")).startswith(_OPENTELEMETRY)


def _has_opentelemetry(app: "Starlette") -> bool:
    return any(_is_opentelemetry(one) for one in app.user_middleware)
