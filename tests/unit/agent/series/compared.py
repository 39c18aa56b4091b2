# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Our part of a kernel in a form to compare: chains, rules in chains of others, sets, routes, links, sysctls."""

from __future__ import annotations

import typing as t

from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.drivers import ipset
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.drivers.iptables_saved import (
    PREFIX,
    parse,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.kernel.port import Kernel
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_state import NodeState

Ours = dict[str, t.Any]


def firewall(kernel: Kernel, backend: str = "nft") -> Ours:
    """Return {what: its content}: each chain of ours with its rules in order, our rules in others' chains, and sets.

    A chain of ours has all its rules, also those of others.
    """
    found: Ours = {}
    for program in ("iptables", "ip6tables"):
        for table, chains in parse(kernel.run([f"{program}-{backend}-save"]).output).tables.items():
            for chain, rules in chains.items():
                own = chain.startswith(PREFIX)
                texts = [rule.text for rule in rules if own or rule.hash]
                if own or texts:
                    found[f"{program} {table} {chain}"] = texts
    found.update(sets(kernel))
    return found


def sets(kernel: Kernel) -> Ours:
    """Return our IP sets as {"ipset NAME": (type, sorted members)}."""
    return {
        f"ipset {name}": (one.type, sorted(one.members))
        for name, one in ipset.parse(kernel.run(["ipset", "save"]).output).items()
    }


def host(kernel: Kernel, state: NodeState) -> Ours:
    """Return {what: its content} for our routes, host ends, and the sysctls that `state` names."""
    found: Ours = {}
    for family in (4, 6):
        for destination, attributes in kernel.routes(protocol=179, family=family):
            found[f"route {destination}"] = attributes
    for link in kernel.links():
        if link.name.startswith("cali"):
            found[f"link {link.name}"] = (link.kind, link.mtu, link.mac, link.up, link.alias)
    for sysctl in state.sysctls:
        found[f"sysctl {sysctl.key}"] = kernel.sysctl_read(sysctl.key)
    return found


def differences(is_there: Ours, from_nothing: Ours) -> list[str]:
    """Return a line for each object that differs, [] for none."""
    return [
        f"{name}\n  step by step: {is_there.get(name)}\n  from nothing: {from_nothing.get(name)}"
        for name in sorted(is_there.keys() | from_nothing.keys())
        if is_there.get(name) != from_nothing.get(name)
    ]
