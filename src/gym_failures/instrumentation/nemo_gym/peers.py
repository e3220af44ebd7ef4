"""Where NeMo Gym's servers are, as its own client finds them: their reports are believed by default.

A collection client has the configuration from the head server, and in that of a server hosts may be told by reference.
"""

import functools
from typing import Any, Final

from gym_failures.accepted import learn_host
from gym_failures.guard import Guard
from gym_failures.instrumentation.nemo_gym.hooks import Hook
from gym_failures.patching import Method

_GUARD: Final = Guard("nemo_gym_peers")


def _telling_host(build_url: Method) -> Method:
    """Wrap what makes the URL of a server out of its part of the configuration, once for each that a client calls."""

    @functools.wraps(build_url)
    def telling(client: Any, server_config_dict: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - as the method
        url = build_url(client, server_config_dict, *args, **kwargs)
        with _GUARD:
            learn_host(url)
        return url

    return telling


HOOKS: Final = {"nemo_gym.server_utils": (Hook("ServerClient._build_server_base_url", _telling_host),)}
