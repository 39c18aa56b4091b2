# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The stored state of a node, and random changes of it: policy, host endpoints, settings, pools, sets, routes."""

from __future__ import annotations

import dataclasses
import json
import random
import typing as t

from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.model import (
    HOST_ENDPOINT,
    Endpoint,
    Policy,
    PolicyTier,
    policy_set,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.attachment import block_sets
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_state import NodeState, Route, Sysctl
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.policy_state import (
    ALLOW_ALL,
    PolicySettings,
    PolicyState,
    allow_all,
)

from tests.unit.policy.random_policies import NODE, World, random_world

#: Values of settings that change chains, sets or the profiles of workloads.
SETTINGS: dict[str, tuple[t.Any, ...]] = {
    "default_endpoint_to_host_action": ("Drop", "Accept", "Return"),
    "deny_action": ("Drop", "Reject"),
    "allow_action": ("Accept", "Return"),
    "workload_profiles": ((ALLOW_ALL,), ("kns.default", "kns.prod"), ("strict", "kns.prod")),
    "drop_invalid": (True, False),
    "allow_vxlan_from_workloads": (True, False),
    "nflog_group": (179, 0, 5),
    "audit": (False, True),
    "cut_denied_flows": (False, True),
}
#: The parts of a policy, the frequently changed ones several times.
_PARTS = (*("tiers", "network_sets"), *("policies", "profiles") * 2, *("endpoints",) * 3)


class Inventory:
    """The inputs of a node's stored state by name; `change` replaces a random one of them, adds it or removes it."""

    def __init__(self, base: NodeState) -> None:
        self._base = base
        self._parts: dict[str, dict[str, t.Any]] = {name: {} for name in _PARTS}
        self._parts["profiles"][ALLOW_ALL] = allow_all()
        self._settings = PolicySettings()
        self._policed = True
        self._values: dict[str, t.Any] = {}

    def fill(self, seed: int) -> None:
        """Make a policy of some forty parts, that `seed` stands for."""
        rng = random.Random(f"filled {seed}")
        for dummy in range(60):
            self._change_policy(rng, random_world(rng))
        for name, values in (
            ("workload_profiles", SETTINGS["workload_profiles"]),
            *rng.sample(sorted(SETTINGS.items()), 3),
        ):
            self._settings = dataclasses.replace(self._settings, **{name: rng.choice(values)})

    def change(self, seed: int) -> None:
        """Make the change that `seed` stands for."""
        rng = random.Random(f"change {seed}")
        what = rng.random()
        if what < 0.6:
            self._change_policy(rng, random_world(rng))
        elif what < 0.7:
            for dummy in range(10):
                self._change_policy(rng, random_world(rng))
        elif what < 0.82:
            name = rng.choice(sorted(SETTINGS))
            self._settings = dataclasses.replace(self._settings, **{name: rng.choice(SETTINGS[name])})
        elif what < 0.85:
            self._policed = not self._policed
        else:
            name = rng.choice(("mtu", "spoofing", "sets", "routes", "sysctls"))
            self._values[name] = rng.randrange(3)

    def _change_policy(self, rng: random.Random, donor: World) -> None:
        part = rng.choice(_PARTS)
        mine = self._parts[part]
        if mine and rng.random() < 0.3:
            del mine[rng.choice(sorted(mine))]
            return
        offered = list(donor.endpoints if part == "endpoints" else getattr(donor.policy_set, part))
        if not offered:
            return
        one = rng.choice(offered)
        if part == "endpoints":
            mine[f"{one.kind} {one.name}"] = _sometimes_by_address(rng, one)
        else:
            mine[one.name] = one

    def state(self) -> NodeState:
        """Return the stored state, of new objects, as they are when it was read from the disk."""
        tiers: dict[str, PolicyTier] = self._parts["tiers"]
        policies: list[Policy] = [
            one if one.tier in tiers else dataclasses.replace(one, tier="default")
            for one in self._parts["policies"].values()
        ]
        policy = PolicyState(
            policy_set(
                tiers.values(), policies, self._parts["profiles"].values(), self._parts["network_sets"].values()
            ),
            tuple(self._parts["endpoints"].values()),
            self._settings,
        )
        base, value = self._base, self._values
        found = dataclasses.replace(
            base,
            policy=policy if self._policed else None,
            pools=tuple(
                dataclasses.replace(one, workload_mtu=one.workload_mtu - 10 * value.get("mtu", 0)) for one in base.pools
            ),
            workload_source_spoofing=value.get("spoofing", 0) == 1,
            ipsets=block_sets(base.ipam.blocks, ((), (4,), (4, 6))[value.get("sets", 0)]),
            routes=(
                *base.routes,
                *(Route(f"10.9.{number}.0/24", "blackhole") for number in range(value.get("routes", 0))),
            ),
            sysctls=(*base.sysctls, *[Sysctl("net/ipv4/conf/all/send_redirects", "0")][: value.get("sysctls", 0)]),
        )
        return NodeState.from_dict(json.loads(json.dumps(found.to_dict())))


def _sometimes_by_address(rng: random.Random, endpoint: Endpoint) -> Endpoint:
    """Return a HostEndpoint of the node sometimes without its interface, with addresses that its interfaces have."""
    if endpoint.kind != HOST_ENDPOINT or endpoint.node != NODE or rng.random() < 0.5:
        return endpoint
    return dataclasses.replace(endpoint, interface="", addresses=rng.choice((("10.10.1.11",), ("10.11.1.1",))))
