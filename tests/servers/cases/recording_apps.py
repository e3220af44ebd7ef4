"""Apps that record failures themselves, or relay those of others."""

from collections.abc import Callable
from typing import Any

from fastapi import FastAPI, Request, Response

from gym_failures.errors import FailureError, report_for
from gym_failures.header import encode_report
from gym_failures.log import current_log
from gym_failures.recording import observe
from gym_failures.records import FailureEvent
from tests.servers.cases.table import App, BrokenError, Seen, broken, case, judge, status

RELAYED = encode_report(report_for(FailureError("provider_unavailable", boundary="model", reason="relayed")))
"""A header value that another server sent."""


def _recording(seen: Seen, handler: Callable[[], Any]) -> App:
    app = FastAPI()

    @app.middleware("http")
    async def copy(request: Request, call_next: Any) -> Response:
        return await call_next(request)

    app.get("/")(handler)
    return app


@case(others=("judge_failed",))
def records_in_a_coroutine(seen: Seen) -> App:
    """Record a failure in a coroutine and answer 200."""

    async def root() -> dict[str, int]:
        return judge(seen)

    return _recording(seen, root)


@case(others=("judge_failed",))
def records_in_a_thread(seen: Seen) -> App:
    """Record a failure in a plain function, which runs in a thread, and answer 200."""

    def root() -> dict[str, int]:
        return judge(seen)

    return _recording(seen, root)


@case(
    own={"failure_kind": "sandbox:burst", "boundary": "sandbox"},
    others=(),
)
def fails_with_200(seen: Seen) -> App:
    """Say that the request failed although it is answered with 200."""
    app = FastAPI()

    @app.get("/")
    async def root() -> dict[str, int]:
        log = current_log()
        seen.call("root")
        if log is not None:
            log.fail(FailureEvent(event_id="e1", boundary="sandbox", failure_kind="sandbox:burst"))
        return {"reward": 0}

    return app


@case(own={**status(500), "caused": "provider_unavailable"}, others=("provider_unavailable",))
def relays_a_failure(seen: Seen) -> App:
    """Answer 500 with the headers of another server's reply, as a proxy does."""
    app = FastAPI()

    @app.get("/")
    async def root() -> Response:
        seen.call("root")
        response = Response("relayed", 500)
        response.headers.append("Gym-Failure-Report", RELAYED)
        response.headers.append("set-cookie", "a=1")
        response.headers.append("set-cookie", "b=2")
        return response

    return app


@case(others=("provider_unavailable",))
def relays_and_recovers(seen: Seen) -> App:
    """Answer 200 with the headers of another server's reply."""
    app = FastAPI()

    @app.get("/")
    async def root() -> Response:
        seen.call("root")
        return Response("fine", headers={"gym-failure-report": RELAYED})

    return app


@case(own=broken(failure_reason="nested", boundary="agent"))
def observes_inside(seen: Seen) -> App:
    """Observe the same exception in the handler and in the server: one failure."""
    app = FastAPI()

    @app.get("/")
    async def root() -> None:
        with observe("agent"), observe("agent"):
            raise BrokenError("nested")

    return app


@case(
    own={"failure_kind": "agent_run_error", "caused": "provider_oom_killed"},
    others=("provider_oom_killed",),
)
def fails_at_another_boundary(seen: Seen) -> App:
    """Let a failure of the sandbox leave the agent: the agent's own failure is caused by it."""
    app = FastAPI()

    @app.get("/")
    async def root() -> None:
        raise FailureError("provider_oom_killed", boundary="sandbox", reason="137")

    return app
