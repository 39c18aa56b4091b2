# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Classes of addresses: a path of one address stands for those of all others in its class."""

from __future__ import annotations

import dataclasses
import random
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.base.ports import ETCD_PORTS
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.chains.settings import (
    ChainSettings,
    Encapsulation,
    Failsafe,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.explain.address_classes import (
    AddressClasses,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.explain.evaluator import Evaluator
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.explain.packet_path import (
    Path,
    PathHost,
    Paths,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.model import (
    EGRESS,
    INGRESS,
    PROTOCOL_NUMBERS,
    DefinedPort,
    Endpoint,
    Entity,
    Flow,
    NamedPort,
    Policy,
    PolicyRule,
    PolicyTier,
    policy_set,
)

from tests.unit.policy.random_policies import NODE, OTHER_NODE, World, random_flow, random_world


def decisive(path: Path) -> tuple[t.Any, ...]:
    """Return what a path says without words about addresses."""
    return path.action, [
        (stage.hook, stage.direction, stage.endpoint, stage.verdict.action)
        + tuple((step.policy, step.profile, step.rule, step.matched, step.action) for step in stage.verdict.trace)
        for stage in path.stages
    ]


def neighbours(rng: random.Random, world: World, address: str) -> list[str]:
    """Return an address, others near it, and some that others have."""
    head, dot, dummy = address.rpartition(":" if ":" in address else ".")
    near = [f"{head}{dot}{number:x}" if ":" in address else f"{head}{dot}{number}" for number in range(1, 256, 17)]
    near += ["::1"] if ":" in address else ["127.0.0.1", "127.0.0.2"]
    held = [one for endpoint in world.endpoints for one in endpoint.addresses if (":" in one) == (":" in address)]
    return [address, *near, *rng.sample(held, min(4, len(held)))]


@pytest.mark.parametrize("seed", range(60))
def test_addresses_of_one_class_have_equal_paths(seed: int) -> None:
    rng = random.Random(seed)
    world = random_world(rng)
    own = tuple(one for endpoint in world.local_host_endpoints for one in endpoint.addresses)
    routes = (("0.0.0.0/0", "eth0"), ("::/0", "eth1"), ("10.65.0.0/25", "eth1"), ("fd65::/122", "eth0"))
    node = PathHost(NODE, (("eth0", own), ("eth1", ())), routes)
    everybody = [address for endpoint in world.endpoints for address in endpoint.addresses]
    settings = ChainSettings(
        failsafe_inbound=(Failsafe("tcp", 8080, "10.65.0.0/27"), Failsafe("udp", 53)),
        failsafe_outbound=(Failsafe("tcp", 443, "fd65::/123"),),
        encapsulations=(Encapsulation("vxlan", 443), Encapsulation("vxlan", 443, 6)),
        etcd_members=tuple(everybody[::3]),
    )
    nodes = frozenset(everybody[::2])
    paths = Paths(Evaluator(world.policy_set, world.endpoints), [node], settings, nodes)
    classes = AddressClasses(paths)
    shared = 0
    for _number in range(12):
        direction = rng.choice((INGRESS, EGRESS))
        flow = random_flow(rng, world, rng.choice((*world.local_workloads, *world.local_host_endpoints)), direction)
        if flow is None:
            continue
        if flow.protocol == PROTOCOL_NUMBERS["tcp"] and rng.random() < 0.3:
            flow = dataclasses.replace(flow, destination_port=rng.choice(ETCD_PORTS))
        end = "source" if direction == INGRESS else "destination"
        seen: dict[t.Hashable, tuple[str, t.Any]] = {}
        for address in neighbours(rng, world, getattr(flow, end)):
            found = decisive(paths.of(t.cast(Flow, dataclasses.replace(flow, **{end: address}))))
            first, known = seen.setdefault(classes.of(address), (address, found))
            shared += first != address
            assert known == found, (flow, end, first, address)
    assert shared


OWN, PEERS = "10.10.1.11", ("10.10.1.12", "10.10.1.13")


def of_host(rule: PolicyRule, *others: Endpoint, **settings: t.Any) -> Paths:
    """Return the paths of a host whose policy has one rule. Its first peer is a node of the fleet."""
    host = Endpoint("HostEndpoint", "node1-all", NODE, "*", (OWN,))
    policy = Policy("p", types=(INGRESS, EGRESS), ingress=(rule,), egress=(rule,))
    node = PathHost(NODE, (("eth0", (OWN,)),), (("0.0.0.0/0", "eth0"),))
    evaluator = Evaluator(policy_set([PolicyTier("default")], [policy], []), [host, *others])
    return Paths(evaluator, [node], ChainSettings(**settings), PEERS[:1])


def test_named_ports_of_peers_tell_them_apart() -> None:
    rule = PolicyRule("Allow", protocol="tcp", destination=Entity(ports=(NamedPort("http"),)))
    addresses = [f"10.10.2.{number}" for number in (80, 81, 82)]
    ports = [(DefinedPort("http", "tcp", number),) for number in (80, 81, 80)]
    peers = [
        Endpoint("HostEndpoint", f"peer{address}", OTHER_NODE, "eth0", (address,), ports=named)
        for address, named in zip(addresses, ports, strict=True)
    ]
    paths = of_host(rule, *peers)
    classes = AddressClasses(paths)
    found = [paths.of(Flow(6, OWN, address, 40000, 80)).action for address in addresses]
    assert found == ["allow", "deny", "allow"]
    assert classes.of(addresses[0]) == classes.of(addresses[2]) != classes.of(addresses[1])


def test_only_nodes_of_the_fleet_may_send_encapsulated_packets() -> None:
    paths = of_host(PolicyRule("Allow"), encapsulations=(Encapsulation("vxlan", 4789),))
    classes = AddressClasses(paths)
    assert [paths.of(Flow(17, peer, OWN, 40000, 4789)).action for peer in PEERS] == ["allow", "deny"]
    assert classes.of(PEERS[0]) != classes.of(PEERS[1])


def test_workloads_do_not_reach_members_of_etcd() -> None:
    web = Endpoint("WorkloadEndpoint", "default/web", NODE, "cali1", ("10.65.0.2",))
    paths = of_host(PolicyRule("Allow"), web, etcd_members=PEERS[1:])
    classes = AddressClasses(paths)
    others = ("10.10.9.1", "10.10.9.2", PEERS[1])
    assert [paths.of(Flow(6, "10.65.0.2", other, 40000, 2378)).action for other in others] == ["allow", "allow", "deny"]
    assert classes.of(others[0]) == classes.of(others[1]) != classes.of(others[2])
