# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The tracked connections that go after a write of table nat, and those that stay."""

from __future__ import annotations

import dataclasses
import errno
import random

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.base.addresses import host as host_cidr
from ansible_collections.baremetal.host_routing.plugins.module_utils.base.published_port import PublishedPort
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.change import SetAside
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.drivers import ipset as ipsets
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.drivers import iptables
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.kernel.port import (
    Connection,
    ConnectionFilter,
    InterfaceAddress,
    NewLink,
    RouteAttributes,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.planning.cached_drivers import (
    CachedTables,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet import firewall
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.model import Flow
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.attachment import WORKLOAD_INTERFACES
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.fleet_list import FleetMember
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_state import Pool, TunnelDevice
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.published_ports import (
    PublishingWorkload,
    with_ports,
)

from tests.fakes.kernel import FakeKernel
from tests.unit.dataplane.suites.drivers import converge, underlay, write_route

TCP, UDP, SCTP, ICMP, ESP = 6, 17, 132, 1, 50
WAN, WAN6, TUNNEL = "10.10.1.11", "fd00::11", "10.244.1.0"
CLIENT, CLIENT6 = "10.10.1.99", "fd00::99"
WEB, WEB6, NEXT = "10.244.1.5", "fd00:10:244::5", "10.244.1.6"
POOL = Pool("pool", "10.244.0.0/16", 26, "VXLAN", nat_outgoing=True)
PLAIN = dataclasses.replace(POOL, nat_outgoing=False)


@pytest.fixture
def host():
    """The kernel of a host with a workload's interface and a tunnel."""
    kernel = FakeKernel()
    underlay(kernel)
    for name in ("cali1", "vxlan.calico"):
        kernel.link_add(NewLink(name, "bridge"))
        kernel.link_set(name, up=True)
    for device, address, length in (("eth0", WAN6, 64), ("lo", "127.0.0.1", 8), ("vxlan.calico", TUNNEL, 32)):
        kernel.address_add(InterfaceAddress(device, address, length))
    for address in (WEB, NEXT, WEB6):
        write_route(kernel, host_cidr(address), RouteAttributes(device="cali1"))
    write_route(kernel, "10.244.2.0/26", RouteAttributes(device="vxlan.calico"))
    write_route(kernel, "224.0.0.0/4", RouteAttributes("blackhole"))
    return kernel


def connection(protocol, source, destination, port=5300, *, to=None, reply_to="", master=b""):
    """Return a connection from port 40000; `to` is the address and port behind a DNAT."""
    ports = {} if protocol in (ICMP, ESP) else {"source_port": 40000, "destination_port": port}
    sent = Flow(protocol, source, destination, **ports)
    flow = sent if to is None else dataclasses.replace(sent, destination=to[0], destination_port=to[1])
    name = repr((sent, flow, reply_to, master)).encode()
    return Connection(sent, flow, name, name, master, 0, reply_to)


def publishing(*ports, addresses=(WEB, WEB6), tables=()):
    return with_ports(tables, [PublishingWorkload(addresses, ports)] if ports else [], WORKLOAD_INTERFACES, (4, 6))


def port(number=5300, inside=53, protocol="udp", address=""):
    return PublishedPort(protocol, number, inside, address)


def flush(kernel, chain):
    """Delete the rules of a chain of table nat for IPv4."""
    done = kernel.run(["iptables-restore", "--noflush"], stdin=f"*nat\n-F {chain}\nCOMMIT\n")
    assert done.code == 0, done.errors


def left(kernel, tables, *connections):
    """Return those of `connections` that stay when the kernel is brought to `tables`."""
    kernel.machine.tracked = list(connections)
    converge(iptables, kernel, tables)
    return kernel.machine.tracked


def test_flows_to_a_port_that_is_published_go(host):
    going = [
        connection(UDP, CLIENT, WAN),
        connection(UDP, CLIENT6, WAN6),
        connection(UDP, WAN, WAN),
        connection(UDP, "127.0.0.1", "127.0.0.1"),
        connection(UDP, CLIENT, WAN, to=(NEXT, 53)),
        connection(UDP, CLIENT, WAN, to=(WEB, 54)),
    ]
    staying = [
        connection(UDP, CLIENT, WAN, to=(WEB, 53)),
        connection(UDP, CLIENT, WAN, 5301),
        connection(UDP, CLIENT, "10.10.1.12"),
        connection(UDP, CLIENT, WAN, 5353, to=("172.17.0.2", 53)),
        connection(UDP, CLIENT, "10.10.1.12", to=("172.17.0.2", 53)),
        connection(UDP, "::1", "::1"),
        connection(TCP, CLIENT, WAN),
        connection(SCTP, CLIENT, WAN),
        connection(UDP, CLIENT, WAN, master=b"another connection brought it about"),
    ]
    assert left(host, publishing(port()), *going, *staying) == staying


def test_a_port_of_one_address_is_that_of_no_other(host):
    """The rule for one address of the host comes before that for all."""
    own = [connection(UDP, CLIENT, WAN, to=(WEB, 54)), connection(UDP, CLIENT, TUNNEL, to=(WEB, 53))]
    wrong = [connection(UDP, CLIENT, WAN, to=(WEB, 53)), connection(UDP, CLIENT, TUNNEL, to=(WEB, 54))]
    assert left(host, publishing(port(), port(inside=54, address=WAN)), *own, *wrong) == own


@pytest.mark.parametrize("number", [SCTP, UDP])
def test_flows_follow_a_port_to_another_workload_and_away(host, number):
    protocol = {SCTP: "sctp", UDP: "udp"}[number]
    converge(iptables, host, publishing(port(protocol=protocol)))
    old, new = connection(number, CLIENT, WAN, to=(WEB, 53)), connection(number, CLIENT, WAN, to=(NEXT, 53))
    assert left(host, publishing(port(protocol=protocol), addresses=(NEXT,)), old, new) == [new]
    # Without the port, what another program's rule would translate to elsewhere stays.
    foreign = connection(number, CLIENT, WAN, to=("172.17.0.2", 53))
    assert left(host, publishing(), old, new, foreign) == [old, foreign]


def test_flows_of_a_port_end_before_the_chain_of_the_workload_is_deleted(host):
    """No rule leads to the chain any more. Deletions of chains may follow much later."""
    converge(iptables, host, publishing(port()))
    going, other = connection(UDP, CLIENT, WAN, to=(WEB, 53)), connection(UDP, CLIENT, WAN, 5301, to=(WEB, 53))
    host.machine.tracked = [going, other]
    tables = publishing()
    changes = iptables.diff(tables, iptables.observe(host, tables))
    assert {change.subject for change in changes if change.action == "-"} != set()
    iptables.apply(host, [change for change in changes if change.action != "-"])
    assert host.machine.tracked == [other]


def test_flows_of_a_port_end_with_the_chain(host):
    converge(iptables, host, publishing(port()))
    other = connection(UDP, CLIENT, WAN, 5301, to=(WEB, 53))
    assert left(host, (), connection(UDP, CLIENT, WAN, to=(WEB, 53)), other) == [other]


@pytest.mark.parametrize("flushed", ["PREROUTING", "cali-PUBLISHED"])
def test_flows_that_began_while_rules_were_missing_go(host, flushed):
    converge(iptables, host, publishing(port()))
    flush(host, flushed)
    right = connection(UDP, CLIENT, WAN, to=(WEB, 53))
    assert left(host, publishing(port()), connection(UDP, CLIENT, WAN), right) == [right]


def test_flows_out_follow_nat_outgoing(host):
    """Flows of workloads to others go if their source has to change: of all protocols but TCP."""
    plain = [
        connection(UDP, WEB, "198.51.100.9"),
        connection(ICMP, WEB, "198.51.100.9"),
        connection(SCTP, WEB, "198.51.100.9"),
        connection(ESP, WEB, "198.51.100.9"),
    ]
    masqueraded = [one._replace(reply_to=WAN) for one in plain]
    others = [
        connection(TCP, WEB, "198.51.100.9"),
        connection(TCP, WEB, "198.51.100.9", reply_to=WAN),
        connection(UDP, WEB, "198.51.100.9", 3784),  # BFD, which is never masqueraded
        connection(UDP, WEB, "10.244.2.5"),
        connection(UDP, WEB, WAN),
        connection(UDP, WEB, "224.0.0.251"),
        connection(UDP, WAN, "198.51.100.9"),
        connection(UDP, "127.0.0.1", "127.0.0.1"),
        connection(UDP, "172.17.0.2", "198.51.100.9", reply_to=WAN),
        connection(UDP, CLIENT, WEB),
    ]
    kept = [*masqueraded, *others]
    assert left(host, firewall.tables([POOL], ()), *plain, *kept) == kept
    assert left(host, firewall.tables([PLAIN], ()), *plain, *kept) == [*plain, *others]
    assert left(host, firewall.tables([POOL], ()), *plain, *kept) == kept


def test_flows_to_nodes_follow_the_exclusions_of_nat_outgoing(host):
    """A set of addresses in a rule is read from the kernel."""
    nodes = [FleetMember("node2", "10.10.1.12", 64512)]
    tables = firewall.tables([POOL], (), excludes_hosts=True)
    converge(ipsets, host, firewall.ipsets((), nodes, excluded=[POOL]))
    to_node, out = connection(UDP, WEB, "10.10.1.12"), connection(UDP, WEB, "198.51.100.9")
    masqueraded = [one._replace(reply_to=WAN) for one in (to_node, out)]
    kept = [to_node, masqueraded[1]]
    assert left(host, firewall.tables([POOL], ()), to_node, out, *masqueraded) == masqueraded
    assert left(host, tables, to_node, out, *masqueraded) == kept
    assert left(host, firewall.tables([POOL], ()), *kept) == kept[1:]


def test_flows_into_another_pool_lose_their_masquerading(host):
    """A pool that becomes part of the fleet is no longer the outside."""
    converge(iptables, host, firewall.tables([POOL], ()))
    into = connection(UDP, WEB, "10.99.0.5", reply_to=WAN)
    out = connection(UDP, WEB, "198.51.100.9", reply_to=WAN)
    more = Pool("more", "10.99.0.0/16", 26, "None")
    assert left(host, firewall.tables([POOL, more], ()), into, out) == [out]


def test_host_connections_into_a_tunnel_without_its_source_are_deleted(host):
    device = TunnelDevice("vxlan.calico", "vxlan", 1450, WAN, address=TUNNEL, port=4789)
    wrong = connection(UDP, WAN, "10.244.2.5")
    kept = [
        wrong._replace(reply_to=TUNNEL),
        connection(UDP, TUNNEL, "10.244.2.5"),
        connection(UDP, WAN, CLIENT),
        connection(UDP, WEB, "10.244.2.5"),
    ]
    nat = [table for table in firewall.tables([PLAIN], [device]) if table.name == "nat"]
    assert left(host, nat, wrong, *kept) == kept


def test_a_workload_that_reaches_itself_and_loopback_clients_are_masqueraded(host):
    converge(iptables, host, publishing(port()))
    flush(host, "cali-PUBLISHED-SNAT")
    wrong = [connection(UDP, "127.0.0.1", "127.0.0.1", to=(WEB, 53)), connection(UDP, WEB, WAN, to=(WEB, 53))]
    kept = [connection(UDP, CLIENT, WAN, to=(WEB, 53)), connection(UDP, "127.0.0.1", WAN, 53, to=(CLIENT, 53))]
    assert left(host, publishing(port()), *wrong, *kept) == kept


def asked(kernel, tables):
    """Return the filters by which connections are listed when the kernel is brought to `tables`."""
    found = []
    listed = kernel.connections
    kernel.connections = lambda wanted=None: found.append(wanted) or listed(wanted)
    try:
        converge(iptables, kernel, tables)
    finally:
        kernel.connections = listed
    return found


def test_only_connections_that_a_written_rule_is_about_are_listed(host):
    """The kernel selects them by protocol, and by port if there is one; none are listed for TCP or other tables."""
    assert asked(host, publishing(port(protocol="tcp"), addresses=(WEB,))) == []
    some = (port(protocol="tcp"), port(), port(5301, protocol="sctp"))
    assert set(asked(host, publishing(*some, addresses=(WEB,)))) == {
        ConnectionFilter(4, UDP, 5300),
        ConnectionFilter(4, SCTP, 5301),
    }
    more = (*some, port(5302), port(5303))
    assert asked(host, publishing(*more, addresses=(WEB,))) == [ConnectionFilter(4, UDP)]
    assert asked(host, publishing(*more, addresses=(WEB,))) == []
    outgoing = publishing(*more, addresses=(WEB,), tables=firewall.tables([POOL], ()))
    assert {one.protocol for one in asked(host, outgoing)} == {17, 1, 132, 136, 33, 47, 50, 51, 4, 41}
    assert asked(host, publishing(*more, addresses=(WEB,), tables=firewall.tables([POOL], ()))) == []


@pytest.mark.parametrize("refused", ["connections", "connections_delete"])
def test_a_refusal_is_reported_and_the_rules_are_in_force(host, refused):
    host.machine.tracked = [connection(UDP, CLIENT, WAN)]
    host.fail_next(refused, errno.ENOBUFS)
    with pytest.raises(SetAside) as error:
        converge(iptables, host, publishing(port(), addresses=(WEB,)))
    doing = {"connections": "list tracked connections", "connections_delete": "delete 1 tracked connections"}[refused]
    assert str(error.value) == (
        "iptables connections by table nat: The rules are written, but flows of IPv4 that go on without a pause may"
        f" keep the translation that they had before, because the kernel refused to {doing}: No buffer space available."
        " Their clients may get no answer until then. Look at dmesg, then delete such flows with the program conntrack,"
        " for example `conntrack -D -f ipv4 -p udp --orig-port-dst PORT` for a published port."
    )
    assert "--to-destination 10.244.1.5:53" in host.run(["iptables-save"]).output


def test_flows_to_a_range_that_keeps_its_numbers_keep_theirs(host):
    """A rule for several ports has no port to translate to: that is the port of the packet."""
    ports = [port(number, number) for number in range(5300, 5304)]
    going = [
        connection(UDP, CLIENT, WAN, 5301),
        connection(UDP, CLIENT6, WAN6, 5303),
        connection(UDP, CLIENT, WAN, 5301, to=(WEB, 5302)),
        connection(UDP, CLIENT, WAN, 5301, to=(NEXT, 5301)),
    ]
    translated = [
        connection(UDP, CLIENT, WAN, 5301, to=(WEB, 5301)),
        connection(UDP, CLIENT6, WAN6, 5303, to=(WEB6, 5303)),
    ]
    outside = [connection(UDP, CLIENT, WAN, number) for number in (5299, 5304)]
    assert left(host, publishing(*ports), *going, *translated, *outside) == [*translated, *outside]
    converge(iptables, host, publishing(*ports))
    assert left(host, publishing(), *translated, *outside) == outside


def test_workloads_that_come_and_go_in_any_order_leave_the_rules_of_the_others(host):
    """A new workload's rules are the last ones, whatever its address; rules are deleted by their place."""
    workloads = [PublishingWorkload((f"10.244.1.{number}",), (port(5300 + number),)) for number in range(2, 12)]
    chance, driver = random.Random(7), CachedTables()
    here: list[PublishingWorkload] = [workloads[5]]
    for _step in range(80):
        tables = with_ports((), here, WORKLOAD_INTERFACES, (4,))
        changes = driver.diff(tables, driver.observe(host, tables))
        driver.apply(host, changes)
        observed = iptables.observe(host, tables)
        for name, rules in tables[0].chains.items():
            have = [rule.hash for rule in observed.table("nat")[name]]
            assert sorted(have) == sorted(iptables.hashes(name, rules)), (name, here)
        assert iptables.diff(tables, observed) == []
        if chance.random() < 0.3:
            driver.forget()
            assert driver.diff(tables, driver.observe(host, tables)) == []
        for one in chance.sample(workloads, chance.choice((1, 1, 2))):
            here = [other for other in here if other is not one] if one in here else [*here, one]


def test_a_new_workload_is_appended(host):
    """To insert a rule, iptables-restore of nf_tables reads the whole chain."""
    last = PublishingWorkload(("10.244.1.9",), (port(5309),))
    converge(iptables, host, with_ports((), [last], WORKLOAD_INTERFACES, (4,)))
    tables = with_ports((), [PublishingWorkload((WEB,), (port(),)), last], WORKLOAD_INTERFACES, (4,))
    changes = iptables.diff(tables, iptables.observe(host, tables))
    deltas = [line.split()[:2] for change in changes for line in change.new.delta]
    assert deltas == [["-A", "cali-PUBLISHED"], ["-A", "cali-PUBLISHED-SNAT"]]
