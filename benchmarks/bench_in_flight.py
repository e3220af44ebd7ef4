"""Memory that a request in flight holds, with and without this package; prints it in bytes.

Requests to a FastAPI app that OpenTelemetry instruments are held in their handler; each is one more task. Exits with
status 1 when our share is larger than the design allows.
"""

import asyncio
import gc
import sys
import tracemalloc
from typing import Any, Final

from fastapi import FastAPI
from opentelemetry.instrumentation.fastapi import FastAPIInstrumentor
from opentelemetry.sdk.trace import TracerProvider

from gym_failures.config import Config
from gym_failures.instrumentation import instrument_app
from gym_failures.recorder import FailureRecorder

IN_FLIGHT: Final = 2_000
BUDGET: Final = 2_048
"""Most that one request may hold because of this package, in bytes."""


def build(go_on: asyncio.Event, *, ours: bool, middleware: bool) -> FastAPI:
    """Return an app whose handler waits; with `middleware`, behind one that copies messages between tasks."""
    provider = TracerProvider(shutdown_on_exit=False)
    app = FastAPI()

    @app.post("/run")
    async def run(body: dict[str, Any]) -> dict[str, float]:
        await go_on.wait()
        return {"reward": float(len(body))}

    if middleware:

        @app.middleware("http")
        async def copy(request: Any, call_next: Any) -> Any:  # noqa: ANN401 - of Starlette
            return await call_next(request)

    FastAPIInstrumentor.instrument_app(app, tracer_provider=provider)
    if ours:
        instrument_app(app, boundary="agent", recorder=FailureRecorder(Config(), tracer_provider=provider))
    return app


async def held(*, ours: bool, middleware: bool) -> float:
    """Return what one request more in flight holds, in bytes."""
    go_on = asyncio.Event()
    app = build(go_on, ours=ours, middleware=middleware)
    go_on.set()
    await call(app)
    go_on.clear()
    gc.collect()
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    tasks = [asyncio.create_task(call(app)) for _ in range(IN_FLIGHT)]
    for _ in range(100):
        await asyncio.sleep(0)
    gc.collect()
    after, _ = tracemalloc.get_traced_memory()
    go_on.set()
    await asyncio.gather(*tasks)
    tracemalloc.stop()
    return (after - before) / IN_FLIGHT


async def call(app: FastAPI) -> None:
    """Send one request to the app without a network."""

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"{}", "more_body": False}

    async def send(message: Any) -> None:  # noqa: ANN401 - of ASGI
        pass

    scope = {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": "POST",
        "path": "/run",
        "raw_path": b"/run",
        "query_string": b"",
        "root_path": "",
        "scheme": "http",
        "headers": [(b"host", b"127.0.0.1"), (b"content-type", b"application/json")],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 2),
        "state": {},
    }
    await app(scope, receive, send)


def main() -> int:
    """Measure, print the table, and return the exit status."""
    print(f"{'bytes held by a request':28} {'without':>10} {'with':>10} {'more':>8} {'budget':>8}")
    worst = 0.0
    for name, middleware in (("FastAPI", False), ("FastAPI with a middleware", True)):
        without, ours = (asyncio.run(held(ours=one, middleware=middleware)) for one in (False, True))
        print(f"{name:28} {without:10.0f} {ours:10.0f} {ours - without:8.0f} {BUDGET:8}")
        worst = max(worst, ours - without)
    return 0 if worst <= BUDGET else 1


if __name__ == "__main__":
    sys.exit(main())
