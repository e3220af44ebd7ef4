"""Single rollouts, collected by a program of one's own with NeMo Gym's functions; it runs in NeMo Gym's environment.

An app within this process answers as each case says. Writes what came of each to the file that is named, as JSON.
"""

import asyncio
import contextlib
import json
import sys
from pathlib import Path

from aiohttp import web
from nemo_gym import rollout_collection as collection
from nemo_gym.config_types import BaseServerConfig
from nemo_gym.openai_utils import NeMoGymAsyncOpenAI
from nemo_gym.server_utils import GlobalAIOHTTPAsyncClientConfig, ServerClient, set_global_aiohttp_client
from omegaconf import OmegaConf
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF

from gym_failures.config import Config
from gym_failures.header import encode_report
from gym_failures.instrumentation import FailureMiddleware, nemo_gym
from gym_failures.instrumentation.aiohttp_client import instrument_aiohttp
from gym_failures.kinds import FailureBoundary
from gym_failures.log import FailureLog
from gym_failures.records import FailureEvent, FailureReport
from gym_failures.semconv import HEADER_NAME
from gym_failures.testing import Telemetry

ROW = {"_ng_task_index": 3, "_ng_rollout_index": 1, "_ng_attempt_index": 2}
MASKED = {"reward": 0.0, "mask_sample": True, "failure_kind": "session_lost", "failure_reason": "gone"}


def header(event_id, *, own):
    """Return the header of a reply whose server failed with, or recovered from, one failure."""
    event = FailureEvent(
        event_id=event_id, boundary=FailureBoundary.ENVIRONMENT, failure_kind="environment_server_failed"
    )
    report = FailureReport(events={event_id: event}, failure_id=event_id if own else None)
    return {HEADER_NAME: encode_report(report)}


def well(**result):
    """Answer with the result of a run."""
    return web.json_response({"reward": 1.0, **result})


ANSWERS = {
    "well": well,
    "recovered": lambda: web.json_response({"reward": 1.0}, headers=header("theirs", own=False)),
    "failed": lambda: web.json_response("broke", status=500, headers=header("theirs", own=True)),
    "again": lambda: web.json_response({"reward": 1.0}, headers=header("others", own=False)),
    "gateway": lambda: web.Response(status=503),
    "unreadable": lambda: web.Response(body=b"{"),
    "masked": lambda: well(**MASKED),
    "given up": lambda: well(_ng_failure_class="timeout_exceeded", _ng_failure_terminal=True),
    "degraded": lambda: well(**MASKED | {"mask_sample": False}),
}
WAITS = "waits"
ARRIVED = asyncio.Event()
"""Whether the request that is never answered is there."""


async def answer(request):
    """Answer as the body asks for."""
    case = (await request.json())["case"]
    if case == WAITS:
        ARRIVED.set()
        await asyncio.Event().wait()
    return ANSWERS[case]()


async def refuse(_):
    """Refuse a key as a provider does."""
    return web.json_response(
        {"error": {"message": "Incorrect API key provided", "code": "invalid_api_key"}}, status=401
    )


class Collector:
    """Collects a rollout as `rollout_collection` does."""

    def __init__(self, client, *, routed):
        self.client = client
        self.routed = routed

    async def collect(self, case):
        """Return the row of one rollout; without routing its error is raised."""
        response = None
        try:
            response = await self.client.post(server_name="environment", url_path="/run", json=ROW | {"case": case})
            await collection.raise_for_status(response)
            return await collection.get_response_json(response)
        except Exception as error:
            if not self.routed:
                raise
            return collection._agent_request_failure_row(error, getattr(response, "status", None))

    async def twice(self, case):
        """Collect two rollouts in one task."""
        return [await self.collect(case), await self.collect("again")]

    async def leave(self, case):
        """Begin a rollout and give it up."""
        running = asyncio.ensure_future(self.collect(case))
        await ARRIVED.wait()
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running

    async def within(self, case):
        """Collect it while serving a request, and then in a log within that request."""
        rows = []

        async def serve(*_):
            rows.append(await self.collect(case))
            with FailureLog():
                rows.append(await self.collect(case))

        scope = {"type": "http", "method": "POST", "path": "/run", "headers": []}
        await FailureMiddleware(serve, boundary=FailureBoundary.ENVIRONMENT)(scope, None, None)
        return rows

    async def around(self, case):
        """Collect two rollouts in one task, with a log of one's own around them; return what that has in the end."""
        with FailureLog() as log:
            rows = await self.twice(case)
        return {"rows": rows, "around": [*log.report().events], "own": log.own}

    async def leave_through(self, case):
        """Let the error of a rollout go through a log of one's own."""
        with FailureLog():
            await self.collect(case)


def said(telemetry):
    """Return what the spans of the rollouts say, and what was counted."""
    spans = [span for span in telemetry.spans() if span.name == "gym.rollout"]
    return {
        "spans": [
            {
                "attributes": dict(span.attributes),
                "status": span.status.status_code.name,
                "trace_id": f"{span.context.trace_id:032x}",
                "events": [event.attributes["failure.id"] for event in span.events],
            }
            for span in spans
        ],
        "failures": telemetry.count(),
        "requests": telemetry.count("gym.requests.failed"),
    }


async def run_case(how, case, *, routed=True, config=None, sampler=None):
    """Return what comes of one case."""
    with Telemetry(config, sampler=sampler) as telemetry:
        task = asyncio.ensure_future(getattr(Collector(CLIENT, routed=routed), how)(case))
        (result,) = await asyncio.gather(task, return_exceptions=True)
        await asyncio.sleep(0)  # what was left to the end of the task
        came = {"raised": type(result).__name__} if isinstance(result, BaseException) else {"row": result}
        return came | said(telemetry)


async def refused(url):
    """Return what comes of a key that is refused, twice."""
    provider = NeMoGymAsyncOpenAI(base_url=url, api_key="none")
    told = []
    for _ in range(2):
        with Telemetry() as telemetry:
            with (
                contextlib.suppress(Exception),
                telemetry.span("request"),
                FailureLog(FailureBoundary.MODEL),
            ):
                await provider.create_response()
            told.append([dict(event) for event in telemetry.events()])
    return told


async def main():
    """Serve and collect; return what came of each case."""
    global CLIENT  # noqa: PLW0603 - one a program
    app = web.Application()
    app.router.add_post("/run", answer)
    app.router.add_post("/responses", refuse)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = site._server.sockets[0].getsockname()[1]
    where = {"host": "127.0.0.1", "port": port}
    CLIENT = ServerClient(
        head_server_config=BaseServerConfig(**where),
        global_config_dict=OmegaConf.create({"environment": {"environment_servers": {"any": where}}}),
    )
    session = set_global_aiohttp_client(GlobalAIOHTTPAsyncClientConfig())
    found = {
        **{case: await run_case("collect", case) for case in ANSWERS},
        "not routed": await run_case("collect", "failed", routed=False),
        "left": await run_case("leave", WAITS),
        "twice": await run_case("twice", "failed"),
        "within": await run_case("within", "recovered"),
        "around": await run_case("around", "failed"),
        "left through": await run_case("leave_through", "gateway", routed=False),
        "not sampled": await run_case("collect", "recovered", sampler=ALWAYS_OFF),
        "switched off": await run_case("collect", "failed", config=Config(enabled=False)),
        "refused key": await refused(f"http://127.0.0.1:{port}"),
    }
    await session.close()
    await runner.cleanup()
    return found


nemo_gym.install()
instrument_aiohttp()
Path(sys.argv[1]).write_text(json.dumps(asyncio.run(main())))  # to a file, because NeMo Gym prints too
