"""The calls that NeMo Gym repeats: however many requests one makes, they are the attempts of one operation."""

import functools
import inspect
import sys
from typing import Any, Final

from gym_failures.carried import remembered
from gym_failures.guard import Guard
from gym_failures.instrumentation.nemo_gym.hooks import Hook
from gym_failures.instrumentation.nemo_gym.identity import value_of
from gym_failures.log import current_log
from gym_failures.marks import mark_of, set_mark
from gym_failures.operations import Operation, current_operation, operation
from gym_failures.patching import Method

_GUARD: Final = Guard("nemo_gym_attempts")


def _as_one_operation(call: Method) -> Method:
    @functools.wraps(call)
    async def opening(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - as the function
        with operation():
            return await call(*args, **kwargs)

    @functools.wraps(call)
    def calling(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - as the function
        # Within an operation nothing is added, not even a coroutine: thousands of calls can wait at a time.
        return (opening if current_operation() is None else call)(*args, **kwargs)

    if sys.version_info >= (3, 12):  # as NeMo Gym needs; before, nothing could be said to give a coroutine
        return inspect.markcoroutinefunction(calling)
    return opening


def _of_a_provider(call: Method) -> Method:
    """Wrap a call that gives up on some replies with an exception which does not hold the reply."""

    @functools.wraps(call)
    async def calling(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - as the method
        with operation() as one:
            try:
                waiting = call(*args, **kwargs)
                del args, kwargs  # Thousands of calls can wait at a time.
                return await waiting
            except Exception as error:
                with _GUARD:
                    _link(error, one)
                raise

    return calling


def _marking(raise_for_status: Method) -> Method:
    """Wrap aiohttp's own, because NeMo Gym then exchanges the headers by which the error is known to be the reply's."""

    @functools.wraps(raise_for_status)
    def marking(response: Any) -> Any:  # noqa: ANN401 - as the method
        try:
            return raise_for_status(response)
        except Exception as error:
            with _GUARD:
                mark = remembered(response)
                if mark is not None and mark_of(error) is None:
                    set_mark(error, mark)
            raise

    return marking


def _link(error: Exception, one: Operation) -> None:
    """Let an exception without a reply stand for the failure of the last attempt, if it tells that one's status."""
    log, status = current_log(), value_of(error, "status")
    if log is None or one.attempt_id is None or status is None or value_of(error, "headers") is not None:
        return
    if mark_of(error) is not None:
        return
    for event in log.report().events.values():
        if event.attempt_id == one.attempt_id and event.http_status == status:
            set_mark(error, log.mark(event))


HOOKS: Final = {
    "aiohttp": (Hook("ClientResponse.raise_for_status", _marking),),
    # Between servers, for as long as it takes.
    "nemo_gym.server_utils": (Hook("_request_with_retries", _as_one_operation),),
    # To a provider, around those: what it answers with 429 or 5xx is asked again.
    "nemo_gym.openai_utils": (Hook("NeMoGymAsyncOpenAI._request", _of_a_provider),),
}
