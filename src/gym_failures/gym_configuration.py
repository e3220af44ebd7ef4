"""The configuration of all its servers that NeMo Gym's launcher hands to each of them, read without NeMo Gym.

It is the YAML that OmegaConf writes: in blocks, a key a line, two spaces a level; a server stands under its name, its
type and its implementation. Read by hand: the text can be thousands of lines, and a YAML reader in Python takes
a second for those.
"""

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from gym_failures.kinds import FailureBoundary

VARIABLE: Final = "NEMO_GYM_CONFIG_DICT"
"""The environment variable that holds the text."""

BOUNDARIES: Final[Mapping[str, FailureBoundary]] = {
    "environment_servers": FailureBoundary.ENVIRONMENT,
    "resources_servers": FailureBoundary.RESOURCES_SERVER,
    "responses_api_agents": FailureBoundary.AGENT,
    "responses_api_models": FailureBoundary.MODEL,
}
"""Types of servers, by the names of their folders in NeMo Gym, and where each observes failures."""

_HEAD_SERVER: Final = "head_server"
_HOST: Final = "host"

# Of the levels that are looked at; the text of a value can be on more lines, all of them further in.
_LINE: Final = re.compile(r"^(| {2}| {6})([^ \n#-][^:\n]*):(?: +(.*))?$", re.MULTILINE)
_REFERENCE: Final = re.compile(r"\$\{(\w+)\}")


def type_of(name: str, configuration: str) -> str | None:
    """Return the first key beneath the key `name`, if that is a type of servers."""
    for key in (name, f"'{name}'", f'"{name}"'):
        _, found, rest = f"\n{configuration}".partition(f"\n{key}:\n")
        first = rest.partition(":")[0].strip()
        if found and first in BOUNDARIES:
            return first
    return None


@lru_cache(maxsize=1)  # each configuration of ours asks, and there is one text in a process
def hosts_in(configuration: str) -> frozenset[str]:
    """Return the names and addresses of the hosts on which its servers are; raises nothing.

    One that is told by reference is found where that names a key of the whole; others stay unknown.
    """
    found: list[str] = []
    whole: dict[str, str] = {}
    name = kind = ""
    for indent, key, value in _LINE.findall(configuration):
        if not indent:
            name, kind = key, ""
            whole[key] = value
        elif len(indent) == len("  "):
            kind = key
            if (name, key) == (_HEAD_SERVER, _HOST):
                found.append(value)
        elif key == _HOST and kind in BOUNDARIES:
            found.append(value)
    return frozenset(filter(None, (_text(_REFERENCE.sub(lambda match: whole.get(match[1], ""), one)) for one in found)))


def _text(value: str) -> str:
    """Return a value that needs no more than its quotes to be text."""
    return value.strip().strip("'\"")
