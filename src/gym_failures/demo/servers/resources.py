"""The resources server: it seeds a session, and verifies what came of it with the help of a judge."""

from typing import Final

from fastapi import FastAPI

from gym_failures import kinds
from gym_failures.demo import plan
from gym_failures.demo.peers import Peers, Work
from gym_failures.demo.servers.base import server
from gym_failures.demo.settings import Settings
from gym_failures.errors import FailureError
from gym_failures.instrumentation.asgi.scope import Scope
from gym_failures.kinds import FailureBoundary, FailureStage
from gym_failures.log import current_log

_STAGES: Final = {"/seed_session": FailureStage.SEED, "/verify": FailureStage.VERIFICATION}
_EXPECTED: Final = {"task": "42"}


def app(settings: Settings) -> FastAPI:
    """Return the app."""
    peers = Peers(settings)
    resources = server(peers, FailureBoundary.RESOURCES_SERVER, stage=_stage)

    @resources.post("/seed_session")
    async def seed_session(work: Work) -> dict[str, str]:
        if work.fault == plan.NAMESPACED_KIND:
            raise _failed("resources_server:no_such_city", "no weather is known of the city in this task")
        if work.fault == plan.UNREGISTERED_KIND:
            raise _failed("weather_station_offline", "the station did not answer")
        return {"session": work.rollout_id}

    @resources.post("/verify")
    async def verify(work: Work) -> dict[str, float]:
        right = _EXPECTED["answer" if work.fault == plan.VERIFIER_ERROR else "task"]
        judge = work.model_copy(update={"text": f"Judge whether this says {right}: {work.text}"})
        verdict = await peers.ask("model", "/v1/responses", judge)
        return {"reward": _reward(str(verdict["text"]))}

    return resources


def _stage(scope: Scope) -> FailureStage | None:
    return _STAGES.get(scope["path"])


def _failed(kind: str, reason: str) -> FailureError:
    return FailureError(kind, boundary=FailureBoundary.RESOURCES_SERVER, reason=reason)


def _reward(verdict: str) -> float:
    """Return the reward; a verdict that says none is a reward of 0, and a failure all the same."""
    try:
        return float(verdict)
    except ValueError as error:
        log = current_log()
        if log is not None:
            failure = _failed(kinds.JUDGE_UNPARSEABLE, f"the judge said {verdict!r}")
            failure.__cause__ = error
            log.fail(failure)
        return 0.0
