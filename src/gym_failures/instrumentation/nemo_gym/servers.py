"""NeMo Gym's servers: where each observes failures, which stage a request serves, and which rollout it belongs to.

The parts of the middleware are placed by `instrument_app` when the app has everything but the middleware that NeMo Gym
adds last. So one stands within the middleware that makes a reply of every exception, and one outside of all.
"""

import functools
from collections.abc import Awaitable
from typing import Any, Final

from opentelemetry import trace
from opentelemetry.trace import Span

from gym_failures import semconv, waiting
from gym_failures.guard import Guard, warn_once
from gym_failures.instrumentation.asgi import instrument_app, is_instrumented, leave_app_alone
from gym_failures.instrumentation.asgi.exchange import SCOPE_KEY
from gym_failures.instrumentation.asgi.scope import HTTP_ROUTE, App, Receive, Scope, Send
from gym_failures.instrumentation.nemo_gym import identity
from gym_failures.instrumentation.nemo_gym.hooks import Hook
from gym_failures.kinds import FailureBoundary, FailureStage
from gym_failures.patching import Method

_GUARD: Final = Guard("nemo_gym_server")

_BOUNDARIES: Final = {
    "SimpleResourcesServer": FailureBoundary.RESOURCES_SERVER,
    "SimpleResponsesAPIAgent": FailureBoundary.AGENT,
    "SimpleResponsesAPIModel": FailureBoundary.MODEL,
    "BaseEnvironmentServer": FailureBoundary.ENVIRONMENT,
}
"""The base classes of servers, by name, because none is imported for their sake."""

_STAGES: Final = {
    "/seed_session": FailureStage.SEED,
    "/run": FailureStage.AGENT,
    "/v1/agent_sessions": FailureStage.AGENT,  # as NeMo Gym's own environment server calls it
    "/v1/chat/completions": FailureStage.AGENT,
    "/v1/messages": FailureStage.AGENT,
    "/v1/responses": FailureStage.AGENT,
    "/verify": FailureStage.VERIFICATION,
    "/v1/agent_sessions/close": FailureStage.CLEANUP,
    "/close_session": FailureStage.CLEANUP,
}


def boundary_of(server: type) -> FailureBoundary | None:
    """Return where a class of servers observes failures; None for one that NeMo Gym has no base class for."""
    return next((_BOUNDARIES[base.__name__] for base in server.__mro__ if base.__name__ in _BOUNDARIES), None)


def stage_of(scope: Scope) -> FailureStage | None:
    """Return the stage of an episode that a request serves, by its path; None for all other paths, as of tools."""
    _, path = identity.split_path(scope["path"])
    return _STAGES.get(path)


class RolloutPart:
    """Say on a request's span which rollout it belongs to, and watch whether the request hangs.

    It stands outside of the middleware that takes the rollout's id out of the path.
    """

    def __init__(self, app: App) -> None:
        """Wrap `app`."""
        self._app: Final = app

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        """Serve one scope; with no coroutine of its own, because thousands of requests can wait at a time."""
        if scope["type"] == "http":
            with _GUARD:
                self._say(scope)
        return self._app(scope, receive, send)

    @staticmethod
    def _say(scope: Scope) -> None:
        rollout_id, path = identity.split_path(scope["path"])
        if rollout_id is not None:
            span = trace.get_current_span()
            identity.write(span, {semconv.NEMO_GYM_ROLLOUT_ID: rollout_id})
            _name(span, scope, path)
        exchange = scope.get(SCOPE_KEY)
        if exchange is not None and exchange.waiting is None:  # else the app that this one is mounted in has begun
            exchange.waiting = waiting.begin()


def _name(span: Span, scope: Scope, path: str) -> None:
    """Give the span of a request the route of `path`, which its instrumentation cannot find behind a rollout's id.

    A span that has a route, or another name than such an instrumentation gives, is left alone.
    """
    method = scope["method"]
    if getattr(span, "name", None) != method or HTTP_ROUTE in (getattr(span, "attributes", None) or ()):
        return
    inner = {**scope, "path": path}
    matches = (getattr(route, "path", None) for route in scope["app"].routes if route.matches(inner)[0].name == "FULL")
    route = next(matches, None)
    if route:
        span.update_name(f"{method} {route}")
        span.set_attribute(HTTP_ROUTE, route)


def _instrumenting(set_up: Method) -> Method:
    """Wrap a method of a server that is given its finished app; the first that is called instruments it."""

    @functools.wraps(set_up)
    def instrumenting(server: Any, app: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - as the method
        result = set_up(server, app, *args, **kwargs)
        with _GUARD:
            if not is_instrumented(app):
                _instrument(server, app)
        return result

    return instrumenting


def _instrument(server: Any, app: Any) -> None:  # noqa: ANN401 - of classes that are not imported here
    boundary = boundary_of(type(server))
    if boundary is None:
        warn_once(
            f"nemo_gym_server:{type(server).__qualname__}",
            "%s is no kind of server that is known: what it observes stays unknown",
            type(server).__qualname__,
        )
        return
    app.add_middleware(RolloutPart)
    instrument_app(app, boundary=boundary, stage=stage_of)


def _leaving_alone(set_up: Method) -> Method:
    """Wrap what makes the app of the head server: it says 503 until all servers are ready, and serves no rollout."""

    @functools.wraps(set_up)
    def leaving(server: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - as the method
        app = set_up(server, *args, **kwargs)
        with _GUARD:
            leave_app_alone(app)
        return app

    return leaving


def _told_of_run(rollout_id_of: Method) -> Method:
    """Wrap what makes the rollout's id of the body of an agent's run."""

    @functools.wraps(rollout_id_of)
    def telling(server: Any, body: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - as the method
        with _GUARD:
            identity.write(trace.get_current_span(), identity.of_run(body))
        return rollout_id_of(server, body, *args, **kwargs)

    return telling


def _told_of_episode(run: Method) -> Method:
    """Wrap the run of an environment server."""

    @functools.wraps(run)
    async def telling(server: Any, request: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - as the method
        with _GUARD:
            identity.write(trace.get_current_span(), identity.of_run(request))
        return await run(server, request, *args, **kwargs)

    return telling


HOOKS: Final = {
    "nemo_gym.server_utils": (
        Hook("SimpleServer.setup_exception_middleware", _instrumenting),
        Hook("HeadServer.setup_webserver", _leaving_alone),
    ),
    "nemo_gym.base_responses_api_agent": (Hook("SimpleResponsesAPIAgent.rollout_id_from_run", _told_of_run),),
    "nemo_gym.base_environment_server": (Hook("BaseEnvironmentServer.run_request", _told_of_episode),),
}
