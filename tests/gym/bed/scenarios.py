"""What goes wrong in the bed, and on which way through NeMo Gym.

A scenario is named `<route>-<fault>`, with a number behind where the same happens to several rollouts.
"""

import json

RELAY = "relay"
"""An environment server that relays to an agent, which owns the episode (legacy_agent)."""
TURN = "turn"
"""An environment server that owns the episode and answers 200 when it fails (single_agent_turn)."""
FRAGILE = "fragile"
"""As TURN, with a resources server of its own, which dies."""

# No judge that fails on the route TURN: what the verifier then says ends NeMo Gym 0.7.0's whole collection, because the
# result of an episode has keys that are the collection's own (`rollout_collection._episode_record`).
ROLLOUTS = (
    "relay-ok",
    "relay-m401",
    "relay-m401-2",
    "relay-m429",
    "relay-m429-2",
    "relay-m429once",
    "relay-m500",
    "relay-mdrop3",
    "relay-mgarbage",
    "relay-traise",
    "relay-tmissing",
    "relay-tinvalid",
    "relay-vraise",
    "relay-vjudge",
    "relay-vmask",
    "relay-vunreg",
    "turn-ok",
    "turn-m401",
    "turn-mhang",
    "turn-sraise",
    "turn-traise",
    "turn-vraise",
    "turn-craise",
    "fragile-vdie",
)
"""The rollouts that NeMo Gym collects, in order: the position is the task's index."""

CALLS = (
    "chat-ok",
    "chat-m401",
    "chat-mlate",
    "responses-ok",
    "responses-m401",
    "events-raise",
    "model-mhang",
    "run-mhang",
    "queued-ok",
)
"""What the driver calls beside them: streams, calls that it leaves in the middle, and one that has to queue."""

_TOOL = {
    "type": "function",
    "name": "get_weather",
    "description": "",
    "strict": True,
    "parameters": {
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
        "additionalProperties": False,
    },
}


def mark(scenario):
    """Return the mark that a rollout carries."""
    return f"[scenario:{scenario}]"


def question(scenario):
    """Return what a rollout asks the model."""
    return {"input": [{"role": "user", "content": f"What is the weather? {mark(scenario)}"}], "tools": [_TOOL]}


def row(scenario):
    """Return a rollout as a line of a data set: flat for the relay, and materialized for the other routes."""
    if scenario.startswith(RELAY):
        agent = {"type": "responses_api_agents", "name": "agent"}
        return {"responses_create_params": question(scenario), "agent_ref": agent, "scenario": scenario}
    return {
        "task_id": {"taskset": scenario.partition("-")[0], "task_id": scenario},
        "task_input": {"responses_create_params": question(scenario), "task_data": {"scenario": mark(scenario)}},
        "agent_ref": {"type": "responses_api_agents", "name": "agent"},
    }


def episode(scenario):
    """Return an episode of a materialized task, as the collection asks an environment server for it."""
    task = {part: value for part, value in row(scenario).items() if part != "agent_ref"}
    return {"episode_id": {"rollout_id": scenario, "attempt": 0}, "task": task}


def dataset():
    """Return the data set as text."""
    return "".join(json.dumps(row(scenario)) + "\n" for scenario in ROLLOUTS)
