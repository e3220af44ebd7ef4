"""NeMo Gym's legacy_agent as it is, but that it starts no Ray cluster of its own."""

from environment_servers.legacy_agent.app import LegacyAgentEnvironmentServer


class Relay(LegacyAgentEnvironmentServer):
    """Relays an episode to the agent."""

    ray_enabled = False


if __name__ == "__main__":
    Relay.run_webserver()
