"""NeMo Gym's servers and its collection client, observed by hooks in NeMo Gym itself.

Nothing of NeMo Gym is imported for their sake: each hook waits until its module is. Nearly all that they wrap is
private there and may be missing, so each stands for itself: docs/reference/nemo-gym-hooks.md says what it gives.
"""

from collections.abc import Callable
from typing import Final

from gym_failures.instrumentation.nemo_gym.hooks import Hooks

__all__ = ["install", "uninstall"]

_GROUPS: Final = {
    "aiohttp": ("attempts",),
    "nemo_gym.base_environment_server": ("servers", "swallowed"),
    "nemo_gym.base_resources_server": ("swallowed",),
    "nemo_gym.base_responses_api_agent": ("servers",),
    "nemo_gym.base_responses_api_model": ("swallowed",),
    "nemo_gym.judge": ("swallowed",),
    "nemo_gym.openai_utils": ("attempts",),
    "nemo_gym.rollout_collection": ("collection",),
    "nemo_gym.server_utils": ("servers", "attempts", "collection", "peers"),
}
"""The modules that are hooked, and which modules of this package hold the hooks: imported when those are."""

_hooks: Final = Hooks(__name__, _GROUPS)
_prepare: Final[list[Callable[[], object]]] = []


def install(*, prepare: Callable[[], object] | None = None) -> None:
    """Observe this process's part in NeMo Gym, whether that is imported already or will be; a second call does nothing.

    `prepare` is called before the span of each rollout that this process collects, such as to have OpenTelemetry's SDK
    set up by then; None needs nothing. Clients are watched by `GymFailuresInstrumentor`.
    """
    if prepare is not None and prepare not in _prepare:
        _prepare.append(prepare)
    _hooks.install()


def uninstall() -> None:
    """Undo `install`. Apps that were instrumented stay so."""
    _prepare.clear()
    _hooks.uninstall()


def prepare() -> None:
    """Call what `install` was given, before a span is opened where nothing else would have seen to it."""
    for one in _prepare:
        one()
