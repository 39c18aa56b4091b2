# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The reader of a fleet's nodes from the variables of its hosts."""

from __future__ import annotations

import dataclasses
import ipaddress
import re
import typing as t

from ...base.addresses import number
from ...state.errors import FleetError
from .. import variables
from ..host import Host
from . import node_address
from .flat_resource import label_texts

_HOST_NAME = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?", re.ASCII)
HOSTNAME_LABEL = "kubernetes.io/hostname"


@dataclasses.dataclass(frozen=True)
class FleetNode:
    """A node of the fleet, with an address of IPv4, of IPv6 or of both.

    `address`, `prefix`, `ip` (the address as a number) and `subnet` are those of IPv4, `address6` and the like those of
    IPv6. They are "" and 0 for a missing address. `workload_node` and `reflector` say whether the node is in the groups
    calico_nodes and calico_rr. `workload_source_spoofing` says whether its workloads may send from addresses that are
    not theirs.
    """

    name: str
    address: str
    prefix: int
    ip: int
    subnet: str  # CIDR
    labels: t.Mapping[str, str]
    workload_node: bool
    reflector: bool
    address6: str = ""
    prefix6: int = 0
    ip6: int = 0
    subnet6: str = ""
    workload_source_spoofing: bool = False

    def address_of(self, version: int) -> str:
        """Return the node's address of IP `version` (4 or 6) without prefix length, "" if it has none."""
        return self.address if version == 4 else self.address6

    @property
    def cidr(self) -> str:
        """The IPv4 address with its prefix length, "" without one."""
        return f"{self.address}/{self.prefix}" if self.address else ""

    @property
    def cidr6(self) -> str:
        """The IPv6 address with its prefix length, "" without one."""
        return f"{self.address6}/{self.prefix6}" if self.address6 else ""


def read(hosts: t.Sequence[Host]) -> dict[str, FleetNode]:
    """Return the node of each host by its name, in order of names.

    A node without the label kubernetes.io/hostname gets it with its name. Raise FleetError for a missing, invalid or
    shared address, and for an invalid name, label or calico_workload_source_spoofing.
    """
    nodes: dict[str, FleetNode] = {}
    owners: dict[str, str] = {}
    subnets = _Subnets()
    for host in sorted(hosts, key=lambda host: host.name):
        if not _HOST_NAME.fullmatch(host.name) or len(host.name) > 63:
            raise FleetError(
                f"host {host.name}",
                None,
                "is not a name that a node can have.",
                "Use at most 63 letters, digits, '-', '_' and '.' for its name in the inventory.",
            )
        four, six = (_end(host, version, owners, subnets) for version in (4, 6))
        if not four.address and not six.address:
            raise FleetError(
                node_address.label(4, host.name),
                None,
                "is not set.",
                f"Set it in host_vars/{host.name}.yml, for example to 10.10.1.11/24; a node that has IPv6 alone has "
                f"{node_address.VARIABLES[6]} instead.",
            )
        may_spoof = bool(variables.of_host(host, "calico_workload_source_spoofing"))
        nodes[host.name] = FleetNode(
            host.name, *four, _labels(host), host.workload_node, host.reflector, *six, may_spoof
        )
    return nodes


class _End(t.NamedTuple):
    address: str = ""
    prefix: int = 0
    ip: int = 0
    subnet: str = ""


def _end(host: Host, version: int, owners: dict[str, str], subnets: _Subnets) -> _End:
    given = host.variables.get(node_address.VARIABLES[version])
    if given is None:
        return _End()
    address, prefix = node_address.read(version, host.name, given)
    _own(owners, host, version, address, prefix)
    ip = number(address)
    return _End(address, prefix, ip, subnets.of(version, ip, prefix))


def _own(owners: dict[str, str], host: Host, version: int, address: str, prefix: int) -> None:
    if address in owners:
        raise FleetError(
            node_address.label(version, host.name),
            f"{address}/{prefix}",
            f"is also the address of {owners[address]}.",
            "Every node needs an address of its own.",
        )
    owners[address] = host.name


class _Subnets:
    """A cache of the CIDRs of subnets."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, int, int], str] = {}

    def of(self, version: int, ip: int, prefix: int) -> str:
        """Return the CIDR of the subnet that contains `ip`, an address as a number, with prefix length `prefix`."""
        shift = (32 if version == 4 else 128) - prefix
        key = (version, ip >> shift, prefix)
        found = self._known.get(key)
        if found is None:
            first = ip >> shift << shift
            address = ipaddress.IPv4Address(first) if version == 4 else ipaddress.IPv6Address(first)
            found = self._known[key] = f"{address}/{prefix}"
        return found


def _labels(host: Host) -> dict[str, str]:
    texts = label_texts(variables.of_host(host, "calico_node_labels") or {}, f"calico_node_labels of {host.name}")
    given = texts.setdefault(HOSTNAME_LABEL, host.name)
    if given != host.name:
        raise FleetError(
            f"calico_node_labels of {host.name}",
            f"{HOSTNAME_LABEL}: {given}",
            f"is not the node's name, {host.name}, which this label always has.",
            "Remove it, and choose another label for another name.",
        )
    return texts
