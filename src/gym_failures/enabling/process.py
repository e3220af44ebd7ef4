"""Which of a NeMo Gym's processes this one is, as its launcher says in the environment."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Self

from gym_failures.kinds import FailureBoundary

_NAME: Final = "NEMO_GYM_CONFIG_PATH"
"""Holds the name of this server, the key of its part of the configuration."""
_CONFIGURATION: Final = "NEMO_GYM_CONFIG_DICT"
"""Holds the configuration of all servers, as the YAML that OmegaConf writes: in blocks, a key a line."""

RUN_ID: Final = "_GYM_FAILURES_RUN_ID"
"""Holds the id of one call of `gym-failures run`, for all processes below it."""

_BOUNDARIES: Final = {
    "environment_servers": FailureBoundary.ENVIRONMENT,
    "resources_servers": FailureBoundary.RESOURCES_SERVER,
    "responses_api_agents": FailureBoundary.AGENT,
    "responses_api_models": FailureBoundary.MODEL,
}
"""Types of servers, by the names of their folders in NeMo Gym, and where each observes failures."""


@dataclass(frozen=True, slots=True)
class Process:
    """Name a server and its type; both are None where nothing says so, as in a client."""

    name: str | None = None
    type: str | None = None

    @classmethod
    def of(cls, environ: Mapping[str, str]) -> Self:
        """Read what the launcher of a server says in `environ`."""
        name = environ.get(_NAME)
        return cls(name, _type_of(name, environ.get(_CONFIGURATION, ""))) if name else cls()

    @property
    def boundary(self) -> FailureBoundary | None:
        """Where this process observes failures; None for a type that is not known."""
        return _BOUNDARIES.get(self.type or "")


def _type_of(name: str, configuration: str) -> str | None:
    """Return the first key beneath the key `name`, if that is a type of servers.

    Read by hand: the text can be thousands of lines, and a YAML reader in Python takes a second for those.
    """
    for key in (name, f"'{name}'", f'"{name}"'):
        _, found, rest = f"\n{configuration}".partition(f"\n{key}:\n")
        first = rest.partition(":")[0].strip()
        if found and first in _BOUNDARIES:
            return first
    return None
