# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An agent for the Docker driver that keeps reservations and workloads in memory and notes what it was asked."""

from __future__ import annotations

import typing as t

from ansible_collections.baremetal.host_routing.plugins.module_utils.wire.client import NotRunning
from ansible_collections.baremetal.host_routing.plugins.module_utils.wire.protocol import AgentError

POOLS = [
    {"name": "default", "cidr": "10.244.0.0/16", "disabled": False},
    {"name": "old", "cidr": "10.99.0.0/16", "disabled": True},
    {"name": "six", "cidr": "fd00:10:244::/48", "disabled": False},
]


class FakeAgent:
    """The agent. `down` is the number of calls that find it stopped; `refuses` is the error of the next calls."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, dict[str, t.Any]]] = []
        self.reserved: set[str] = set()
        self.workloads: dict[str, dict[str, t.Any]] = {}
        self.pools = POOLS
        self.down = 0
        self.refuses: AgentError | None = None

    def call(self, method: str, /, **params: t.Any) -> dict[str, t.Any]:
        if self.down:
            self.down -= 1
            raise NotRunning("/run/calico/agent.sock", "nobody listens")
        self.asked.append((method, params))
        if self.refuses is not None:
            raise self.refuses
        return getattr(self, method.replace(".", "_"))(**params)

    def engine_started(self) -> dict[str, t.Any]:
        return {}

    def ipam_pools(self) -> dict[str, t.Any]:
        return {"pools": self.pools}

    def ipam_reserve(self, pools: list[str], address: str = "", family: int = 4) -> dict[str, t.Any]:
        found = address or (f"10.244.3.{len(self.reserved) + 5}" if family == 4 else "fd00:10:244::5")
        self.reserved.add(found)
        return {"address": found}

    def ipam_unreserve(self, address: str) -> dict[str, t.Any]:
        released = address in self.reserved
        self.reserved.discard(address)
        return {"released": released}

    def workload_add(self, id: str, **params: t.Any) -> dict[str, t.Any]:
        addresses = [params[name] for name in ("address", "address6") if name in params]
        self.reserved.difference_update(addresses)
        self.workloads[id] = {
            "id": id,
            "addresses": addresses,
            "peer_interface": "calit0123456789",
            "mac": params.get("mac", "02:42:aa:bb:cc:07"),
            "netns": "",
        }
        return {"workload": self.workloads[id], "created": True}

    def workload_join(self, id: str, netns: str) -> dict[str, t.Any]:
        if id not in self.workloads:
            raise AgentError("not_found", f"there is no workload {id} on this node. See `calicoctl workload list`.")
        self.workloads[id]["netns"] = netns
        siblings = [one["id"] for one in self.workloads.values() if one["netns"] == netns and one["id"] != id]
        return {"workload": self.workloads[id], "siblings": siblings}

    def workload_publish(self, id: str, ports: list[dict[str, t.Any]]) -> dict[str, t.Any]:
        self.workloads[id]["ports"] = ports
        return {"workload": self.workloads[id]}

    def workload_withdraw(self, id: str) -> dict[str, t.Any]:
        had = self.workloads.get(id, {}).get("ports")
        if had:
            self.workloads[id]["ports"] = []
        return {"withdrawn": bool(had)}

    def workload_delete(self, id: str) -> dict[str, t.Any]:
        gone = self.workloads.pop(id, None)
        self.reserved.update(gone["addresses"] if gone else ())
        return {"deleted": gone is not None}
