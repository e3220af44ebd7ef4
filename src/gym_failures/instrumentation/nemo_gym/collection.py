"""NeMo Gym's collection client: where a rollout begins and ends, and where its row is made.

A rollout is a call of ``/run`` by whoever serves no request himself. It begins with that call. It ends when the row is
made of the reply, or else with the task that called.
"""

import functools
from typing import Any, Final

from opentelemetry import trace

from gym_failures import rows
from gym_failures.guard import Guard
from gym_failures.instrumentation.nemo_gym.hooks import Hook
from gym_failures.instrumentation.nemo_gym.rollout import Rollout, begin, of_error, of_reply
from gym_failures.patching import Method

_GUARD: Final = Guard("nemo_gym_collection")

_RUN: Final = "/run"


def _beginning_rollout(request: Method) -> Method:
    """Wrap the client that all calls between servers go through."""

    @functools.wraps(request)
    async def beginning(client: Any, server_name: Any, url_path: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - as the method
        rollout: Rollout | None = None
        if url_path == _RUN:
            with _GUARD:
                rollout = begin(kwargs.get("json"))
        if rollout is None:
            return await request(client, server_name, url_path, *args, **kwargs)
        try:
            with trace.use_span(rollout.span, record_exception=False, set_status_on_exception=False):
                rollout.response = await request(client, server_name, url_path, *args, **kwargs)
        except BaseException as error:
            rollout.error = error
            raise
        return rollout.response

    return beginning


def _noticing_status(raise_for_status: Method) -> Method:
    """Wrap what raises for the status of a reply."""

    @functools.wraps(raise_for_status)
    async def noticing(response: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - as the function
        try:
            return await raise_for_status(response, *args, **kwargs)
        except BaseException as error:
            _notice(response, error)
            raise

    return noticing


def _ending_rollout(get_json: Method) -> Method:
    """Wrap what reads the result of a rollout."""

    @functools.wraps(get_json)
    async def ending(response: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - as the function
        try:
            result = await get_json(response, *args, **kwargs)
        except BaseException as error:
            _notice(response, error)
            raise
        rollout = of_reply(response)
        if rollout is not None:
            with _GUARD:
                keys = rollout.succeed(result)
                if isinstance(result, dict):
                    result.update(keys)
        return result

    return ending


def _notice(response: object, error: BaseException) -> None:
    rollout = of_reply(response)
    if rollout is not None:
        rollout.error = error


def _telling_failed_row(make_row: Method) -> Method:
    """Wrap what makes the row of a rollout that did not come back."""

    @functools.wraps(make_row)
    def telling(exc: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - as the function
        row = make_row(exc, *args, **kwargs)
        with _GUARD:
            rollout = of_error(exc)
            if rollout is not None:
                row.update(rollout.fail(exc, row))
        return row

    return telling


def _keeping_keys(make_record: Method) -> Method:
    """Wrap what makes a row of an episode's result: what stands beside that would be left behind."""

    @functools.wraps(make_record)
    def keeping(response: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - as the function
        record = make_record(response, *args, **kwargs)
        with _GUARD:
            record.update({key: response[key] for key in rows.KEYS if key in response})
        return record

    return keeping


HOOKS: Final = {
    "nemo_gym.server_utils": (Hook("ServerClient.request", _beginning_rollout),),
    "nemo_gym.rollout_collection": (
        Hook("raise_for_status", _noticing_status),
        Hook("get_response_json", _ending_rollout),
        Hook("_agent_request_failure_row", _telling_failed_row),
        Hook("_episode_record", _keeping_keys),
    ),
}
