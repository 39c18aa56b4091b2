# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The ends of a flow: the workload, node, HostEndpoint or address that `--from web-1` means. No I/O."""

from __future__ import annotations

import dataclasses
import difflib
import ipaddress
import typing as t

from ...base.addresses import family_of, parse_address
from ...policy.model import HOST_ENDPOINT, WILDCARD, WORKLOAD_ENDPOINT, Endpoint
from ..errors import NoVerdict
from .known_network import KnownNetwork

_SHOWN = 10
#: The most characters of a name or address: "<namespace>/<name> on <node>", whose parts have up to 253 each.
_LONGEST = 800


@dataclasses.dataclass(frozen=True)
class FlowEnd:
    """One end of a flow. An end without `endpoint` that is not `is_node` is an address of no known owner.

    `label` is the name or address to show. `node` is where the address is, "" outside the fleet. `addresses` are all
    addresses of the owner that a question may mean; () for an end given by its address.
    """

    label: str
    address: str
    node: str = ""
    endpoint: t.Optional[Endpoint] = None
    is_node: bool = False
    addresses: tuple[str, ...] = ()

    def of_version(self, version: int) -> t.Optional[FlowEnd]:
        """Return this end with an address of IP version `version` (4 or 6), None if it has none."""
        for address in (self.address, *self.addresses):
            if family_of(address) == version:
                return dataclasses.replace(self, address=address)
        return None


def is_owned(end: FlowEnd) -> bool:
    """Return whether an address has a known owner, or is outside of the fleet."""
    return end.endpoint is not None or end.is_node or not end.node


class FlowEnds:
    """The finder of ends in a known network."""

    def __init__(self, known: KnownNetwork) -> None:
        self._known = known
        self._workloads = [one for one in known.endpoints if one.kind == WORKLOAD_ENDPOINT and one.addresses]

    def find(self, option: str, text: str) -> FlowEnd:
        """Return the end that `text` means: an address, or the name of a workload, node, HostEndpoint or container.

        A workload's name may lack the namespace. `option` is the command line's option, for errors. An IPv4-mapped IPv6
        address means the IPv4 address. Raise NoVerdict for anything else, and for a HostEndpoint of unknown address.
        """
        if len(text) > _LONGEST:
            raise NoVerdict(
                f"{option} {text[:40]}... has {len(text)} characters, and a name or address has at most {_LONGEST}."
                " Give the address."
            )
        bare, zone, dummy = text.partition("%")
        address = parse_address(bare)
        if address is not None and zone:
            raise NoVerdict(
                f"{option} {text} has a zone, and policy knows addresses without one. Write {address.text}, or the name"
                " of the workload or node."
            )
        return self.at(address.text) if address is not None else self._named(option, text)

    def at(self, address: str) -> FlowEnd:
        """Return the end with this address, canonical text."""
        for one in self._workloads:
            if address in one.addresses:
                return FlowEnd(one.name, address, one.node, one)
        node, is_node = self._known.place(address)
        return FlowEnd(node if is_node else address, address, node, is_node=is_node)

    def _named(self, option: str, text: str) -> FlowEnd:
        exact = [one for one in self._workloads if one.name == text]
        same = exact or [one for one in self._workloads if text in (_plain(one), _plain(one).partition("/")[2])]
        found = [FlowEnd(one.name, one.addresses[0], one.node, one, addresses=one.addresses) for one in same]
        # Only the node that is meant is looked at: an inventory compiles the state of each node that is asked about.
        nodes = [self._node(text)] if text in self._known.members or text in self._known.members6 else []
        found += nodes or [self._host(option, one) for one in self._host_endpoints() if one.name == text]
        if not found:
            # The user who starts a container chooses its name: it stands for nothing that has the name otherwise.
            own = self._known.containers.get(text, ())
            same = [one for one in self._workloads if one.node == self._known.at and _plain(one) in own]
            found = [FlowEnd(one.name, one.addresses[0], one.node, one, addresses=one.addresses) for one in same]
        if len(found) == 1:
            return found[0]
        if found:
            which = ", ".join(f"{'node' if one.is_node else 'workload'} {one.label} ({one.address})" for one in found)
            raise NoVerdict(f"{option} {text} is ambiguous: {which}. Give a workload's namespace, too, or the address.")
        raise NoVerdict(self._unknown(option, text))

    def _node(self, name: str) -> FlowEnd:
        underlay = self._known.interfaces.get(name, {}).get(self._known.underlay(name).interface, ())
        expected = (one for owner in self._known.host_endpoints(name) for one in owner.addresses)
        address, *planned = self._known.addresses(name)
        all_of_them = dict.fromkeys((*underlay, *expected, *planned))
        more = (one for one in all_of_them if not ipaddress.ip_address(one).is_link_local)
        return FlowEnd(name, address, name, is_node=True, addresses=(address, *more))

    def _host_endpoints(self) -> t.Iterator[Endpoint]:
        return (one for one in self._known.endpoints if one.kind == HOST_ENDPOINT)

    def _host(self, option: str, endpoint: Endpoint) -> FlowEnd:
        """Return the node of a HostEndpoint with its expected addresses, or else with the known ones of its interface.

        For the interface "*" these are the node's own on the underlay.
        """
        known, node = self._known, endpoint.node
        addresses = endpoint.addresses or known.interfaces.get(node, {}).get(endpoint.interface, ())
        if not addresses and endpoint.interface in (WILDCARD, known.underlay(node).interface):
            addresses = known.addresses(node)
        if not addresses:
            raise NoVerdict(
                f"{option} {endpoint.name}: {known.who} does not say which address interface {endpoint.interface} of "
                f"{node} has. Give the address, or write it into expectedIPs of the HostEndpoint."
            )
        return FlowEnd(node, addresses[0], node, is_node=True, addresses=tuple(addresses))

    def _unknown(self, option: str, text: str) -> str:
        workloads = sorted(one.name for one in self._workloads)
        nodes = self._known.nodes
        hosts = sorted(one.name for one in self._host_endpoints())
        bare = {name.partition("/")[2]: name for name in workloads}
        near = difflib.get_close_matches(text, [*workloads, *bare, *nodes, *hosts], 1)
        hint = f" Did you mean {bare.get(near[0], near[0])}?" if near else ""
        others = f" HostEndpoints: {_listed(hosts)}." if hosts else ""
        rest = self._known.attached or (
            "Other nodes' workloads are known here if a rule means them; give others by address, or run "
            "playbooks/sync_workloads.yml."
            if self._known.at
            else "Workloads that agents attach between runs are not known to it; give those by address."
        )
        return (
            f"{option} {text} is neither an address nor a workload or node that {self._known.who} knows.{hint} "
            f"Workloads: {_listed(workloads)}. Nodes: {_listed(nodes)}.{others} {rest}"
        )


def _plain(endpoint: Endpoint) -> str:
    """Return the endpoint's name on its own node, without " on NODE" (state.node_policy_tables.all_endpoints)."""
    return endpoint.name.partition(" on ")[0]


def _listed(names: t.Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return f"{', '.join(names[:_SHOWN]) or 'none'}{more}"
