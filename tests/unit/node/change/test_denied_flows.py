# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the tracked connections that a policy ends: those that it would deny as new ones, with few exceptions."""

from __future__ import annotations

import dataclasses
import ipaddress
import random
import typing as t

from ansible_collections.baremetal.host_routing.plugins.module_utils.base.ports import PortRange
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.kernel.port import (
    Connection,
    InterfaceAddress,
    NewLink,
    RouteAttributes,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.change.verdicts import denied_flows
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.chains.rules.marks import marks
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.chains.settings import (
    FAILSAFE_INBOUND,
    ChainSettings,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.explain.evaluator import DENIED, Evaluator
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.explain.packet_path import Paths
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.hooks import HOOKS
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.model import (
    Endpoint,
    Entity,
    Flow,
    Policy,
    PolicyProfile,
    PolicyRule,
    PolicySet,
    policy_set,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_state import NodeState, VethEndpoint
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.policy_state import (
    PolicySettings,
    PolicyState,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fakes.kernel import FakeKernel
from tests.unit.dataplane.suites.drivers import write_route
from tests.unit.policy.explain.node_between import BY_ETH1, HOST, OWN
from tests.unit.policy.random_policies import NODE, World, random_flow, random_world

CUT = PolicySettings(cut_denied_flows=True)
CUT_BIT = marks().cut
OPEN = PolicyProfile("open", ingress=(PolicyRule("Allow"),), egress=(PolicyRule("Allow"),))
WEB = Endpoint("WorkloadEndpoint", "default/web", NODE, "caliweb", ("10.65.0.1",), (), ("open",), namespace="default")
DB = dataclasses.replace(WEB, name="default/db", interface="calidb", addresses=("10.65.0.2",))
FTP = Flow(6, "192.0.2.9", "10.65.0.1", 40000, 21)
HTTP = Flow(6, "192.0.2.9", "10.65.0.1", 40000, 80)


def to_port(action: str, port: int, **source: t.Any) -> PolicyRule:
    return PolicyRule(
        action, protocol="tcp", source=Entity(**source), destination=Entity(ports=(PortRange(port, port),))
    )


def state(
    policies: PolicySet, endpoints: t.Sequence[Endpoint] = (WEB, DB), settings: PolicySettings = CUT
) -> NodeState:
    workloads = tuple(
        VethEndpoint(one.name.partition("/")[2], one.interface, one.addresses[0], 1500, "pool")
        for one in endpoints
        if one.kind == "WorkloadEndpoint" and one.node == NODE
    )
    policy = PolicyState(policies, tuple(endpoints), settings)
    return NodeState(NODE, "10.65.2.1/24", workloads=workloads, policy=policy)


def kernel(*connections: Connection) -> FakeKernel:
    made = FakeKernel()
    for name, addresses in OWN.items():
        made.link_add(NewLink(name, "veth", peer_name=f"w{name}"))
        for link in (name, f"w{name}"):
            made.link_set(link, up=True)
        for address, length in zip(addresses, (24, 64)):
            made.address_add(InterfaceAddress(name, address, length))
    write_route(made, "0.0.0.0/0", RouteAttributes(device="eth0", gateway="10.65.2.9"))
    write_route(made, "::/0", RouteAttributes(device="eth0", gateway="fd65:0:0:2::9"))
    for net in BY_ETH1:
        gateway = "fd65:0:0:3::9" if ":" in net else "10.65.3.9"
        write_route(made, net, RouteAttributes(device="eth1", gateway=gateway))
    made.machine.tracked = list(connections)
    return made


def tracked(flow: Flow, sent: Flow | None = None, **fields: bytes) -> Connection:
    return Connection(sent or flow, flow, **fields)


def ended(*connections: Connection, rules: tuple[PolicyRule, ...], **more: t.Any) -> list[Connection]:
    """Return a list of those of `connections` that end under a policy with these ingress rules for all workloads.

    `more` are further arguments of `state`.
    """
    made = policy_set(policies=[Policy("p", ingress=rules)], profiles=[OPEN])
    return list(denied_flows.judged(kernel(*connections), state(made, **more)).ending)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 1 << 30))
def test_connections_judged_together_are_judged_as_each_alone(seed: int) -> None:
    rng = random.Random(seed)
    world = random_world(rng)
    flows = [flow for dummy in range(30) if (flow := _flow(rng, world))]
    connections = []
    for flow in flows:
        own = OWN["eth0"][":" in flow.destination]
        sent = dataclasses.replace(flow, destination=own) if rng.random() < 0.1 else None
        connections.append(tracked(flow, sent))
    found = denied_flows.judged(kernel(*connections), state(world.policy_set, world.endpoints))
    paths = Paths(Evaluator(world.policy_set, world.endpoints), [HOST], ChainSettings())
    expected = [
        one for one in connections if paths.there(one.flow, one.sent if one.sent != one.flow else None).action == DENIED
    ]
    assert list(found.ending) == expected and found.returning == ()


def _flow(rng: random.Random, world: World) -> Flow | None:
    endpoint = rng.choice([*world.local_workloads, *world.local_workloads, *world.local_host_endpoints])
    flow = random_flow(rng, world, endpoint, rng.choice(("Ingress", "Egress")), rng.choice(HOOKS))
    return flow if flow and not ipaddress.ip_address(flow.destination).is_multicast else None


def test_multicast_of_both_ip_versions_goes_on() -> None:
    groups = [Flow(17, "10.65.0.1", "224.0.0.251", 5353, 5353), Flow(17, "fd65::1", "ff02::fb", 5353, 5353)]
    assert ended(*map(tracked, groups), rules=(to_port("Allow", 80),)) == []


def test_ipv6_addresses_that_begin_with_ff_and_are_no_multicast_are_judged() -> None:
    """An address whose first group is 00ff or 0ffa is written with ff in front and is unicast: its flow is cut."""
    own = OWN["eth0"][1]
    made = state(policy_set(), [Endpoint("HostEndpoint", "eth0", NODE, "eth0")])
    connections = [tracked(Flow(17, own, address, 5353, 5353)) for address in ("ff::1", "ffa::1", "::ab:1")]
    group = tracked(Flow(17, own, "ff00::1", 5353, 5353))
    assert denied_flows.judged(kernel(*connections, group), made).ending == tuple(connections)


def test_only_connections_that_the_policy_denies_are_ended() -> None:
    connections = [tracked(HTTP), tracked(FTP), tracked(Flow(17, "10.65.0.1", "192.0.2.53", 5000, 53))]
    assert ended(*connections, rules=(to_port("Allow", 80),)) == [tracked(FTP)]
    assert ended(*connections, rules=(to_port("Allow", 80),), settings=PolicySettings()) == []


def test_source_ports_count_where_a_rule_asks_for_them() -> None:
    other = dataclasses.replace(HTTP, source_port=999)
    rules = (to_port("Deny", 80, ports=(PortRange(1, 1023),)), PolicyRule("Allow"))
    assert ended(tracked(HTTP), tracked(other), rules=rules) == [tracked(other)]


def test_a_connection_is_judged_by_its_destination_after_dnat() -> None:
    connection = tracked(HTTP, dataclasses.replace(HTTP, destination="10.65.2.1", destination_port=8080))
    assert ended(connection, rules=(to_port("Allow", 80),)) == []
    assert ended(connection, rules=(to_port("Allow", 8080),)) == [connection]


def test_a_related_connection_ends_only_with_its_master() -> None:
    control = tracked(FTP, ends=b"ftp", name=b"1")
    data = tracked(dataclasses.replace(FTP, destination_port=50123), ends=b"data", name=b"2", master=b"ftp")
    assert ended(data, control, rules=(to_port("Allow", 21),)) == []
    assert ended(data, control, rules=(to_port("Allow", 80),)) == [control, data]


def test_staged_policies_and_audit_mode_end_nothing() -> None:
    made = policy_set(policies=[Policy("p", ingress=(PolicyRule("Deny"),), staged=True)], profiles=[OPEN])
    assert denied_flows.judged(kernel(tracked(HTTP)), state(made)).ending == ()
    audit = dataclasses.replace(CUT, audit=True)
    assert ended(tracked(HTTP), rules=(PolicyRule("Deny"),), settings=audit) == []


def test_connections_to_failsafe_ports_are_not_cut() -> None:
    """The failsafe ports stay open under a HostEndpoint that lets nothing in, and so do connections to them.

    Of the others, only those through its interface are cut.
    """
    eth0 = Endpoint("HostEndpoint", "eth0", NODE, "eth0")
    ssh = Flow(6, "192.0.2.9", "10.65.2.1", 40000, 22)
    web = dataclasses.replace(ssh, destination_port=80)
    by_eth1 = Flow(6, "198.51.100.9", "10.65.3.1", 40000, 80)
    assert FAILSAFE_INBOUND[0].port == 22
    made = state(policy_set(), [eth0])
    found = denied_flows.judged(kernel(tracked(ssh), tracked(web), tracked(by_eth1)), made)
    assert found.ending == (tracked(web),)


def test_untracked_policy_spares_what_may_answer_the_host() -> None:
    """Untracked policy cuts no connection from the port of an outbound failsafe, here DNS: it may be a reply."""
    eth0 = Endpoint("HostEndpoint", "eth0", NODE, "eth0", profiles=("open",))
    deny = Policy("deny", ingress=(PolicyRule("Deny"),), do_not_track=True, apply_on_forward=True)
    made = state(policy_set(policies=[deny], profiles=[OPEN]), [eth0])
    dns = Flow(17, "192.0.2.53", "10.65.2.1", 53, 40000)
    other = dataclasses.replace(dns, source_port=54)
    assert denied_flows.judged(kernel(tracked(dns), tracked(other)), made).ending == (tracked(other),)


def test_multicast_goes_on() -> None:
    """A connection to a multicast address is not cut: its interface, and whether the host listens, are unknown."""
    eth0 = Endpoint("HostEndpoint", "eth0", NODE, "eth0")
    mdns = Flow(17, "10.65.2.1", "224.0.0.251", 5353, 5353)
    out = dataclasses.replace(mdns, destination="192.0.2.9")
    found = denied_flows.judged(kernel(tracked(mdns), tracked(out)), state(policy_set(), [eth0]))
    assert found.ending == (tracked(out),)


def test_without_policy_there_is_nothing_to_end() -> None:
    assert denied_flows.judged(kernel(tracked(HTTP)), NodeState(NODE, "10.65.2.1/24")) == denied_flows.Judged()


def test_the_cut_mark_is_set_and_cleared_as_policy_changes() -> None:
    """A new policy sets the cut bit in marks of connections that it denies, and clears it where it allows them again.

    Other bits of the marks stay, and a connection whose mark is right is left alone.
    """
    theirs = 0x7
    connections = [
        tracked(HTTP)._replace(mark=theirs),
        tracked(FTP)._replace(mark=theirs),
        tracked(dataclasses.replace(FTP, source_port=40001), ends=b"control")._replace(mark=CUT_BIT),
        tracked(dataclasses.replace(FTP, destination_port=50123), master=b"control")._replace(mark=CUT_BIT | theirs),
    ]
    node = kernel(*connections)
    http = policy_set(policies=[Policy("p", ingress=(to_port("Allow", 80),))], profiles=[OPEN])
    found = denied_flows.judged(node, state(http))
    assert (found.ending, found.returning) == ((connections[1],), ())
    assert found.carry_out(node) == 1
    assert [one.mark for one in node.machine.tracked] == [theirs, theirs | CUT_BIT, CUT_BIT, CUT_BIT | theirs]
    ftp = policy_set(policies=[Policy("p", ingress=(to_port("Allow", 21),))], profiles=[OPEN])
    assert denied_flows.judged(node, state(ftp)).carry_out(node) == 1
    assert [one.mark for one in node.machine.tracked] == [theirs | CUT_BIT, theirs, 0, theirs]
    assert denied_flows.judged(node, state(ftp)) == denied_flows.Judged((), (), CUT_BIT)
