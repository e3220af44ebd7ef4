"""NeMo Gym's configuration of the bed, and the calls that are made beside the rollouts."""

from tests.gym.bed import scenarios

EPISODE_SECONDS = 12
"""How long an environment server waits for an episode: enough for those that end, on a busy machine too."""


def config(folder, head, provider):
    """Return NeMo Gym's configuration of the bed."""

    def episodes(resources):
        """Return an environment server that owns its episodes."""
        return {
            "entrypoint": "app.py",
            "resources_server": {"type": "resources_servers", "name": resources},
            "agent_server": {"type": "responses_api_agents", "name": "agent"},
            "resources_tool_transports": ["direct_http"],
            "max_concurrent_episodes": None if resources == "resources" else 1,
            "queue_timeout_seconds": None if resources == "resources" else 1,
            "default_episode_timeout_seconds": EPISODE_SECONDS,
            "cleanup_timeout_seconds": 2,
        }

    flaky = {"entrypoint": "app.py", "domain": "agent", "verified": False, "description": "fails on demand"}
    model = {"entrypoint": "app.py", "openai_base_url": f"{provider}/v1", "openai_api_key": "none"}
    return {
        "observability_enabled": True,
        "model_call_capture_dir": str(folder / "capture"),
        "head_server": {"host": "127.0.0.1", "port": head},
        "default_host": "127.0.0.1",
        "model": {"responses_api_models": {"openai_model": model | {"openai_model": "stand-in"}}},
        "resources": {"resources_servers": {"flaky": flaky}},
        "fragile_resources": {"resources_servers": {"flaky": flaky}},
        "agent": {
            "responses_api_agents": {
                "simple_agent": {
                    "entrypoint": "app.py",
                    "max_steps": 4,
                    "resources_server": {"type": "resources_servers", "name": "resources"},
                    "model_server": {"type": "responses_api_models", "name": "model"},
                }
            }
        },
        scenarios.RELAY: {
            "environment_servers": {
                "relay": {
                    "entrypoint": "app.py",
                    "agent_server": {"type": "responses_api_agents", "name": "agent"},
                }
            }
        },
        scenarios.TURN: {"environment_servers": {"turn": episodes("resources")}},
        scenarios.FRAGILE: {"environment_servers": {"turn": episodes("fragile_resources")}},
    }


def calls():
    """Return the calls beside the rollouts, in the order of their scenarios."""
    made = []
    for scenario in scenarios.CALLS:
        question = scenarios.question(scenario)
        chat = {"messages": question["input"], "stream": True}
        how, server, path, asked = {
            "chat": ("stream", "model", "/v1/chat/completions", chat),
            "responses": ("stream", "model", "/v1/responses", question | {"stream": True}),
            "events": ("stream", "resources", "/events", question),
            "model": ("leave", "model", "/v1/responses", question),
            "run": ("leave", scenarios.RELAY, "/run", {"responses_create_params": question}),
            "queued": ("follow", scenarios.FRAGILE, "/run", scenarios.episode("queued-ok")),
        }[scenario.partition("-")[0]]
        made.append({"scenario": scenario, "how": how, "server": server, "path": path, "asked": asked})
    return made
