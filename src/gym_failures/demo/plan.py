"""What goes wrong in the demo, and in how many rollouts."""

import random
from typing import Final, NamedTuple


class Fault(NamedTuple):
    """One way for a rollout to end."""

    name: str
    rollouts: int
    """How many of the rollouts meet it."""
    says: str
    """What happens, for people."""


HEALTHY: Final = "healthy"
AGENT_TIMEOUT: Final = "agent_timeout"
CLIENT_CANCEL: Final = "client_cancel"
CONNECTION_RESET: Final = "connection_reset"
GAP: Final = "gap"
JUDGE_UNPARSEABLE: Final = "judge_unparseable"
NAMESPACED_KIND: Final = "namespaced_kind"
PEER_KILLED: Final = "peer_killed"
PROVIDER_401: Final = "provider_401"
PROVIDER_429: Final = "provider_429"
SANDBOX_OOM: Final = "sandbox_oom"
STREAM_BROKEN: Final = "stream_broken"
UNREGISTERED_KIND: Final = "unregistered_kind"
VERIFIER_ERROR: Final = "verifier_error"

FAULTS: Final = (
    Fault(HEALTHY, 9, "nothing goes wrong"),
    Fault(PROVIDER_401, 3, "the provider denies access to the model server"),
    Fault(PROVIDER_429, 3, "the provider's quota is used up, in each of three attempts"),
    Fault(CONNECTION_RESET, 3, "the provider resets the connection, and a second attempt goes well"),
    Fault(STREAM_BROKEN, 3, "the model's stream breaks in the middle"),
    Fault(AGENT_TIMEOUT, 2, "the model is too slow for the agent"),
    Fault(SANDBOX_OOM, 3, "the sandbox runs out of memory"),
    Fault(VERIFIER_ERROR, 3, "the verifier raises an exception"),
    Fault(JUDGE_UNPARSEABLE, 3, "the judge answers, but not with a verdict: a reply of 200"),
    Fault(NAMESPACED_KIND, 2, "the resources server fails with a kind of its own"),
    Fault(UNREGISTERED_KIND, 2, "the resources server fails with a kind that nobody has registered"),
    Fault(CLIENT_CANCEL, 1, "the collection client calls the rollout off"),
    Fault(GAP, 2, "a server without this package stands between the agent and the sandbox"),
    Fault(PEER_KILLED, 1, "the sandbox server is killed in the middle of a request"),
)


class Rollout(NamedTuple):
    """One rollout to be run."""

    rollout_id: str
    fault: str


def plan(seed: int) -> list[Rollout]:
    """Return the rollouts in an order that depends on `seed`; their number and their faults do not."""
    faults = [fault.name for fault in FAULTS if fault.name != PEER_KILLED for _ in range(fault.rollouts)]
    random.Random(seed).shuffle(faults)  # noqa: S311 - an order, not a secret
    # Whatever else was going through that server would fail with it, so its end is the end of the run.
    faults.append(PEER_KILLED)
    return [Rollout(f"r{number:02}", fault) for number, fault in enumerate(faults, 1)]
