"""What a user is to see of each scenario of the bed: one table.

A failure is named by the boundary that observed it and its kind.
"""

from collections import Counter
from dataclasses import dataclass, field

RELAYED = ("collection:agent_run_error", "environment:environment_server_failed", "agent:agent_run_error")
"""How a failure of an agent's episode comes up through the relay: NeMo Gym's own label is on top."""
IN_THE_MODEL = (*RELAYED, "agent:agent_run_error")
"""As that, for a failure of the model server: the agent calls itself in between."""
OWNED = ("environment:environment_server_failed",)
"""How it comes up where the environment server owns the episode: as a result that tells of a failure."""

UNAUTHORIZED = {"http_status": 401}
TOO_MANY = {"http_status": 429}
RAISED = {"exception_type": "RuntimeError"}
ADMISSION = {"stage": "admission"}
SEED = {"stage": "seed"}
AGENT = {"stage": "agent"}
VERIFICATION = {"stage": "verification"}
CLEANUP = {"stage": "cleanup"}


@dataclass(frozen=True)
class Case:
    """What is to be seen of a rollout."""

    chain: tuple[str, ...] = ()
    """Its own failure and the causes of that, the root cause last; empty for a rollout that recovered."""
    root: dict[str, object] = field(default_factory=dict)
    """What is known of the root cause; of what was recovered from, where there is no chain."""
    beside: tuple[str, ...] = ()
    """What else failed, each as often as it did."""
    beneath: tuple[str, ...] = ()
    """What only the trace knows, because nobody waited for that reply any more."""
    repeated: tuple[str, ...] = ()
    """Failures beside that come as often as there is time."""
    verdict: bool = False
    """Whether it is the verifier's word in a result that makes the failure the rollout's own."""


UNAVAILABLE = "model:provider_unavailable"
QUOTA = "model:provider_quota_exhausted"
TOOL = "resources_server:resources_server:tool_error"
VERIFIER = "resources_server:verifier_error"

ROLLOUTS = {
    "relay-ok": Case(),
    "relay-m401": Case((*IN_THE_MODEL, UNAVAILABLE), UNAUTHORIZED | AGENT),
    "relay-m401-2": Case((*IN_THE_MODEL, UNAVAILABLE), UNAUTHORIZED | AGENT),
    "relay-m429": Case((*IN_THE_MODEL, QUOTA), TOO_MANY | AGENT, beside=(QUOTA, QUOTA)),
    "relay-m429-2": Case((*IN_THE_MODEL, QUOTA), TOO_MANY | AGENT, beside=(QUOTA, QUOTA)),
    "relay-m429once": Case((), TOO_MANY | AGENT, beside=(QUOTA,)),
    "relay-m500": Case((*IN_THE_MODEL, UNAVAILABLE), {"http_status": 500} | AGENT, beside=(UNAVAILABLE,) * 2),
    "relay-mdrop3": Case((), AGENT, beside=("model:transport_peer_drop",) * 3),
    "relay-mgarbage": Case((*IN_THE_MODEL, "model:protocol_violation"), AGENT),
    "relay-traise": Case((), RAISED, beside=(TOOL,)),
    # A model that asks for a tool which is not there, or not as it wants to be asked, is told so: nothing has failed.
    "relay-tmissing": Case(),
    "relay-tinvalid": Case(),
    "relay-vraise": Case((*RELAYED, VERIFIER), RAISED | VERIFICATION),
    "relay-vjudge": Case(
        ("resources_server:judge_failed",),
        {"exception_type": "nemo_gym.judge.JudgeError", "failure_reason": "the judge answered 503"} | VERIFICATION,
        verdict=True,
    ),
    "relay-vmask": Case(
        ("resources_server:provider_unavailable",),
        {"failure_reason": "the sandbox is gone"} | VERIFICATION,
        verdict=True,
    ),
    "relay-vunreg": Case(
        ("resources_server:my_new_kind",),
        {"failure_reason": "nobody knows this kind"} | VERIFICATION,
        verdict=True,
    ),
    "turn-ok": Case(),
    "turn-m401": Case((*OWNED, "agent:agent_run_error", UNAVAILABLE), UNAUTHORIZED | AGENT),
    "turn-mhang": Case(("environment:agent_timeout",), beneath=("agent:cancelled", "model:cancelled")),
    "turn-sraise": Case((*OWNED, TOOL), RAISED | SEED),
    "turn-traise": Case((), RAISED, beside=(TOOL,)),
    "turn-vraise": Case((*OWNED, VERIFIER), RAISED | VERIFICATION),
    # It is closed once after the verdict and once more at the end.
    "turn-craise": Case((), RAISED | CLEANUP, beside=(TOOL, TOOL)),
    "fragile-vdie": Case(
        ("environment:agent_timeout",),
        beside=("environment:transport_peer_drop",),
        repeated=("environment:transport_unreachable",),
    ),
}
"""What is to be seen of each rollout."""


@dataclass(frozen=True)
class Call:
    """What is to be seen of a call beside the rollouts."""

    chain: tuple[str, ...] = ()
    """What its reply tells, in its header or in the last comment of its stream, the root cause last."""
    root: dict[str, object] = field(default_factory=dict)
    """What is known of the root cause."""
    late: bool = False
    """Whether the reply had begun, so that only its stream could tell."""


CALLS = {
    "chat-ok": Call(),
    "chat-m401": Call((UNAVAILABLE,), UNAUTHORIZED | AGENT),
    "chat-mlate": Call((UNAVAILABLE,), UNAUTHORIZED | AGENT, late=True),
    "responses-ok": Call(),
    "responses-m401": Call((UNAVAILABLE,), UNAUTHORIZED | AGENT),
    "events-raise": Call((TOOL,), RAISED, late=True),
    "queued-ok": Call(OWNED, ADMISSION | {"failure_reason": "Episode admission timed out"}),
}
"""What is to be seen of each call that has a reply."""

LEFT = {
    "model-mhang": ("model:cancelled",),
    "run-mhang": (
        "agent:cancelled", "agent:cancelled", "collection:cancelled", "environment:cancelled", "model:cancelled",
    ),
}  # fmt: skip
"""What is told of each call that was left in the middle."""


def everything():
    """Return how often each failure happens in a run of the bed, but for those that come as often as there is time."""
    told = Counter()
    for case in ROLLOUTS.values():
        told.update((*case.chain, *case.beside, *case.beneath))
    for call in CALLS.values():
        told.update(call.chain)
    for left in LEFT.values():
        told.update(left)
    return told
