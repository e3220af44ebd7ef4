"""Failures that NeMo Gym answers with a 200: said in the body alone, where nothing that looks at replies sees them."""

import functools
import sys
from typing import Any, Final

from gym_failures import kinds, limits
from gym_failures.exceptions import FailureError
from gym_failures.guard import Guard
from gym_failures.ids import new_id
from gym_failures.instrumentation.asgi.exchange import SCOPE_KEY
from gym_failures.instrumentation.nemo_gym.hooks import Hook
from gym_failures.instrumentation.nemo_gym.identity import value_of
from gym_failures.kinds import FailureStage
from gym_failures.log import FailureLog, current_log
from gym_failures.marks import cause_of
from gym_failures.patching import Method
from gym_failures.records import FailureEvent
from gym_failures.shapes import lenient_event
from gym_failures.text import type_name

_GUARD: Final = Guard("nemo_gym_swallowed")

_WATCHED: Final = "_gym_failures_watched"
"""On a function that is wrapped already: one module has it from another, by name, before that is hooked or after."""


# --- Verification. ----------------------------------------------------------------------------------------------------


def _watched_failsafe(failsafe: Method) -> Method:
    """Wrap what turns the error of a judge into a reply: the verification within is watched."""
    if hasattr(failsafe, _WATCHED):
        return failsafe

    @functools.wraps(failsafe)
    def wrapping(verify_fn: Method, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - as the function
        return failsafe(_watched_verification(verify_fn), *args, **kwargs)

    setattr(wrapping, _WATCHED, True)
    return wrapping


def _watched_verification(verify: Method) -> Method:
    # FastAPI and the failsafe read the signature of what is wrapped, so it may be wrapped as often as one likes.
    @functools.wraps(verify)
    async def watched(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - as the method
        try:
            verified = await verify(*args, **kwargs)
        except Exception as error:
            with _GUARD:
                if _is_of_judge(error) and (log := current_log()) is not None:
                    log.fail(error)
            raise
        with _GUARD:
            _observe_verified(verified)
        return verified

    return watched


def _is_of_judge(error: Exception) -> bool:
    return any((base.__module__, base.__name__) == ("nemo_gym.judge", "JudgeError") for base in type(error).__mro__)


def _observe_verified(verified: object) -> None:
    """Observe what a verification says of itself: it failed when its sample is masked, else it recovered."""
    kind = value_of(verified, "failure_kind")
    if not isinstance(kind, str) or not kind:
        return
    log = current_log()  # Only now, because to ask for the log of a request makes one.
    if log is None:
        return
    event = _event(log, kind, value_of(verified, "failure_reason"), FailureStage.VERIFICATION)
    if value_of(verified, "mask_sample"):
        log.fail(event)
    else:
        log.observe_failure(event)


# --- Streams of models. -----------------------------------------------------------------------------------------------


def _observing_failed_stream(synthesize: Method) -> Method:
    """Wrap what makes the last event of a Responses stream out of the exception that is being handled."""

    @functools.wraps(synthesize)
    def observing(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - as the function
        error, log = sys.exception(), current_log()
        with _GUARD:
            if isinstance(error, Exception) and log is not None and not _is_refusal(error):
                log.fail(error)
        return synthesize(*args, **kwargs)

    return observing


def _observing_completion(invoke: Method) -> Method:
    """Wrap the call for a chat completion: once its stream has begun, nobody else sees its exception."""

    @functools.wraps(invoke)
    async def observing(server: Any, request: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - as the method
        try:
            return await invoke(server, request, *args, **kwargs)
        except Exception as error:
            with _GUARD:
                exchange = request.scope.get(SCOPE_KEY)
                if exchange is not None and not _is_refusal(error):
                    # Before that, whoever waits for it raises it, and what becomes of the request is seen there.
                    (exchange.log.fail if exchange.begun else exchange.log.observe_failure)(error)
            raise

    return observing


def _is_refusal(error: Exception) -> bool:
    """Tell whether a server means that the request was wrong, and answers a plain one with a 4xx: no failure of its."""
    starlette = sys.modules.get("starlette.exceptions")
    return (
        starlette is not None
        and isinstance(error, starlette.HTTPException)
        and error.status_code < limits.SERVER_ERROR_STATUS
    )


# --- Episodes. --------------------------------------------------------------------------------------------------------


def _observing_episode(respond: Method) -> Method:
    """Wrap what makes the reply of an episode that failed, while the exception is being handled."""

    @functools.wraps(respond)
    def observing(server: Any, request: Any, failure: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - as the method
        error, log = sys.exception(), current_log()
        if log is not None:
            with _GUARD:
                log.fail(_failure_of_episode(log, failure, error))
        return respond(server, request, failure, *args, **kwargs)

    return observing


def _failure_of_episode(log: FailureLog, failure: object, error: BaseException | None) -> BaseException | FailureEvent:
    """Return what an episode failed with: an unexpected exception itself, else the failure that NeMo Gym tells.

    It tells one where an exception of its own carries it, whose causes are the failure's; where the time that it gives
    is over, which alone is worth another attempt; and where there is no exception.
    """
    carried = error is not None and value_of(error, "failure") is failure
    ran_out = isinstance(error, TimeoutError) and not value_of(failure, "terminal")
    if error is not None and not carried and not ran_out:
        return error
    stage = value_of(failure, "stage")
    kind = value_of(failure, "failure_kind")
    if not kind:
        kind = kinds.AGENT_TIMEOUT if ran_out and stage is None else kinds.ENVIRONMENT_SERVER_FAILED
    event = _event(log, kind, value_of(failure, "failure_reason"), stage)
    if error is None:
        return event
    told = FailureError.of(event.model_copy(update={"exception_type": type_name(error)}))
    told.__cause__ = cause_of(error) if carried else None  # a time-out is caused by how it is made
    return told


def _event(log: FailureLog, kind: str, reason: object, stage: object) -> FailureEvent:
    return lenient_event(
        {
            "event_id": new_id(),
            "boundary": log.boundary,
            "failure_kind": kind,
            "failure_reason": reason or "",
            "stage": stage,
            "operation": log.operation,
        }
    )


HOOKS: Final = {
    "nemo_gym.judge": (Hook("judge_failsafe", _watched_failsafe),),
    "nemo_gym.base_resources_server": (Hook("judge_failsafe", _watched_failsafe),),
    "nemo_gym.base_responses_api_model": (
        Hook("synthesize_responses_failure_sse", _observing_failed_stream),
        Hook("SimpleResponsesAPIModel._invoke_chat_completions", _observing_completion),
    ),
    "nemo_gym.base_environment_server": (Hook("BaseEnvironmentServer.failure_response", _observing_episode),),
}
