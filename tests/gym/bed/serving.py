"""Servers of NeMo Gym within this process, set up as it sets them up; it runs in NeMo Gym's environment.

Each is called once a case. Writes what it answered, reported and counted to the file that is named, as JSON.
"""

import asyncio
import json
import socket
import sys
from pathlib import Path
from typing import Any, ClassVar

import httpx
import uvicorn
from aiohttp import ClientResponseError
from fastapi import HTTPException
from multidict import CIMultiDict
from nemo_gym.base_environment_server import BaseEnvironmentServer, BaseEnvironmentServerConfig, HandledEpisodeError
from nemo_gym.base_resources_server import (
    BaseResourcesServerConfig,
    BaseVerifyRequest,
    BaseVerifyResponse,
    SimpleResourcesServer,
)
from nemo_gym.base_responses_api_model import BaseResponsesAPIModelConfig, SimpleResponsesAPIModel
from nemo_gym.config_types import BaseServerConfig
from nemo_gym.episode_types import BaseEpisodeRequest, BaseEpisodeResponse, EpisodeFailure
from nemo_gym.judge import JudgeError, reraise_judge_errors
from nemo_gym.server_utils import ServerClient, _PickleSafeRequestInfo
from omegaconf import OmegaConf
from opentelemetry.instrumentation.fastapi import FastAPIInstrumentor
from pydantic import BaseModel

from gym_failures.header import decode_reports, encode_report
from gym_failures.instrumentation import nemo_gym
from gym_failures.records import FailureEvent, FailureReport
from gym_failures.semconv import HEADER_NAME
from gym_failures.testing import Telemetry

WHERE = {"host": "127.0.0.1", "port": 1}
CLIENT = ServerClient(head_server_config=BaseServerConfig(**WHERE), global_config_dict=OmegaConf.create({}))
ASKED = {"responses_create_params": {"input": "?"}}
HANGS = asyncio.Event()
"""Whether the verification that hangs has begun."""
HOLDS = asyncio.Event()
"""Whether the episode that keeps a server's only place has it."""
RESPONSE = {
    "id": "r",
    "created_at": 1,
    "model": "m",
    "object": "response",
    "output": [],
    "parallel_tool_calls": False,
    "tool_choice": "auto",
    "tools": [],
}


class Anything(BaseModel):
    """What a task asks, or an episode gives."""

    case: str = ""


class Request(BaseEpisodeRequest[Anything]):
    """A request of these episodes."""


class Response(BaseEpisodeResponse[Anything]):
    """A reply of these episodes."""


def told(**failure):
    """Return NeMo Gym's own error with this failure."""
    return HandledEpisodeError(EpisodeFailure(**{"failure_reason": "told", "terminal": False} | failure))


class Environment(BaseEnvironmentServer[Request, Response]):
    """An environment server whose episodes fail as they are asked to."""

    ray_enabled: ClassVar[bool] = False
    request_model: ClassVar[type] = Request
    response_model: ClassVar[type] = Response

    async def run(self, request: Request, cleanup: Any) -> Response:  # noqa: ARG002 - as NeMo Gym calls it
        """Fail, or give nothing."""
        match request.task.task_input.case:
            case "told":
                raise told(stage="seed") from ValueError("no cookie")
            case "told with a kind":
                raise told(failure_kind="session_lost", stage="agent", failure_reason="lost")
            case "unexpected":
                raise RuntimeError("unexpected")
            case "own time-out":
                raise TimeoutError("a call of its own")
            case "too slow":
                await asyncio.sleep(60)
            case "hold":
                HOLDS.set()
                await asyncio.sleep(60)
            case "returned":
                return self.failure_response(request, EpisodeFailure(failure_reason="returned", terminal=True))
        return Response(episode_id=request.episode_id, task_id=request.task.task_id, result=Anything())

    async def aggregate_metrics(self, body: Any = None) -> Any:
        """Aggregate nothing."""


async def answered_with(status):
    """Fail as NeMo Gym's `raise_for_status` does for a reply that has a report."""
    event = FailureEvent(event_id="theirs", boundary="model", failure_kind="provider_unavailable")
    report = encode_report(FailureReport(events={"theirs": event}, failure_id="theirs"))
    url = "http://127.0.0.1:1/v1/responses"
    asked = _PickleSafeRequestInfo(url=url, method="POST", headers=CIMultiDict(), real_url=url)
    raise ClientResponseError(asked, (), status=status, headers=CIMultiDict({HEADER_NAME: report}))


class Verify(BaseVerifyRequest):
    """What is to be verified."""

    case: str


class Resources(SimpleResourcesServer):
    """A resources server whose verification says what it is asked to."""

    ray_enabled: ClassVar[bool] = False

    async def verify(self, body: Verify) -> Any:
        """Fail, or tell of a failure."""
        match body.case:
            case "judge":
                raise JudgeError("judge 503") from ConnectionRefusedError("nobody judges")
            case "judge behind":
                await reraise_judge_errors(answered_with(500))
            case "hangs":
                HANGS.set()
                await asyncio.sleep(60)
            case "broken":
                raise RuntimeError("broken")
            case "degraded":
                return {"reward": 0.5, "failure_kind": "flaky:slow", "failure_reason": "took long"}
            case "masked":
                return BaseVerifyResponse(
                    **ASKED, response=RESPONSE, reward=0.0, mask_sample=True, failure_kind="session_lost"
                )
        return {"reward": 1.0}


class Model(SimpleResponsesAPIModel):
    """A model server that fails as it is asked to, by the model that is asked for."""

    ray_enabled: ClassVar[bool] = False

    async def responses(self, body: Any) -> Any:
        """Fail, or answer."""
        return self._answer(body.model, RESPONSE)

    async def chat_completions(self, body: Any) -> Any:
        """Fail, or answer."""
        return self._answer(body.model, {"choices": []})

    @staticmethod
    def _answer(case: str, answer: Any) -> Any:
        match case:
            case "broken":
                raise RuntimeError("broken")
            case "refused":
                raise HTTPException(400, "too long")
        return answer


def app_of(server, telemetry):
    """Return the app of a server, set up in NeMo Gym's order, and traced."""
    app = server.setup_webserver()
    server.setup_liveness(app)
    server.setup_exception_middleware(app)
    server.setup_cancellation_middleware(app)
    FastAPIInstrumentor.instrument_app(app, tracer_provider=telemetry.tracer_provider)
    return app


def environment(**limits):
    """Return an environment server."""
    config = BaseEnvironmentServerConfig(
        **WHERE, name="environment", entrypoint="", cleanup_timeout_seconds=1, **limits
    )
    return Environment(config=config, server_client=CLIENT)


def resources():
    """Return a resources server."""
    config = BaseResourcesServerConfig(**WHERE, name="resources", entrypoint="")
    return Resources(config=config, server_client=CLIENT)


def model():
    """Return a model server."""
    return Model(config=BaseResponsesAPIModelConfig(**WHERE, name="model", entrypoint=""), server_client=CLIENT)


def episode(case, rollout="3-1"):
    """Return the body of an episode's run."""
    task = {"task_id": {"taskset": "t", "task_id": "1"}, "task_input": {"case": case}}
    return {"episode_id": {"rollout_id": rollout, "attempt": 2}, "task": task}


async def called(server, path, body, *, held=False):
    """Return what comes of one call; with `held`, while another one has the server's only place."""
    with Telemetry() as telemetry:
        transport = httpx.ASGITransport(app_of(server, telemetry), raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://server") as client:
            other = asyncio.ensure_future(client.post(path, json=episode("hold", "other"))) if held else None
            if held:
                await HOLDS.wait()
            reply = await client.post(path, json=body)
            if other is not None:
                other.cancel()
                await asyncio.gather(other, return_exceptions=True)
        return came_of(reply, telemetry)


async def stopped(server, path, body):
    """Return what comes of a call that hangs when the server is stopped; it runs as NeMo Gym lets it, in uvicorn."""
    with Telemetry() as telemetry, socket.create_server(("127.0.0.1", 0)) as listening:
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        app = app_of(server, telemetry)
        running = uvicorn.Server(uvicorn.Config(app, timeout_graceful_shutdown=0, log_config=None))
        serving = asyncio.ensure_future(running.serve(sockets=[listening]))
        async with httpx.AsyncClient(base_url=url, timeout=60) as client:
            call = asyncio.ensure_future(client.post(path, json=body))
            await HANGS.wait()
            running.should_exit = True
            reply = await call
        await serving
        others = asyncio.all_tasks() - {asyncio.current_task()}
        await asyncio.gather(*others, return_exceptions=True)  # uvicorn does not wait for what it has cancelled
        return came_of(reply, telemetry)


def came_of(reply, telemetry):
    """Return what a call was answered, and what its server reported and counted."""
    report = decode_reports(reply.headers.get_list(HEADER_NAME)) if HEADER_NAME in reply.headers else None
    servers = [span for span in telemetry.spans() if span.kind.name == "SERVER"]
    (span,) = [span for span in servers if span.attributes.get("nemo.gym.rollout.id") != "other-a2"]
    return {
        "status": reply.status_code,
        "body": reply.text,
        "report": None if report is None else report.model_dump(mode="json"),
        "attributes": dict(span.attributes),
        "error": span.status.status_code.name == "ERROR",
        "failures": telemetry.count(),
    }


async def main():
    """Call every server for every case."""
    verify = {"/ng-rollout/3-1-a2/verify": ("well", "judge", "judge behind", "broken", "degraded", "masked")}
    found = {}
    for case in ("well", "told", "told with a kind", "unexpected", "own time-out", "returned"):
        found[f"episode {case}"] = await called(environment(), "/run", episode(case))
    hasty = environment(default_episode_timeout_seconds=0.1)
    found["episode too slow"] = await called(hasty, "/run", episode("too slow"))
    full = environment(max_concurrent_episodes=1, queue_timeout_seconds=0.1)
    found["episode not admitted"] = await called(full, "/run", episode("well"), held=True)
    for path, cases in verify.items():
        for case in cases:
            found[f"verify {case}"] = await called(resources(), path, ASKED | {"response": RESPONSE, "case": case})
        hangs = ASKED | {"response": RESPONSE, "case": "hangs"}
        found["verify at shutdown"] = await stopped(resources(), path, hangs)
    for kind, path, asked in (
        ("responses", "/v1/responses", {"input": "?"}),
        ("chat", "/v1/chat/completions", {"messages": []}),
    ):
        for case in ("well", "broken", "refused"):
            for how, stream in (("plain", {}), ("stream", {"stream": True})):
                found[f"{kind} {how} {case}"] = await called(model(), path, asked | {"model": case} | stream)
    return found


nemo_gym.install()
Path(sys.argv[1]).write_text(json.dumps(asyncio.run(main())))
