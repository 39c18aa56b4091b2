# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The position of NODE in the random worlds: two interfaces of its own, and the networks behind them."""

from __future__ import annotations

import ipaddress
import typing as t

from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.explain.evaluator import ALLOWED, Evaluator
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.explain.packet_path import PathHost, Paths
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.model import Flow

from tests.unit.policy.random_policies import NODE, World

if t.TYPE_CHECKING:
    from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.chains.settings import ChainSettings

OWN = {"eth0": ("10.65.2.1", "fd65:0:0:2::1"), "eth1": ("10.65.3.1", "fd65:0:0:3::1")}
OWN_ADDRESSES = frozenset(address for addresses in OWN.values() for address in addresses)
#: The networks behind eth1. All others are behind eth0.
BY_ETH1 = ("198.51.100.0/24", "2001:db8:1::/64", "10.65.1.0/24", "fd65:0:0:1::/64")
HOST = PathHost(
    NODE,
    tuple(OWN.items()),
    (("0.0.0.0/0", "eth0"), ("::/0", "eth0"), *((net, "eth1") for net in BY_ETH1)),
)
_NETS = [ipaddress.ip_network(net) for net in BY_ETH1]


class Crossing(t.NamedTuple):
    """A flow at NODE: its incoming interface, "" if NODE sends it, and its outgoing one, "" if NODE receives it.

    `allowed` says whether `Paths` lets its first packet pass, and `answered` whether the answer passes, too.
    """

    comes_in_by: str
    goes_out_by: str
    allowed: bool
    answered: bool


class Crossings:
    """A source of the interfaces of flows at NODE, and of the verdicts of `Paths` on them."""

    def __init__(self, world: World, settings: ChainSettings) -> None:
        self.evaluator = Evaluator(world.policy_set, world.endpoints)
        self._paths = Paths(self.evaluator, [HOST], settings)
        self._workloads = {one: workload.interface for workload in world.local_workloads for one in workload.addresses}

    def of(self, flow: Flow) -> Crossing:
        return Crossing(
            "" if flow.source in OWN_ADDRESSES else self._interface(flow.source),
            "" if flow.destination in OWN_ADDRESSES else self._interface(flow.destination),
            self._paths.there(flow).action == ALLOWED,
            self._paths.of(flow).action == ALLOWED,
        )

    def _interface(self, address: str) -> str:
        return self._workloads.get(address) or interface_to(address)


def interface_to(address: str) -> str:
    return "eth1" if any(ipaddress.ip_address(address) in net for net in _NETS) else "eth0"
