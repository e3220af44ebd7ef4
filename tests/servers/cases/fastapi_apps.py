"""FastAPI apps: handlers that fail, and what FastAPI makes of it."""

import asyncio

from fastapi import APIRouter, FastAPI, HTTPException, Request, Response
from fastapi.responses import JSONResponse, PlainTextResponse
from pydantic import BaseModel

from tests.servers.cases.table import App, BrokenError, Seen, broken, case, status


@case()
def fastapi_fine(seen: Seen) -> App:
    """Answer."""
    app = FastAPI()

    @app.get("/")
    async def root() -> dict[str, int]:
        seen.call("root")
        return {"reward": 1}

    return app


@case(own=broken(failure_reason="in the loop", operation="test GET /items/{item}"), path="/items/7?secret=1")
def fastapi_raises(seen: Seen) -> App:
    """Raise in a coroutine; nobody handles it."""
    app = FastAPI()

    @app.get("/items/{item}")
    async def root(item: int) -> None:
        seen.call(f"root {item}")
        raise BrokenError("in the loop")

    return app


@case(own=broken(failure_reason="in a thread", operation="test POST /"), method="POST", body=b"{}")
def fastapi_raises_in_a_thread(seen: Seen) -> App:
    """Raise in a plain function, which runs in a thread."""
    app = FastAPI()

    @app.post("/")
    def root() -> None:
        seen.call("root")
        raise BrokenError("in a thread")

    return app


@case(
    own={
        "failure_kind": "agent_run_error",
        "exception_type": "fastapi.exceptions.HTTPException",
        "foreign_error": {"exception_type": "tests.servers.cases.table.BrokenError", "message": "behind"},
    }
)
def fastapi_http_500_from_an_exception(seen: Seen) -> App:
    """Turn an exception into a 500 by raising from it."""
    app = FastAPI()

    @app.get("/")
    def root() -> None:
        seen.call("root")
        try:
            raise BrokenError("behind")
        except BrokenError as error:
            raise HTTPException(500, "sorry") from error

    return app


@case(own=broken(failure_reason="the only one"))
def fastapi_task_group(seen: Seen) -> App:
    """Raise in a task group, which wraps the one exception into a group that says nothing more."""
    app = FastAPI()

    async def work() -> None:
        seen.call("work")
        raise BrokenError("the only one")

    @app.get("/")
    async def root() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(work())

    return app


@case()
def fastapi_http_404(seen: Seen) -> App:
    """Say 404 by an exception: that is no failure of a server."""
    app = FastAPI()

    @app.get("/")
    async def root() -> None:
        seen.call("root")
        raise HTTPException(404, "not here", headers={"x-why": "gone"})

    return app


@case(path="/nowhere/at/all")
def fastapi_no_route(seen: Seen) -> App:
    """Know no such path."""
    return FastAPI()


@case(method="POST", body=b'{"reward": "much"}', headers=(("content-type", "application/json"),))
def fastapi_invalid_request(seen: Seen) -> App:
    """Refuse a body with 422."""

    class Body(BaseModel):
        reward: float

    app = FastAPI()

    @app.post("/")
    async def root(body: Body) -> None:
        seen.call("root")

    return app


@case(own={"failure_kind": "protocol_violation", "exception_type": "fastapi.exceptions.ResponseValidationError"})
def fastapi_invalid_response(seen: Seen) -> App:
    """Return what the response model forbids."""
    app = FastAPI()

    @app.get("/", response_model=int)
    async def root() -> str:
        seen.call("root")
        return "secret"

    return app


@case(own=broken(failure_reason="handled"))
def fastapi_registered_handler(seen: Seen) -> App:
    """Turn an exception into a 503 in a registered handler, a coroutine."""
    app = FastAPI()

    @app.exception_handler(BrokenError)
    async def handle(request: Request, error: BrokenError) -> Response:
        seen.catch(error)
        return JSONResponse({"error": "busy"}, 503)

    @app.get("/")
    async def root() -> None:
        raise BrokenError("handled")

    return app


@case(own=broken(failure_reason="handled"))
def fastapi_registered_handler_in_a_thread(seen: Seen) -> App:
    """Turn an exception into a 500 in a registered handler, a plain function."""
    app = FastAPI()

    @app.exception_handler(BrokenError)
    def handle(request: Request, error: BrokenError) -> Response:
        seen.catch(error)
        return PlainTextResponse("busy", 500)

    @app.get("/")
    def root() -> None:
        raise BrokenError("handled")

    return app


@case()
def fastapi_registered_handler_of_400(seen: Seen) -> App:
    """Turn an exception into a 400: the client is to blame."""
    app = FastAPI()

    @app.exception_handler(BrokenError)
    async def handle(request: Request, error: BrokenError) -> Response:
        seen.catch(error)
        return JSONResponse({"error": "no"}, 400)

    @app.get("/")
    async def root() -> None:
        raise BrokenError("handled")

    return app


@case(own=broken(failure_reason="all"))
def fastapi_handler_of_everything(seen: Seen) -> App:
    """Answer in a handler for every exception, which the outermost middleware of the app calls."""
    app = FastAPI()

    @app.exception_handler(Exception)
    async def handle(request: Request, error: Exception) -> Response:
        seen.catch(error)
        return JSONResponse({"error": str(error)}, 500)

    @app.get("/")
    async def root() -> None:
        raise BrokenError("all")

    return app


@case(own={**status(503), "failure_reason": ""})
def answers_503(seen: Seen) -> App:
    """Answer 503 without an exception."""
    app = FastAPI()

    @app.get("/")
    async def root() -> Response:
        seen.call("root")
        return Response("busy", 503, headers={"retry-after": "3"})

    return app


@case(own=broken(operation="test GET /v1/{name}/run"), path="/v1/x/run")
def included_router(seen: Seen) -> App:
    """Raise in a route of a router that was included under a prefix."""
    app = FastAPI()
    router = APIRouter()

    @router.get("/{name}/run")
    async def run(name: str) -> None:
        seen.call(name)
        raise BrokenError("routed")

    app.include_router(router, prefix="/v1")
    return app


@case(own=broken(), path="/sub/item")
def mounted_app(seen: Seen) -> App:
    """Raise in an app that is mounted in another one."""
    app, sub = FastAPI(), FastAPI()

    @sub.get("/item")
    async def item() -> None:
        seen.call("item")
        raise BrokenError("below")

    app.mount("/sub", sub)
    return app
