"""Servers of the load on NeMo Gym: brought up as the bed of the tests does it, until the input ends.

It runs in NeMo Gym's environment: `gym_load_servers.py SETTINGS`, a JSON file with `config`, NeMo Gym's configuration,
and `folder`, for the logs. Prints one line of JSON when all serve: for each server its process and its port.
"""

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "gym" / "bed"))

from driver import SETTINGS, servers, wait_for  # the bed's; it takes the same argument
from nemo_gym.global_config import GlobalConfigDictParserConfig, get_global_config_dict
from nemo_gym.server_utils import ServerClient
from omegaconf import OmegaConf


def main() -> None:
    """Serve."""
    config = get_global_config_dict(
        GlobalConfigDictParserConfig(
            initial_global_config_dict=OmegaConf.create(SETTINGS["config"]),
            skip_load_from_cli=True,
            skip_load_from_dotenv=True,
        )
    )
    with servers(config) as running:
        client = ServerClient(head_server_config=ServerClient.load_head_server_config(), global_config_dict=config)
        wait_for(client, running)
        found = {}
        for name, process in running.items():
            ((_, kinds),) = config[name].items()
            ((_, settings),) = kinds.items()
            found[name] = {"process": process.pid, "port": settings.port}
        print(json.dumps(found), flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main()
