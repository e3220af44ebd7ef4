"""The hosts whose reports are believed."""

import ipaddress
import os
import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final, Self
from urllib.parse import urlsplit

from gym_failures import gym_configuration

EVERYONE: Final = "all"
NOBODY: Final = "none"
DEFAULT: Final = "default"

# RFC 1122 and 4291 (loopback), RFC 1918 and 4193 (private). Written out, because what `ipaddress` calls private changes
# with the Python version and holds more, such as the link-local addresses of cloud metadata services.
_OWN_NETWORKS: Final = tuple(
    ipaddress.ip_network(network)
    for network in ("127.0.0.0/8", "::1/128", "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7")
)
_HOST_NAME: Final = re.compile(r"[a-z0-9_]([a-z0-9_.-]{0,252}[a-z0-9_])?")
_LOCALHOST: Final = "localhost"

_Network = ipaddress.IPv4Network | ipaddress.IPv6Network

_learnt: Final[set[str]] = set()
"""Hosts of NeMo Gym's servers that this process has learnt of since it began."""


def learn_host(url: str) -> None:
    """Count the host of `url` among those that are believed by default, in every configuration of this process."""
    host = host_of(url)
    if host:
        _learnt.add(host)


@dataclass(frozen=True, slots=True)
class AcceptedHosts:
    """Who is believed: everyone, or named hosts, networks, and those that are by default."""

    everyone: bool = False
    by_default: bool = False
    names: frozenset[str] = frozenset()
    networks: tuple[_Network, ...] = ()

    @classmethod
    def of(cls, setting: object) -> Self:
        """Return who is meant by the field `accept_from` of a configuration; raises ValueError for what names nobody.

        The default takes in the hosts of the configuration that NeMo Gym has handed to this process by now.
        """
        if setting == EVERYONE:
            return cls(everyone=True)
        if setting == NOBODY:
            return cls()
        entries = (setting,) if isinstance(setting, str) else setting
        if not isinstance(entries, Collection) or isinstance(entries, bytes):
            raise ValueError(f'"default", "all", "none", a collection of hosts or a callable, not {setting!r}')  # noqa: TRY004 - as all faults of a setting
        names: set[str] = set()
        networks: list[_Network] = []
        for entry in entries:
            if entry == DEFAULT:
                names.add(_LOCALHOST)
                names.update(map(_plain, gym_configuration.hosts_in(os.environ.get(gym_configuration.VARIABLE, ""))))
                networks.extend(_OWN_NETWORKS)
            elif isinstance(entry, str) and (network := _network_of(entry)) is not None:
                networks.append(network)
            elif isinstance(entry, str) and entry not in {EVERYONE, NOBODY} and _HOST_NAME.fullmatch(entry.lower()):
                names.add(entry.lower())
            else:
                raise ValueError(f"a host name, an address or a network, without scheme, port or path, not {entry!r}")
        return cls(by_default=DEFAULT in entries, names=frozenset(names), networks=tuple(networks))

    def has(self, url: str) -> bool:
        """Tell whether the host of `url` is one of them; what is no URL has none."""
        if self.everyone:
            return True
        host = host_of(url)
        if not host:
            return False
        if host in self.names or (_LOCALHOST in self.names and host.endswith(f".{_LOCALHOST}")):
            return True
        if self.by_default and host in _learnt:
            return True
        try:
            address = ipaddress.ip_address(host)
        except ValueError:
            return False  # a name that is not in the list
        if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
            address = address.ipv4_mapped
        return any(address in network for network in self.networks)


def host_of(url: str) -> str:
    """Return the host of `url` as hosts are compared; empty when there is none."""
    try:
        return _plain(urlsplit(url).hostname or "")
    except (ValueError, TypeError, AttributeError):
        return ""  # no URL


def _plain(host: str) -> str:
    """Return the one form in which hosts are compared."""
    return host.lower().removeprefix("[").removesuffix("]").rstrip(".")


def _network_of(entry: str) -> _Network | None:
    bare = entry[1:-1] if entry.startswith("[") and entry.endswith("]") else entry
    try:
        return ipaddress.ip_network(bare)
    except ValueError:
        return None
