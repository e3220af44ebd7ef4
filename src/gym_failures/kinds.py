"""The shared names for what failed, where it was seen, and in which part of an episode.

A kind says what went wrong and nothing more: not whether to retry, not whether a result counts, not what to tell a
person. That keeps the names few, so they are safe as a metric label or a span dimension.

The names are NeMo Gym's own, all that its documentation has in `nemo_gym.core.failure_kinds`. Its release 0.7.0 has
them in `nemo_gym.failure_kinds`, but for `environment_server_failed` and `protocol_violation`.

This module imports only the standard library, so that tools can read the vocabulary where neither pydantic nor
OpenTelemetry is installed.
"""

import enum
import logging
import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Self

from gym_failures import limits

logger = logging.getLogger(__name__)

# Both are used with `fullmatch`: `match` with `$` lets a final newline through, and "judge_failed\n" would become a
# second label for the same failure.
_NAME_PATTERN = re.compile(r"[a-z][a-z0-9_]*")
_NAMESPACED_PATTERN = re.compile(f"{_NAME_PATTERN.pattern}:{_NAME_PATTERN.pattern}")

TRANSPORT_UNREACHABLE: Final = "transport_unreachable"
TRANSPORT_PEER_DROP: Final = "transport_peer_drop"
TRANSPORT_TIMEOUT: Final = "transport_timeout"
TRANSPORT_LOCAL_RESOURCE: Final = "transport_local_resource"
AGENT_RUN_ERROR: Final = "agent_run_error"
AGENT_REQUEST_FAILED: Final = "agent_request_failed"
AGENT_TIMEOUT: Final = "agent_timeout"
AGENT_COMMAND_NOT_ALLOWED: Final = "agent_command_not_allowed"
ENVIRONMENT_SERVER_FAILED: Final = "environment_server_failed"
PROTOCOL_VIOLATION: Final = "protocol_violation"
JUDGE_FAILED: Final = "judge_failed"
JUDGE_UNPARSEABLE: Final = "judge_unparseable"
VERIFIER_ERROR: Final = "verifier_error"
PROVIDER_UNAVAILABLE: Final = "provider_unavailable"
PROVIDER_QUOTA_EXHAUSTED: Final = "provider_quota_exhausted"
PROVIDER_OOM_KILLED: Final = "provider_oom_killed"
SESSION_LOST: Final = "session_lost"
SESSION_EXPIRED: Final = "session_expired"
SESSION_RELEASE_FAILED: Final = "session_release_failed"
CANCELLED: Final = "cancelled"
KILL_SHAPED: Final = "kill_shaped"
SHUTDOWN: Final = "shutdown"
PERSISTENCE_FAILED: Final = "persistence_failed"
COHORT_INCOMPLETE: Final = "cohort_incomplete"

KIND_DESCRIPTIONS: Final[Mapping[str, str]] = MappingProxyType(
    {
        TRANSPORT_UNREACHABLE: "No connection to the other process could be made, or its name did not resolve.",
        TRANSPORT_PEER_DROP: "The other process closed or reset the connection before its answer was complete.",
        TRANSPORT_TIMEOUT: "The other process did not connect or answer in time, or HTTP 408 or 504 said so.",
        TRANSPORT_LOCAL_RESOURCE: "This process had no file descriptor, port or memory left to reach another one.",
        AGENT_RUN_ERROR: "The agent or its harness took the run and broke while working on it.",
        AGENT_REQUEST_FAILED: "Something in front of the agent refused the run, so the rollout never started.",
        AGENT_TIMEOUT: "The agent or its harness did not finish within the time given to the rollout.",
        AGENT_COMMAND_NOT_ALLOWED: "The agent asked for a command that it is not allowed to run.",
        ENVIRONMENT_SERVER_FAILED: "The environment server did not bring an episode attempt to its end.",
        PROTOCOL_VIOLATION: "A message does not parse, does not validate, or was refused as malformed by its receiver.",
        JUDGE_FAILED: "The judge that scores a result could not be asked, or broke while judging.",
        JUDGE_UNPARSEABLE: "The judge answered, but no verdict could be read from the answer.",
        VERIFIER_ERROR: "The verifier broke instead of returning a score.",
        PROVIDER_UNAVAILABLE: "A provider of models, sandboxes or browsers denied access or could not serve.",
        PROVIDER_QUOTA_EXHAUSTED: "A provider refused because a quota or rate is used up, as with HTTP 429.",
        PROVIDER_OOM_KILLED: "A provider's sandbox or container was killed because it used too much memory.",
        SESSION_LOST: "The resources server no longer knows the session, as after a restart.",
        SESSION_EXPIRED: "The session outlived the time that it was granted.",
        SESSION_RELEASE_FAILED: "The session could not be released, so what it held may still be held.",
        CANCELLED: "The caller called the work off, or went away before the reply.",
        KILL_SHAPED: "The process that did the work was killed from outside, as by SIGTERM or with a Ray actor.",
        SHUTDOWN: "The server was shutting down and gave the work up.",
        PERSISTENCE_FAILED: "A result was reached but could not be saved.",
        COHORT_INCOMPLETE: "A group of rollouts that are scored together lacks some of its members.",
    },
)
"""When each registered kind applies, one sentence each, grouped by the layer that observes it."""

FAILURE_KINDS: Final[frozenset[str]] = frozenset(KIND_DESCRIPTIONS)
"""The registered kinds: the 24 names of the shared vocabulary."""


class _ByValue(enum.Enum):
    """An enum that also finds its members by another enum's member of the same value.

    Another package's enum of the same names, in its records or in their `model_dump()`, is then read like the text.
    One of ours never passes for another of ours: the stage `agent` is not the boundary `agent`.
    """

    @classmethod
    def _missing_(cls, value: object) -> Self | None:
        if isinstance(value, _ByValue) or not isinstance(value, enum.Enum):
            return None
        return cls(value.value)


class FailureStage(_ByValue):
    """Name the part of an episode that failed; unknown, as when a reply got lost, is None and not a stage."""

    ADMISSION = "admission"
    SEED = "seed"
    AGENT = "agent"
    VERIFICATION = "verification"
    CLEANUP = "cleanup"


class FailureBoundary(_ByValue):
    """Name the place that observed a failure; it says who saw it, not who is to blame or what happens next."""

    AGENT = "agent"
    COLLECTION = "collection"
    ENVIRONMENT = "environment"
    HARNESS = "harness"
    MODEL = "model"
    RESOURCES_SERVER = "resources_server"
    SANDBOX = "sandbox"


def is_registered(name: object) -> bool:
    """Tell whether `name` is part of the shared vocabulary; anything but text is not."""
    return isinstance(name, str) and name in FAILURE_KINDS


def is_namespaced(name: object) -> bool:
    """Tell whether `name` is a server's own kind, `<server>:<kind>`; anything but text is not."""
    return isinstance(name, str) and _NAMESPACED_PATTERN.fullmatch(name) is not None


# What was warned about; None stands for all names past the cap. A dict, because `setdefault` looks and claims in one
# atomic step: no lock that a fork could copy in its locked state. Threads that meet at the cap may add one name each.
_WARNED_UNKNOWN: dict[str | None, object] = {}


def validate_failure_kind(name: str | None) -> str | None:
    """Return `name` unchanged and warn, once per name, when it is neither registered nor namespaced.

    A wrong name that is visible is worth more than a failure that was refused for its name, so an unregistered name
    passes. None means that the kind is unknown, and passes too. A process names the first
    `limits.UNREGISTERED_KINDS_NAMED` of them, each by its first `limits.KIND_LENGTH_LOGGED` characters, then
    says once that it names no more. Raises TypeError when `name` is neither text nor None.
    """
    if name is None or is_registered(name) or is_namespaced(name):
        return name
    if not isinstance(name, str):
        raise TypeError(f"a failure kind is a string or None, not {type(name).__name__}")
    start = name[: limits.KIND_LENGTH_LOGGED]
    if start in _WARNED_UNKNOWN:
        return name
    if len(_WARNED_UNKNOWN) < limits.UNREGISTERED_KINDS_NAMED:
        if _claim(start):
            # By its repr: what a peer sent must not break the log line.
            logger.warning(
                "failure kind %r is not registered; use one of gym_failures.kinds.FAILURE_KINDS, or '<server>:<kind>'"
                " for a kind of your own (said once per name)",
                start,
            )
    elif _claim(None):
        logger.warning(
            "more than %d unregistered failure kinds were seen; records keep them all, but no more are named here",
            limits.UNREGISTERED_KINDS_NAMED,
        )
    return name


def _claim(name: str | None) -> bool:
    """Tell exactly one caller, of all threads, that it is the first to ask about `name`."""
    token = object()
    return _WARNED_UNKNOWN.setdefault(name, token) is token
