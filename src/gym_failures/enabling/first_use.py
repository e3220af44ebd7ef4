"""When a process first needs to be traced: an app is called, a client's session is made, a first span is near.

Nothing is imported before that, and a program has until its first request to set up a provider of its own.
"""

import functools
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any, Final

from wrapt import register_post_import_hook

from gym_failures.enabling.tracing import Tracing
from gym_failures.guard import Guard
from gym_failures.patching import Method, wrap_method

_GUARD: Final = Guard("first_use")


def watch(tracing: Tracing) -> None:
    """Have `tracing` do each part at its time, in libraries that are imported already and in those that will be."""

    def hook(watched: Callable[[ModuleType, Tracing], None]) -> Callable[[ModuleType], None]:
        def imported(module: ModuleType) -> None:
            with _GUARD:
                watched(module, tracing)

        return imported

    register_post_import_hook(hook(_watch_starlette), "starlette.applications")
    register_post_import_hook(hook(_watch_fastapi), "fastapi.applications")
    register_post_import_hook(hook(_watch_sessions), "aiohttp")


def _watch_starlette(module: ModuleType, tracing: Tracing) -> None:
    def is_seen_before(app: object) -> bool:
        fastapi = sys.modules.get("fastapi.applications")
        return fastapi is not None and isinstance(app, fastapi.FastAPI)

    _watch_apps(module.Starlette, tracing, unless=is_seen_before, again=True)


def _watch_fastapi(module: ModuleType, tracing: Tracing) -> None:
    # Newer versions prepare the app's first request before they call what they inherit from Starlette. That is looked
    # up when it is called, so whatever has been put around it by then is reached.
    _watch_apps(module.FastAPI, tracing, unless=lambda _: False, again=False)


def _watch_apps(kind: type, tracing: Tracing, *, unless: Callable[[object], bool], again: bool) -> None:
    """Watch the calls of apps of a kind; `again` if the first has to begin anew once there is more around it."""

    def wrap(original: Method) -> Method:
        @functools.wraps(original)
        async def call(self: Any, scope: Any, receive: Any, send: Any) -> None:  # noqa: ANN401 - of whatever version
            if unless(self) or scope.get("app", self) is not self:  # mounted in another app, which has been here
                await original(self, scope, receive, send)
                return
            if tracing.instrument() and again:
                await kind.__call__(self, scope, receive, send)
                return
            if self.middleware_stack is None:
                tracing.instrument_app(self)
            if scope["type"] == "lifespan":
                await original(self, scope, receive, _followed(send, tracing))
                return
            tracing.set_up()
            request = object()
            tracing.requests.add(request)
            try:
                await original(self, scope, receive, send)
            finally:
                tracing.requests.discard(request)

        return call

    wrap_method(kind, "__call__", wrap)


def _followed(send: Any, tracing: Tracing) -> Any:  # noqa: ANN401 - ASGI has no types
    """Return `send` for an app's lifespan: after its beginning come the requests, and after its end comes nothing."""

    async def sending(message: Any) -> None:  # noqa: ANN401 - as above
        if message["type"] == "lifespan.startup.complete":
            tracing.set_up()
        elif message["type"] in {"lifespan.shutdown.complete", "lifespan.shutdown.failed"}:
            with _GUARD:
                await tracing.end()  # A server that a signal told to end lets that end it: no exit handler runs.
        await send(message)

    return sending


def _watch_sessions(module: ModuleType, tracing: Tracing) -> None:
    sessions: type = module.ClientSession

    async def before_a_request(*_: object) -> None:
        tracing.set_up()

    first_request = module.TraceConfig()
    first_request.on_request_start.append(before_a_request)

    def wrap(original: Method) -> Method:
        @functools.wraps(original)
        def init(self: object, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - whatever sessions take
            if tracing.instrument_sessions():
                # Once more, with more around it now. What OpenTelemetry has added on the way here it adds again.
                kwargs["trace_configs"] = [one for one in kwargs.get("trace_configs") or () if not _is_added(one)]
                sessions.__init__(self, *args, **kwargs)  # type: ignore[misc]
                return
            if not tracing.set_up.done:
                kwargs["trace_configs"] = [first_request, *(kwargs.get("trace_configs") or ())]
            original(self, *args, **kwargs)

        return init

    wrap_method(sessions, "__init__", wrap)


def _is_added(config: object) -> bool:
    return bool(getattr(config, "_is_instrumented_by_opentelemetry", False))
