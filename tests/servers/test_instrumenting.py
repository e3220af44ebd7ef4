"""Apps instrumented early and late, twice, back again, and all at once."""

import asyncio
import contextlib

import pytest
from fastapi import FastAPI, Request, Response
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.routing import Mount, Route

from gym_failures.config import ConfigError
from gym_failures.header import decode_report
from gym_failures.instrumentation import FailureMiddleware, asgi, instrument_app, uninstrument_app
from gym_failures.semconv import HEADER_NAME
from tests.servers.asgi import Call
from tests.servers.serving import Serving, ask, request


async def fail(request):
    """Fail."""
    raise ValueError("as always")


def plain_app(**more):
    """Return an app that fails."""
    return Starlette(routes=[Route("/", fail)], **more)


def all_apps(_, **arguments):
    """Instrument every app."""
    asgi.instrument_all_apps(**arguments)


def report_of(app):
    """Return the report in the app's reply to a request."""
    call = Call(app)
    with pytest.raises(ValueError, match="as always"):
        asyncio.run(call.run())
    return call.report


class Raising:
    """A middleware that fails by itself."""

    def __init__(self, app):
        self.app = app

    async def __call__(self, scope, receive, send):
        """Fail."""
        raise ValueError("as always")


def test_middleware_added_afterwards(telemetry):
    """A failure in a middleware that is added after us is recorded as well."""
    app = plain_app()
    instrument_app(app, boundary="agent", recorder=telemetry.recorder)
    app.add_middleware(Raising)
    assert report_of(app) is not None
    assert [one.cls for one in app.user_middleware][1] is Raising
    uninstrument_app(app)


def test_instrumented_twice(telemetry):
    """Instrumenting again changes the boundary and adds nothing."""
    app = plain_app()
    instrument_app(app, boundary="agent", recorder=telemetry.recorder)
    layers = list(app.user_middleware)
    instrument_app(app, boundary="model", recorder=telemetry.recorder)
    assert app.user_middleware == layers
    report = report_of(app)
    assert [event.boundary.value for event in report.events.values()] == ["model"]
    uninstrument_app(app)


def test_back_again(telemetry):
    """Uninstrumenting gives back the app, its middleware and Starlette itself as they were, any number of times."""
    layers = [Middleware(Raising)]
    app = plain_app(middleware=layers)
    as_it_was = Starlette.__call__
    for _ in range(3):
        instrument_app(app, boundary="agent", recorder=telemetry.recorder)
        assert report_of(app) is not None
        uninstrument_app(app)
        uninstrument_app(app)
        assert report_of(app) is None
        assert app.user_middleware == layers
        assert Starlette.__call__ is as_it_was


def test_starlette_wrapped_by_another_package_meanwhile(telemetry):
    """What another package has put round Starlette stays, and so do apps that were instrumented before and after."""
    as_it_was = Starlette.__call__
    first, second = plain_app(), plain_app()
    instrument_app(first, boundary="agent", recorder=telemetry.recorder)
    ours = Starlette.__call__
    calls = []

    async def theirs(self, scope, receive, send):
        calls.append(scope["type"])
        await ours(self, scope, receive, send)

    Starlette.__call__ = theirs
    try:
        uninstrument_app(first)
        assert Starlette.__call__ is theirs
        assert report_of(first) is None
        instrument_app(second, boundary="agent", recorder=telemetry.recorder)
        assert report_of(second) is not None
        assert calls == ["http", "http"]
    finally:
        Starlette.__call__ = ours
        uninstrument_app(second)
    assert Starlette.__call__ is as_it_was


def test_app_that_runs(telemetry):
    """An app that serves already is instrumented for the requests to come, and its lifespan goes on."""
    life = []

    @contextlib.asynccontextmanager
    async def lifespan(app):
        life.append("begins")
        yield {"from": "lifespan"}
        life.append("ends")

    states = []
    app = FastAPI(lifespan=lifespan)

    @app.middleware("http")
    async def catch(request: Request, call_next):
        try:
            return await call_next(request)
        except ValueError:
            return Response("sorry", 500)

    @app.get("/")
    async def root(request: Request):
        states.append(dict(request.scope["state"]))
        raise ValueError("as always")

    with Serving(app) as serving:
        assert ask(serving.port, request()).values(HEADER_NAME) == []
        instrument_app(app, boundary="agent", recorder=telemetry.recorder)
        (value,) = ask(serving.port, request()).values(HEADER_NAME)
        uninstrument_app(app)
        assert ask(serving.port, request()).values(HEADER_NAME) == []
        assert life == ["begins"]
    assert life == ["begins", "ends"]
    assert states == [{"from": "lifespan"}] * 3
    report = decode_report(value)
    assert report.events[report.failure_id].exception_type == "ValueError"


def test_every_app_at_its_first_use(telemetry):
    """All apps of a process can be instrumented at once: those that exist and those to come, but for a chosen one."""
    as_it_was = Starlette.__call__
    before, chosen = plain_app(), plain_app()
    instrument_app(chosen, boundary="model", recorder=telemetry.recorder)
    asgi.instrument_all_apps(boundary="agent", recorder=telemetry.recorder)
    after = plain_app()
    boundaries = [next(iter(report_of(app).events.values())).boundary.value for app in (before, after, chosen)]
    assert boundaries == ["agent", "agent", "model"]
    assert asgi.is_instrumented(before)
    asgi.uninstrument_all_apps()
    assert [report_of(app) is None for app in (before, after, chosen)] == [True, True, False]
    uninstrument_app(chosen)
    assert Starlette.__call__ is as_it_was


def test_an_app_that_is_mounted_is_no_app_of_its_own(telemetry):
    """Of all apps those that are mounted in another one are left as they are: their requests are that one's."""
    inside = plain_app()
    outside = Starlette(routes=[Mount("/", app=inside)])
    asgi.instrument_all_apps(boundary="agent", recorder=telemetry.recorder)
    assert report_of(outside) is not None
    assert (asgi.is_instrumented(outside), asgi.is_instrumented(inside)) == (True, False)
    asgi.uninstrument_all_apps()


def test_an_app_that_is_left_alone(telemetry):
    """Of all apps those that are to be left alone stay as they are, and so do their replies."""
    alone, other = plain_app(), plain_app()
    asgi.leave_app_alone(alone)
    asgi.instrument_all_apps(boundary="agent", recorder=telemetry.recorder)
    assert [report_of(app) is None for app in (alone, other)] == [True, False]
    assert not asgi.is_instrumented(alone)
    asgi.uninstrument_all_apps()


def test_an_app_of_all_is_instrumented_before_its_stack_is_built(telemetry):
    """Served by a real server, an app is reached at its lifespan, so that its middleware is made once."""
    made = []

    class Counting(Raising):
        def __init__(self, app):
            super().__init__(app)
            made.append(app)

    asgi.instrument_all_apps(boundary="agent", recorder=telemetry.recorder)
    try:
        with Serving(plain_app(middleware=[Middleware(Counting)])) as serving:
            assert len(ask(serving.port, request()).values(HEADER_NAME)) == 1
        assert len(made) == 1
    finally:
        asgi.uninstrument_all_apps()


async def bare(scope, receive, send):
    """Do nothing."""


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"boundary": "judge"}, "'judge' is not a valid FailureBoundary"),
        ({"boundary": "agent", "stage": "lunch"}, "'lunch' is not a valid FailureStage"),
    ],
)
@pytest.mark.parametrize("make", [FailureMiddleware, instrument_app, all_apps])
def test_wrong_arguments(make, arguments, message):
    """A boundary or a stage that does not exist is an error at once, named, and changes nothing."""
    as_it_was = Starlette.__call__
    with pytest.raises(ValueError, match=message):
        make(plain_app(), **arguments)
    assert Starlette.__call__ is as_it_was


def test_another_framework():
    """An app of another framework is refused, and the error says what to do instead."""
    with pytest.raises(TypeError, match="function; wrap it in FailureMiddleware"):
        instrument_app(bare, boundary="agent")


def test_wrong_environment(monkeypatch):
    """A wrong value in the environment is an error when the middleware is made, not in the first request."""
    monkeypatch.setenv("GYM_FAILURES_HEADER_BUDGET", "a lot")
    with pytest.raises(ConfigError, match="GYM_FAILURES_HEADER_BUDGET='a lot'"):
        FailureMiddleware(bare, boundary="agent")
