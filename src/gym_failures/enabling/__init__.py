"""Tracing switched on in a process of NeMo Gym whose program knows nothing of it."""

import os
from dataclasses import replace
from importlib import import_module
from importlib.util import find_spec
from typing import Final

from gym_failures.config import Config
from gym_failures.enabling.process import Process
from gym_failures.enabling.tracing import Tracing
from gym_failures.guard import Guard
from gym_failures.kinds import FailureBoundary
from gym_failures.misuse import MissingExtraError

_GUARD: Final = Guard("enable")
_OF_NEMO_GYM: Final = "gym_failures.instrumentation.nemo_gym"

_enabled: Final[list[Tracing]] = []
"""What the first call has begun."""


def enable(
    *,
    server_name: str | None = None,
    server_type: str | None = None,
    boundary: FailureBoundary | str | None = None,
    config: Config | None = None,
) -> bool:
    """Trace this process as `gym-failures run` does: its apps, its calls with aiohttp and httpx, and their failures.

    Call it in the module that makes the app, before the server starts, so that every worker does. Only the first call
    in a process counts. Tells whether tracing is on: not with `GYM_FAILURES_ENABLED=false`.

    `server_name` and `server_type` name a server in the terms of NeMo Gym ("policy_model", "responses_api_models");
    None takes what its launcher says in the environment. `boundary` is where the process observes failures; None takes
    that of the type. `config` None reads GYM_FAILURES_*, and raises ConfigError for a value that cannot be used.

    OpenTelemetry's SDK is set up just before the first request, by its own variables, unless the program has set a
    TracerProvider by then, or nemo-lens has: theirs is used. Without an endpoint spans go to files in `config.traces`.
    Raises MissingExtraError without the extra `gym`.
    """
    chosen = Config.from_env() if config is None else config
    if boundary is not None:
        chosen = replace(chosen, boundary=boundary)
    if not chosen.enabled:
        return False
    if _enabled:
        return True
    try:
        from gym_failures.enabling.first_use import watch  # noqa: PLC0415 - the name alone needs no extra
    except ModuleNotFoundError as error:
        raise MissingExtraError("tracing", error.name or "", "gym") from error
    launched = Process.of(os.environ)
    _enabled.append(Tracing(chosen, Process(server_name or launched.name, server_type or launched.type)))
    watch(_enabled[0])
    with _GUARD:
        if find_spec(_OF_NEMO_GYM) is not None:
            import_module(_OF_NEMO_GYM).install(prepare=_enabled[0].before_a_span)
    return True
