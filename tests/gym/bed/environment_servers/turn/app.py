"""NeMo Gym's single_agent_turn as it is, but that it starts no Ray cluster of its own."""

from environment_servers.single_agent_turn.app import SingleAgentTurnEnvironmentServer


class Turn(SingleAgentTurnEnvironmentServer):
    """Owns an episode of one turn."""

    ray_enabled = False


if __name__ == "__main__":
    Turn.run_webserver()
