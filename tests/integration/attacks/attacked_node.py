# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The node of tests/integration/policy under attack, with either backend of iptables, with policy or without it."""

from __future__ import annotations

import dataclasses
import pathlib
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.chains.settings import ChainSettings
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_state import Pool, TunnelDevice
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.policy_state import PolicySettings

from tests.integration import iptables_backend
from tests.integration.host_under_test import HostKernel, host_under_test
from tests.integration.policy.documents import Document, workload
from tests.integration.policy.node_in_namespace import Node
from tests.integration.policy.policed_node import HOST, HOST_V6, PolicedNode
from tests.unit.fleet.fleets import build, pool, states

#: The addresses of another node of the fleet. HOST is this node's.
PEER, PEER_V6 = "192.0.2.77", "2001:db8::77"
PORT = 8472
POOLS = (
    Pool("pool", "10.65.0.0/16", 26, "VXLAN", nat_outgoing=True),
    Pool("pool6", "fd65::/32", 122, "VXLAN", nat_outgoing=True),
)
DEVICES = (
    TunnelDevice("vxlan.calico", "vxlan", 1450, HOST, "10.65.0.9", "66:00:00:00:00:01", 4096, PORT),
    TunnelDevice("vxlan-v6.calico", "vxlan", 1430, HOST_V6, "fd65::9", "66:00:00:00:00:01", 4096, PORT),
)
#: The device of IPIP. Tests use only its rules, since a kernel without the module ipip has no such device.
IPIP_DEVICE = TunnelDevice("tunl0", "ipip", 1480, HOST)


class AttackedNode(PolicedNode):
    """A node under attack, with the sysctls of a node that concern no single device.

    `policy` is whether `defend` gives it policy. A new one has no rules.
    """

    def __init__(self, node: Node, policy: bool) -> None:
        super().__init__(node)
        self.policy = policy
        for sysctl in states(build(pool("direct")))["node1"].sysctls:
            if "{" not in sysctl.key and "cali" not in sysctl.key:
                node.kernel.sysctl_write(sysctl.key, sysctl.value)

    def defend(
        self,
        *documents: Document,
        spoofing: bool = False,
        vxlan: bool = False,
        ipip: bool = False,
        tunnels: bool = False,
        etcd_members: t.Sequence[str] = (),
    ) -> None:
        """Replace the rules and IP sets by those of a node with four workloads, whose profile allows everything.

        `documents` are its further policy; a node without policy ignores them. `spoofing` is the node's
        calico_workload_source_spoofing; `vxlan` and `ipip` allow workloads to send VXLAN and IP-in-IP. With `tunnels`,
        the node has DEVICES, IPIP_DEVICE and POOLS, and the fleet is HOST and PEER of both IP versions. `etcd_members`
        are the addresses of hosts of etcd. Raise what `PolicedNode.apply` raises.
        """
        given: dict[str, t.Any] = {"etcd_members": etcd_members}
        if tunnels:
            fleet = (HOST, PEER, HOST_V6, PEER_V6)
            given = {**given, "devices": (*DEVICES, IPIP_DEVICE), "fleet": fleet, "pools": POOLS}
        if self.policy:
            settings = PolicySettings(
                default_endpoint_to_host_action="Accept",
                allow_vxlan_from_workloads=vxlan,
                allow_ipip_from_workloads=ipip,
            )
            self.state = dataclasses.replace(self.state, workload_source_spoofing=spoofing)
            self.apply(*(workload(index) for index in range(4)), *documents, settings=settings, **given)
        else:
            checks = ChainSettings(
                allow_vxlan_from_workloads=vxlan,
                allow_ipip_from_workloads=ipip,
                workload_source_spoofing=spoofing,
                vxlan_port=PORT if tunnels else 4789,
            )
            self.without_policy(checks, **given)


#: Backends of iptables, each without policy and with it.
KINDS = ("nft", "nft, policy", "legacy", "legacy, policy")


def attacked_node(kind: str, folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> t.Iterator[AttackedNode]:
    """Yield a node of one of KINDS, and remove it when the generator is resumed; `folder` is the test's own.

    `monkeypatch` undoes the choice of iptables. Raise AssertionError if iptables is not installed or a command that
    sets up the node fails, and KernelError if its namespaces cannot be created.
    """
    backend, _comma, policy = kind.partition(", ")
    iptables_backend.choose(backend, folder, monkeypatch)
    with host_under_test(folder, HostKernel) as kernel:
        made = AttackedNode(Node(kernel, str(folder / "netns"), backend), bool(policy))
        yield made
        made.close()
