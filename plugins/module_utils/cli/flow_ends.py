# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who is meant by `--from web-1`: a workload, a node or an address, as far as this node knows them. Pure."""

from __future__ import annotations

import dataclasses
import difflib
import ipaddress
import typing as t

from ..fleet.node_state import NodeState
from ..policy.model import WORKLOAD_ENDPOINT, Endpoint
from .errors import NoVerdict
from .packet_way import HOST, leg_to

_SHOWN = 10


@dataclasses.dataclass(frozen=True)
class FlowEnd:
    """`node` is where the address is, "" outside the fleet. Without `endpoint` and not `is_node` it is nobody's that is
    known here."""

    label: str
    address: str
    node: str = ""
    endpoint: t.Optional[Endpoint] = None
    is_node: bool = False


class FlowEnds:
    """Finds them. `own` are addresses of this host that its state does not speak of."""

    def __init__(self, state: NodeState, endpoints: t.Iterable[Endpoint], own: t.Collection[str] = ()) -> None:
        self._state = state
        self._own = own
        self._workloads = [one for one in endpoints if one.kind == WORKLOAD_ENDPOINT and one.addresses]

    def find(self, option: str, text: str) -> FlowEnd:
        """`text` is a name or an address, `option` where it was written. Raises NoVerdict: unknown, or ambiguous."""
        try:
            address = str(ipaddress.ip_address(text))
        except ValueError:
            return self._named(option, text)
        return self._at(address)

    def _at(self, address: str) -> FlowEnd:
        for one in self._workloads:
            if address in one.addresses:
                return _workload(one, address)
        leg = leg_to(self._state, address)
        if leg.kind == HOST or address in self._own:
            return FlowEnd(self._state.node, address, self._state.node, is_node=True)
        is_node = any(found.address == address for found in self._nodes())
        return FlowEnd(leg.node if is_node else address, address, leg.node, is_node=is_node)

    def _named(self, option: str, text: str) -> FlowEnd:
        exact = [one for one in self._workloads if one.name == text]
        same = exact or [one for one in self._workloads if text in (_plain(one), _plain(one).partition("/")[2])]
        found = [_workload(one, one.addresses[0]) for one in same]
        found += [node for node in self._nodes() if node.label == text]
        if len(found) == 1:
            return found[0]
        if found:
            which = ", ".join(f"{'node' if one.is_node else 'workload'} {one.label} ({one.address})" for one in found)
            raise NoVerdict(f"{option} {text} is ambiguous: {which}. Give a workload's namespace, too, or the address.")
        raise NoVerdict(self._unknown(option, text))

    def _nodes(self) -> t.Iterator[FlowEnd]:
        state = self._state
        addresses = {member.name: member.address for member in state.nodes}
        for name, address in {**addresses, state.node: state.address}.items():
            yield FlowEnd(name, address.partition("/")[0], name, is_node=True)

    def _unknown(self, option: str, text: str) -> str:
        workloads = sorted(one.name for one in self._workloads)
        nodes = [node.label for node in self._nodes()]
        bare = {name.partition("/")[2]: name for name in workloads}
        near = difflib.get_close_matches(text, [*workloads, *bare, *nodes], 1)
        hint = f" Did you mean {bare.get(near[0], near[0])}?" if near else ""
        return (
            f"{option} {text} is no workload or node that {self._state.node} knows, and no address.{hint} Workloads: "
            f"{_listed(workloads)}. Nodes: {_listed(nodes)}. Other nodes' workloads are known here if a rule means "
            "them; give others by address."
        )


def _workload(endpoint: Endpoint, address: str) -> FlowEnd:
    return FlowEnd(endpoint.name, address, endpoint.node, endpoint)


def _plain(endpoint: Endpoint) -> str:
    """Its name on its own node (see fleet.guard.all_endpoints)."""
    return endpoint.name.partition(" on ")[0]


def _listed(names: t.Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return f"{', '.join(names[:_SHOWN]) or 'none'}{more}"
