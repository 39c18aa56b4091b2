# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Inventories that a test writes: the lab's hosts, and the fleet that the test needs."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.lab.measure.checks import Pool
from tests.lab.topology import NODES, ROUTER_AS

CONNECTION = Path(__file__).resolve().parents[3] / "inventories/lab/group_vars/all/connection.yml"
LOCKFILE = "calico.lock.yml"
#: The lab's router as a peer of the nodes in its subnets: it learns their blocks.
ROUTER = [
    {
        "name": f"router-rack{rack}",
        "peerIP": f"10.10.{rack}.1",
        "asNumber": ROUTER_AS,
        "nodeSelector": f"rack == 'rack{rack}'",
    }
    for rack in (1, 2)
]
_ENCAPSULATION = {
    "ipip": "IPIP",
    "ipip-crosssubnet": "IPIPCrossSubnet",
    "vxlan": "VXLAN",
    "vxlan-crosssubnet": "VXLANCrossSubnet",
    "direct": "None",
}


def pool(entry: Pool, **more: object) -> dict[str, object]:
    """Return an IPPool as a user writes it; `more` are further fields."""
    return {
        "name": entry.name,
        "cidr": entry.cidr,
        "encapsulation": _ENCAPSULATION[entry.mode],
        "blockSize": entry.block_size,
        "natOutgoing": entry.nat_outgoing,
        **more,
    }


def workload(name: str, node: str, **more: object) -> dict[str, object]:
    return {"name": name, "node": node, **more}


def write(
    folder: Path,
    pools: Sequence[Mapping[str, object]],
    workloads: Sequence[Mapping[str, object]],
    nodes: Sequence[str] = ("node1", "node2", "node3", "node4"),
    labels: Mapping[str, Mapping[str, str]] = {},
    reflectors: Sequence[str] = (),
    addresses: Mapping[str, str] = {},
    addresses6: Mapping[str, str] = {},
    **variables: object,
) -> str:
    """Write the inventory into `folder`, replacing an earlier one, and return the path of its hosts.yml for `-i`.

    The fleet's lockfile will lie beside it. `labels` are labels of nodes in addition to their racks. `reflectors` are
    members of `nodes`, or hosts that only reflect. `addresses` (CIDRs) replace those of the topology. `addresses6`
    (CIDRs) are the hosts' IPv6 addresses. `variables` are further fleet variables, named here without calico_. Raise
    KeyError if `nodes` or `reflectors` has a name that is no host of the lab.
    """
    group = folder / "group_vars" / "all"
    group.mkdir(parents=True, exist_ok=True)
    shutil.copy(CONNECTION, group / "connection.yml")
    fleet = {
        "calico_ip_pools": list(pools),
        "calico_workloads": list(workloads),
        "calico_lockfile": str(folder / LOCKFILE),
        **{f"calico_{name}": value for name, value in variables.items()},
    }
    hosts = {
        name: {
            "calico_node_address": addresses.get(name, f"{NODES[name].address}/24"),
            "calico_node_labels": {"rack": f"rack{NODES[name].rack}", **labels.get(name, {})},
            **({"calico_node_address_ipv6": addresses6[name]} if name in addresses6 else {}),
        }
        for name in {*nodes, *reflectors}
    }
    groups = {"calico_nodes": {"hosts": {name: hosts[name] for name in nodes}}}
    if reflectors:
        groups["calico_rr"] = {"hosts": {name: hosts[name] for name in reflectors}}
    # YAML is a superset of JSON.
    (group / "calico.yml").write_text(json.dumps(fleet, indent=2) + "\n")
    (folder / "hosts.yml").write_text(json.dumps(groups, indent=2) + "\n")
    return str(folder / "hosts.yml")
