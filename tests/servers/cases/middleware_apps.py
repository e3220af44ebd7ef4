"""Apps whose middleware turns exceptions into replies, copies messages between tasks, or changes what is sent."""

import asyncio
from typing import Any

from fastapi import FastAPI, HTTPException, Request, Response
from fastapi.responses import JSONResponse, PlainTextResponse
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.base import BaseHTTPMiddleware
from starlette.middleware.cors import CORSMiddleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.routing import Route

from tests.servers.cases.table import App, BrokenError, Seen, broken, case, status


@case(own=broken(failure_reason="gym"))
def gym_like(seen: Seen) -> App:
    """Turn every exception into a 500 as NeMo Gym does, in a middleware that copies messages between tasks."""
    app = FastAPI()

    @app.middleware("http")
    async def catch(request: Request, call_next: Any) -> Response:
        try:
            return await call_next(request)
        except Exception as error:
            seen.catch(error)
            return JSONResponse(content=repr(error), status_code=500)

    @app.get("/")
    async def root() -> None:
        raise BrokenError("gym")

    return app


class CancelsForNobody:
    """A middleware that cancels the handler as soon as the client is gone, as NeMo Gym has one."""

    def __init__(self, app: App) -> None:
        self.app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Serve one scope, with one task for the app and one that listens."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        messages: asyncio.Queue[Any] = asyncio.Queue()
        answered = False

        async def answer(message: Any) -> None:
            nonlocal answered
            await send(message)
            answered = message["type"] == "http.response.body" and not message.get("more_body")

        async def listen() -> None:
            while True:
                message = await receive()
                await messages.put(message)
                if message["type"] == "http.disconnect":
                    if not answered:
                        work.cancel()
                    return

        work = asyncio.create_task(self.app(scope, messages.get, answer))

        listening = asyncio.create_task(listen())
        try:
            await work
        finally:
            listening.cancel()


@case(own=broken(failure_reason="gym", operation="test POST /run"), method="POST", path="/run", body=b"{}")
def gym_stack(seen: Seen) -> App:
    """Stand behind the middleware of a NeMo Gym server, in its order: session, exceptions, cancellation."""
    app = FastAPI()

    @app.middleware("http")
    async def session(request: Request, call_next: Any) -> Response:
        request.state.session = "s1"
        return await call_next(request)

    @app.middleware("http")
    async def exceptions(request: Request, call_next: Any) -> Response:
        try:
            return await call_next(request)
        except Exception as error:
            seen.catch(error)
            return JSONResponse(content=repr(error), status_code=500)

    app.add_middleware(CancelsForNobody)

    @app.post("/run")
    async def run(request: Request) -> None:
        seen.call(request.state.session)
        raise BrokenError("gym")

    return app


@case(
    own={
        "failure_kind": "agent_run_error",
        "exception_type": "fastapi.exceptions.HTTPException",
        "foreign_error": {"exception_type": "tests.servers.cases.table.BrokenError", "message": "behind"},
    }
)
def gym_like_http_500(seen: Seen) -> App:
    """Answer 500 inside of a middleware that copies messages between tasks."""
    app = FastAPI()

    @app.middleware("http")
    async def copy(request: Request, call_next: Any) -> Response:
        response = await call_next(request)
        seen.call(f"copied {response.status_code}")
        response.headers["x-copied"] = "yes"
        return response

    @app.get("/")
    async def root() -> None:
        try:
            raise BrokenError("behind")
        except BrokenError as error:
            raise HTTPException(502, "bad gateway") from error

    return app


@case(own=broken(failure_reason="before the handler"))
def middleware_raises(seen: Seen) -> App:
    """Raise in the app's own middleware, before the handler."""
    app = FastAPI()

    @app.middleware("http")
    async def refuse(request: Request, call_next: Any) -> Response:
        seen.call("refuse")
        raise BrokenError("before the handler")

    @app.get("/")
    async def root() -> None:
        seen.call("root")

    return app


@case(others=("agent_run_error",))
def middleware_recovers(seen: Seen) -> App:
    """Answer 200 in spite of an exception in the handler: a failure that was recovered from."""
    app = FastAPI()

    @app.middleware("http")
    async def recover(request: Request, call_next: Any) -> Response:
        try:
            return await call_next(request)
        except BrokenError as error:
            seen.catch(error)
            return JSONResponse({"reward": 0})

    @app.get("/")
    async def root() -> None:
        raise BrokenError("once")

    return app


class Catching(BaseHTTPMiddleware):
    """Note what passes."""

    def __init__(self, app: App, seen: Seen) -> None:
        super().__init__(app)
        self.seen = seen

    async def dispatch(self, request: Request, call_next: Any) -> Response:
        """Pass on."""
        try:
            return await call_next(request)
        except BaseException as error:
            self.seen.catch(error)
            raise


@case(own=broken(failure_reason="plain"))
def starlette_raises(seen: Seen) -> App:
    """Raise in a Starlette endpoint, behind two layers of middleware that see it pass."""

    async def root(request: Request) -> Response:
        seen.call("root")
        raise BrokenError("plain")

    layers = [Middleware(Catching, seen=seen), Middleware(Catching, seen=seen)]
    return Starlette(routes=[Route("/", root)], middleware=layers)


@case(path="/deep", headers=(("origin", "http://elsewhere.test"),))
def cors(seen: Seen) -> App:
    """Answer a page from elsewhere."""

    async def deep(request: Request) -> Response:
        seen.call("deep")
        return PlainTextResponse("for all", headers={"etag": '"1"'})

    allow = Middleware(CORSMiddleware, allow_origins=["*"], expose_headers=["etag"])
    return Starlette(routes=[Route("/deep", deep)], middleware=[allow])


@case(own=broken(), headers=(("origin", "http://elsewhere.test"),))
def cors_and_failure(seen: Seen) -> App:
    """Fail for a page from elsewhere: what is exposed to it stays the same."""

    async def root(request: Request) -> Response:
        raise BrokenError("for all")

    async def handle(request: Request, error: Exception) -> Response:
        return PlainTextResponse("sorry", 500)

    allow = Middleware(CORSMiddleware, allow_origins=["*"], expose_headers=["etag"])
    return Starlette(routes=[Route("/", root)], middleware=[allow], exception_handlers={BrokenError: handle})


@case(own=status(500), headers=(("accept-encoding", "gzip"),))
def compressed(seen: Seen) -> App:
    """Fail behind a middleware that holds the start of the reply back until it knows the body."""

    async def root(request: Request) -> Response:
        seen.call("root")
        return PlainTextResponse("sorry " * 500, 500)

    return Starlette(routes=[Route("/", root)], middleware=[Middleware(GZipMiddleware)])
