"""What the builtins about networks and addresses compute (layer 3).

In: texts, and numbers of hosts. Out: a truth or a number. Errors: ValueError for a text that is none. Host bits of a
network are left out of account, an address alone is a network of one; versions 4 and 6 share no address, and every
address of version 4 is less than one of version 6.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from operator import eq, ge, gt, le, lt
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import ipaddress

    Network = ipaddress.IPv4Network | ipaddress.IPv6Network


@lru_cache(maxsize=4096)
def _network(text: str) -> Network:
    import ipaddress  # only rules about networks pay for it

    if "%" not in text:  # the zone of an address says nothing about which one it is
        try:
            return ipaddress.ip_network(text, strict=False)
        except ValueError:
            pass
    raise ValueError("the text is no network")


def _address(text: str) -> tuple[int, int]:
    network = _network(text) if "/" not in text else None
    if network is None:
        raise ValueError("the text is no address")
    return network.version, int(network.network_address)


def _contains(network: str, inner: str) -> bool:
    one, other = _network(network), _network(inner)
    if one.version != other.version:
        return False
    first, last = int(one.network_address), int(one.broadcast_address)
    return first <= int(other.network_address) and int(other.broadcast_address) <= last


def _overlap(one: str, other: str) -> bool:
    return _network(one).overlaps(_network(other))


def _addresses(comparison: Callable[..., bool]) -> Callable[[str, str], bool]:
    return lambda one, other: comparison(_address(one), _address(other))


NETWORKS: dict[str, Callable[..., bool | int]] = {
    "cidr_contains": _contains,
    "cidr_overlaps": _overlap,
    "cidr_host_count": lambda text: _network(text).num_addresses,
    "ips_equal": _addresses(eq),
    "ips_lt": _addresses(lt),
    "ips_lteq": _addresses(le),
    "ips_gt": _addresses(gt),
    "ips_gteq": _addresses(ge),
    "networks_equal": lambda one, other: _network(one) == _network(other),
    "networks_overlap": _overlap,
    "ip_in_network": lambda address, network: bool(_address(address)) and _contains(network, address),
}
