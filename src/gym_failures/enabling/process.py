"""Which of a NeMo Gym's processes this one is, as its launcher says in the environment."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Self

from gym_failures import gym_configuration
from gym_failures.kinds import FailureBoundary

_NAME: Final = "NEMO_GYM_CONFIG_PATH"
"""Holds the name of this server, the key of its part of the configuration."""
RUN_ID: Final = "_GYM_FAILURES_RUN_ID"
"""Holds the id of one call of `gym-failures run`, for all processes below it."""


@dataclass(frozen=True, slots=True)
class Process:
    """Name a server and its type; both are None where nothing says so, as in a client."""

    name: str | None = None
    type: str | None = None

    @classmethod
    def of(cls, environ: Mapping[str, str]) -> Self:
        """Read what the launcher of a server says in `environ`."""
        name = environ.get(_NAME)
        return (
            cls(name, gym_configuration.type_of(name, environ.get(gym_configuration.VARIABLE, ""))) if name else cls()
        )

    @property
    def boundary(self) -> FailureBoundary | None:
        """Where this process observes failures; None for a type that is not known."""
        return gym_configuration.BOUNDARIES.get(self.type or "")
