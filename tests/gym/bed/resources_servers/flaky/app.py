"""A resources server that fails as the mark of a rollout says; it runs in NeMo Gym's environment.

It writes the name of each handler that it enters to `handlers.jsonl`, so that two runs can be compared.
"""

import json
import os
import re
import signal
from pathlib import Path

from fastapi import FastAPI, Request
from fastapi.responses import StreamingResponse
from nemo_gym.base_resources_server import (
    BaseResourcesServerConfig,
    BaseVerifyRequest,
    BaseVerifyResponse,
    ResourcesCloseSessionRequest,
    ResourcesCloseSessionResponse,
    ReverifyMode,
    SimpleResourcesServer,
)
from nemo_gym.judge import JudgeError
from pydantic import BaseModel, PrivateAttr

_MASKED = {
    "vmask": {"mask_sample": True, "failure_kind": "provider_unavailable", "failure_reason": "the sandbox is gone"},
    "vunreg": {"mask_sample": True, "failure_kind": "my_new_kind", "failure_reason": "nobody knows this kind"},
}


def entered(handler, scenario):
    """Write down that a handler was entered, and return the fault of the scenario."""
    with Path(os.environ["BED_FOLDER"], "handlers.jsonl").open("a") as file:
        file.write(json.dumps({"handler": handler, "scenario": scenario}) + "\n")
    return "".join(scenario.split("-")[1:2])


def scenario_in(text):
    """Return the scenario whose mark stands in a text; empty if there is none."""
    found = re.search(r"\[scenario:([a-z0-9-]+)\]", text)
    return found[1] if found else ""


class Place(BaseModel):
    """What the tool is asked. The provider puts the scenario where the city would be."""

    city: str


class FlakyConfig(BaseResourcesServerConfig):
    """Nothing to configure; a rollout can be verified again."""

    REVERIFY_MODE = ReverifyMode.STATELESS


class Flaky(SimpleResourcesServer):
    """Fails on demand in every call of an episode."""

    ray_enabled = False
    config: FlakyConfig
    _scenarios: dict[str, str] = PrivateAttr(default_factory=dict)  # by session

    def setup_webserver(self) -> FastAPI:
        """Add a tool, and a route whose reply is a stream."""
        app = super().setup_webserver()
        app.post("/get_weather")(self.get_weather)
        app.post("/events")(self.events)
        return app

    async def seed_session(self, body: dict) -> dict:
        """Begin a session."""
        scenario = scenario_in(json.dumps(body))
        if entered("seed", scenario) == "sraise":
            raise RuntimeError("no session to be had")
        known = body.get("resources_session_id")
        if known is None:
            return {}
        self._scenarios[known] = scenario
        return {"resources_session_id": known}

    async def get_weather(self, body: Place) -> dict:
        """Be a tool."""
        if entered("tool", scenario_in(body.city)) == "traise":
            raise RuntimeError("the weather service is down")
        return {"city": body.city, "weather": "cold"}

    async def events(self, request: Request) -> StreamingResponse:
        """Answer with a stream of events that breaks off."""
        fault = entered("events", scenario_in((await request.body()).decode()))

        async def stream():
            yield 'data: {"n": 1}\n\n'
            if fault == "raise":
                raise RuntimeError("the stream broke")
            yield 'data: {"n": 2}\n\n'

        return StreamingResponse(stream(), media_type="text/event-stream")

    async def verify(self, body: BaseVerifyRequest) -> BaseVerifyResponse:
        """Score a rollout."""
        fault = entered("verify", scenario_in(body.responses_create_params.model_dump_json()))
        if fault == "vraise":
            raise RuntimeError("the verifier broke")
        if fault == "vjudge":
            raise JudgeError("the judge answered 503")
        if fault == "vdie":
            os.kill(os.getpid(), signal.SIGKILL)
        masked = _MASKED.get(fault, {})
        return BaseVerifyResponse(**body.model_dump(), reward=0.0 if masked else 1.0, **masked)

    async def close_resources_session(self, body: ResourcesCloseSessionRequest) -> ResourcesCloseSessionResponse:
        """End a session."""
        if entered("close", self._scenarios.get(body.resources_session_id, "")) == "craise":
            raise RuntimeError("the session cannot be released")
        return ResourcesCloseSessionResponse(resources_session_id=body.resources_session_id)


if __name__ == "__main__":
    Flaky.run_webserver()
