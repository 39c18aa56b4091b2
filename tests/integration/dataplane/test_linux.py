# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the real kernel: other programs read what the collection has written, and packets are sent."""

from __future__ import annotations

import dataclasses
import json
import os
import select
import shutil
import subprocess
import sys
import threading
import time

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.drivers import route, workload
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.kernel import conntrack
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.kernel.linux import LinuxKernel
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.kernel.port import (
    InterfaceAddress,
    KernelError,
    NewLink,
    NextHop,
    RouteAttributes,
    RouteOperation,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.planning import attach
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.planning.apply import apply_node
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.planning.plan import plan_node
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_state import (
    Block,
    NodeIpam,
    NodeState,
    Pool,
    Route,
    Sysctl,
    VethEndpoint,
)

from tests.integration.host_under_test import monitor_listens
from tests.unit.dataplane.suites.drivers import OWN, converge, route_to, underlay
from tests.unit.dataplane.suites.suite_node import STATE, settle
from tests.unit.dataplane.suites.suite_route import ROUTES


def ip(kernel, *arguments):
    done = kernel.run(["ip", "-j", "-d", *arguments])
    assert done.code == 0, done.errors
    return json.loads(done.output or "[]")


def test_iproute2_reads_the_routes_that_we_write(kernel):
    underlay(kernel)
    converge(route, kernel, ROUTES)
    shown = ip(kernel, "route", "show", "table", "all", "proto", "179")
    keys = ("type", "dst", "gateway", "dev", "table", "scope", "flags", "metrics")
    assert sorted([[entry.get(key) for key in keys] for entry in shown], key=str) == sorted(
        [
            ["blackhole", "10.244.1.0/26", None, None, "main", "global", [], None],
            ["unicast", "10.244.1.5", None, "eth0", "main", "link", [], None],
            ["unicast", "10.244.2.0/26", "10.10.1.12", "eth0", "main", "global", [], [{"mtu": 1450}]],
            ["unicast", "10.244.3.0/26", "172.31.0.1", "eth0", "main", "global", ["onlink"], None],
            ["unicast", "10.244.3.0/26", "10.10.1.13", "eth0", "179", "global", [], None],
        ],
        key=str,
    )


def test_we_read_what_iproute2_writes(kernel):
    underlay(kernel)
    for words in (
        "route add 10.1.0.0/16 via 10.10.1.2 dev eth0 metric 50 proto static src 10.10.1.11",
        "route add 10.2.0.0/16 proto 12 nexthop via 10.10.1.2 dev eth0 nexthop via 10.10.1.3 dev eth0",
        "route add unreachable 10.3.0.0/16",
        "route add 10.4.0.1 dev eth0 mtu 1300 table 1000",
        "route add 0.0.0.0/0 via 10.10.1.7 metric 9 table 1000",
    ):
        assert kernel.run(["ip", *words.split()]).errors == ""
    routes = dict(kernel.routes(table=254))
    assert routes["10.1.0.0/16"] == RouteAttributes(
        device="eth0", gateway="10.10.1.2", metric=50, protocol=4, source="10.10.1.11"
    )
    both = [NextHop("eth0", "10.10.1.2"), NextHop("eth0", "10.10.1.3")]
    assert routes["10.2.0.0/16"] == RouteAttributes(protocol=12).over(both)
    assert routes["10.3.0.0/16"] == RouteAttributes("unreachable")
    assert dict(kernel.routes(table=1000)) == {
        "10.4.0.1/32": RouteAttributes(device="eth0", mtu=1300, table=1000, scope=253),
        "0.0.0.0/0": RouteAttributes(device="eth0", gateway="10.10.1.7", metric=9, table=1000),
    }
    assert kernel.routes(table=4711) == []
    assert [destination for destination, _rest in kernel.routes(protocol=12)] == ["10.2.0.0/16"]


def test_iproute2_and_we_agree_on_ipv6_gateways_of_ipv4_routes(kernel):
    """Other programs write and read such routes (RTA_VIA) as we do."""
    underlay(kernel)
    converge(route, kernel, [Route("10.244.2.0/26", device="eth0", gateway="fe80::12")])
    (shown,) = ip(kernel, "route", "show", "proto", "179")
    assert (shown["dst"], shown["via"]) == ("10.244.2.0/26", {"family": "inet6", "host": "fe80::12"})
    assert kernel.run("ip route add 10.20.1.13/32 via inet6 fe80::13 dev eth0 proto static".split()).errors == ""
    assert route_to(kernel, "10.20.1.13/32") == RouteAttributes(device="eth0", gateway="fe80::13", protocol=4)
    assert kernel.route_to("10.20.1.13") == RouteAttributes(device="eth0", gateway="fe80::13")


def test_the_way_of_ipv6(kernel):
    underlay(kernel)
    for words in (
        "addr add 2001:db8::11/64 dev eth0 nodad",
        "route add 2001:db8:1::/48 via 2001:db8::1 dev eth0",
    ):
        assert kernel.run(["ip", "-6", *words.split()]).errors == ""
    assert kernel.route_to("2001:db8::99") == RouteAttributes(device="eth0")
    assert kernel.route_to("2001:db8:1::7") == RouteAttributes(device="eth0", gateway="2001:db8::1")
    assert kernel.route_to("2001:db9::1") is None


def test_pyroute2_agrees_with_every_dump(kernel):
    """pyroute2 reads the same links, IPv4 addresses and routes, and neighbours of the tunnel, as our own decoder."""
    pyroute2 = pytest.importorskip("pyroute2")
    underlay(kernel)
    settle(kernel, STATE)
    program = """
import json
import os
from pyroute2 import IPRoute
with IPRoute() as ip:
    names = {link["index"]: link.get_attr("IFLA_IFNAME") for link in ip.get_links()}
    print(json.dumps({
        "links": [[l.get_attr("IFLA_IFNAME"), l["index"], l.get_attr("IFLA_MTU"), l.get_attr("IFLA_ADDRESS"),
                   bool(l["flags"] & 1), l.get_attr("IFLA_IFALIAS") or ""] for l in ip.get_links()],
        "addresses": [[names[a["index"]], a.get_attr("IFA_LOCAL"), a["prefixlen"], a["scope"], bool(a["flags"] & 0x80)]
                      for a in ip.get_addr(family=2)],
        "routes": [[r.get_attr("RTA_DST") or "0.0.0.0", r["dst_len"], r.get_attr("RTA_TABLE"), r["proto"], r["scope"],
                    r["type"], names.get(r.get_attr("RTA_OIF")), r.get_attr("RTA_GATEWAY")]
                   for r in ip.get_routes(family=2)],
        "neighbors": [[n.get_attr("NDA_DST"), n.get_attr("NDA_LLADDR")]
                      for n in ip.get_neighbours(family=2) if names[n["ifindex"]] == "vxlan.calico"],
    }))
"""
    assert pyroute2
    done = kernel.run([sys.executable, "-c", program])
    assert done.code == 0, done.errors
    shown = json.loads(done.output)
    links = kernel.links()
    assert sorted(shown["links"]) == sorted(
        [link.name, link.index, link.mtu, link.mac, link.up, link.alias] for link in links
    )
    assert sorted(shown["addresses"]) == sorted(list(address) for address in kernel.addresses())
    types = {1: "unicast", 2: "local", 3: "broadcast", 6: "blackhole"}
    oracle = {
        (f"{dst}/{bits}", table, protocol, scope, types[kind], device, gateway)
        for dst, bits, table, protocol, scope, kind, device, gateway in shown["routes"]
    }
    assert oracle == {(d, r.table, r.protocol, r.scope, r.type, r.device, r.gateway) for d, r in kernel.routes()}
    assert shown["neighbors"] == [[n.address, n.mac] for n in kernel.neighbors("vxlan.calico")]


def test_ten_thousand_routes_with_failures_among_them(kernel):
    underlay(kernel)
    operations = [
        RouteOperation(
            "add", f"10.{100 + (n >> 16)}.{n >> 8 & 255}.{n & 255}/32", RouteAttributes(device="eth0", scope=253)
        )
        for n in range(10_000)
    ]
    assert kernel.route_batch(operations) == []
    again = kernel.route_batch(operations)
    assert [failure.position for failure in again] == list(range(10_000))
    assert {str(failure.error.said) for failure in again} == {"File exists"}
    assert len(kernel.routes(table=254, protocol=3)) == 10_001


def test_dumps_hold_while_the_table_changes(kernel):
    """Interrupted dumps are repeated: routes that never change are in every dump, and no route is in it twice."""
    underlay(kernel)
    stable = {f"10.50.{n >> 8}.{n & 255}/32" for n in range(3000)}
    device = RouteAttributes(device="eth0", scope=253)
    assert kernel.route_batch([RouteOperation("add", destination, device) for destination in stable]) == []
    writer = kernel.inside("host-under-test")
    stop = threading.Event()

    def churn():
        moving = [f"10.49.0.{n}/32" for n in range(50)]
        while not stop.is_set():
            writer.route_batch([RouteOperation("add", destination, device) for destination in moving])
            writer.route_batch([RouteOperation("delete", destination, device) for destination in moving])
            time.sleep(0.02)

    thread = threading.Thread(target=churn)
    thread.start()
    try:
        for _round in range(20):
            found = [destination for destination, _rest in kernel.routes(table=254)]
            assert stable <= set(found)
            assert len(found) == len(set(found))
    finally:
        stop.set()
        thread.join()


def test_replacing_never_leaves_the_destination_without_a_route(kernel):
    underlay(kernel)
    one = Route("10.244.2.0/26", device="eth0", gateway="10.10.1.12")
    converge(route, kernel, [one])
    monitor = kernel._there(
        lambda: subprocess.Popen(
            ["ip", "monitor", "route"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
    )
    assert monitor.stdout is not None
    limit = threading.Timer(60, monitor.kill)
    limit.start()
    try:
        while not monitor_listens(kernel.run(["cat", "/proc/net/netlink"]).output, monitor.pid):
            assert monitor.poll() is None, "ip monitor does not listen"
            time.sleep(0.01)
        converge(route, kernel, [dataclasses.replace(one, gateway="10.10.1.13", mtu=1400)])
        converge(route, kernel, [dataclasses.replace(one, type="blackhole", device=None, gateway=None)])
        assert kernel.run(["ip", "route", "add", "unreachable", "198.18.0.1"]).code == 0
        shown = ""
        while "198.18.0.1" not in shown and (line := monitor.stdout.readline()):
            shown += line
    finally:
        limit.cancel()
        monitor.kill()
        monitor.communicate()
    assert "10.10.1.13" in shown
    assert "Deleted" not in shown


def test_named_namespaces_are_those_of_iproute2(tmp_path):
    """Named namespaces are those of iproute2.

    The test has a mount namespace of its own, so that the machine's /run/netns is untouched.
    """
    program = f"""
import subprocess, sys
sys.path.insert(0, {str(__file__).rpartition("/tests/")[0]!r})
from plugins.module_utils.dataplane.kernel.linux import LinuxKernel
kernel = LinuxKernel(marker_folder={str(tmp_path)!r})
kernel.netns_add("web-1", "default/web-1")
assert subprocess.run(["ip", "netns", "list"], capture_output=True, text=True).stdout.split() == ["web-1"]
assert subprocess.run(["ip", "netns", "exec", "web-1", "ip", "link", "set", "lo", "up"]).returncode == 0
assert kernel.inside("web-1").link("lo").up
subprocess.run(["ip", "netns", "add", "theirs"], check=True)
assert kernel.netns_list() == ["theirs", "web-1"]
assert kernel.inside("theirs").links()[0].name == "lo"
assert kernel.netns_owners() == {{"web-1": "default/web-1"}}
kernel.netns_delete("web-1")
assert subprocess.run(["ip", "netns", "list"], capture_output=True, text=True).stdout.split() == ["theirs"]
subprocess.run(["ip", "netns", "del", "theirs"], check=True)
"""
    # A machine on which nobody has added a namespace yet has no such folder.
    command = 'mkdir -p /run/netns && mount -t tmpfs none /run/netns && exec "$0" -c "$1"'
    arguments = ["unshare", "--mount", "--propagation", "private", "sh", "-c", command, sys.executable, program]
    shown = subprocess.run(arguments, capture_output=True, text=True, timeout=60, check=False)
    assert (shown.returncode, shown.stderr) == (0, "")


def test_a_namespace_that_was_unmounted_does_not_keep_the_others_from_being_repaired(kernel, tmp_path):
    web = STATE.workloads[0]
    other = dataclasses.replace(web, name="db", netns="db", interface="cali222", address="10.244.1.6")
    converge(workload, kernel, [web, other])
    subprocess.run(["umount", tmp_path / "netns" / "web-1"], check=True)
    kernel.inside("db").link_set("lo", up=False)
    # Without its marker, the rest of the namespace is not known to be the collection's.
    marker = tmp_path / "markers" / "web-1"
    marked = marker.read_text()
    marker.unlink()
    changes = workload.diff([web, other], workload.observe(kernel, [web, other]))
    assert [(change.action, change.subject) for change in changes] == [("!", "default/web-1"), ("~", "default/db")]
    assert changes[0].note == (
        "What has the name of network namespace web-1 is not a namespace (any more). It was not touched."
        " Delete it (ip netns del web-1), then run again to have it made anew."
    )
    assert workload.unlike(kernel, [web, other]) == ["cali111", "cali222"]
    marker.write_text(marked)
    assert len(converge(workload, kernel, [web, other])) == 2
    assert kernel.netns_list() == ["db", "web-1"] and kernel.netns_exists("web-1")


def test_a_namespace_left_by_a_killed_process_is_restored_or_deleted(kernel, tmp_path):
    web = STATE.workloads[0]
    for step in ("made anew", "deleted"):
        kernel.netns_add("web-1", "default/web-1")
        subprocess.run(["umount", tmp_path / "netns" / "web-1"], check=True)  # a kill leaves such a file
        if step == "made anew":
            converge(workload, kernel, [web])
            assert kernel.netns_exists("web-1")
        converge(workload, kernel, [])
        assert not (tmp_path / "netns" / "web-1").exists() and not (tmp_path / "markers" / "web-1").exists()


def test_each_namespace_keeps_its_owner_whatever_the_names(kernel):
    names = ["web.new", "web", "w" * 255]
    for name in names:
        kernel.netns_add(name, f"default/{name}")
    assert kernel.netns_owners() == {name: f"default/{name}" for name in names}


def test_an_existing_namespace_is_not_created_again(kernel):
    kernel.netns_add("web-1", "default/web-1")
    with pytest.raises(KernelError, match="make network namespace web-1: File exists"):
        kernel.netns_add("web-1", "default/web-1")
    assert "web-1" in kernel.netns_list()


WEB = VethEndpoint("web-1", "cali111", "10.244.1.5", 1450, "pool", netns="web-1")
DB = VethEndpoint("db-1", "cali222", "10.244.1.6", 1450, "pool", netns="db-1")


def two_workloads(kernel):
    underlay(kernel)
    state = NodeState(
        node="node1",
        address=f"{OWN}/24",
        pools=(Pool("pool", "10.244.0.0/16", 26, "None"),),
        ipam=NodeIpam(1, (Block("10.244.1.0/26", "pool"),)),
        workloads=(WEB, DB),
        routes=(
            Route("10.244.1.0/26", "blackhole"),
            Route("10.244.1.5/32", device="cali111"),
            Route("10.244.1.6/32", device="cali222"),
        ),
        sysctls=(
            Sysctl("net/ipv4/ip_forward", "1"),
            *(
                Sysctl(key.format(name), value)
                for name in ("cali111", "cali222")
                for key, value in (
                    ("net/ipv4/neigh/{}/proxy_delay", "0"),
                    ("net/ipv4/conf/{}/proxy_arp", "1"),
                    ("net/ipv4/conf/{}/forwarding", "1"),
                )
            ),
        ),
    )
    settle(kernel, state)
    return state


def ping(kernel, address, *options):
    return kernel.run(["ping", "-n", "-c", "2", "-i", "0.2", "-W", "2", *options, address], timeout=60)


@pytest.mark.skipif(shutil.which("ping") is None, reason="ping is not installed")
def test_workloads_reach_each_other_and_the_host(kernel):
    two_workloads(kernel)
    web = kernel.inside("web-1")
    assert ping(web, "10.244.1.6").code == 0
    assert ping(web, OWN).code == 0
    assert ping(kernel, "10.244.1.6").code == 0
    assert ping(web, "10.244.1.9").code != 0  # the block's blackhole route drops the packets
    # A packet of the MTU's size passes, and one that is a byte longer does not.
    assert ping(web, "10.244.1.6", "-M", "do", "-s", str(1450 - 28)).code == 0
    assert ping(web, "10.244.1.6", "-M", "do", "-s", str(1450 - 27)).code != 0


@pytest.mark.skipif(shutil.which("ping") is None, reason="ping is not installed")
def test_route_mtu_holds_back_what_a_smaller_end_would_drop(kernel):
    """Routes' MTUs hold back large packets while both ends change, as in the phases of a change of mode."""
    state = two_workloads(kernel)
    web = kernel.inside("web-1")
    full = ["-M", "do", "-s", str(1400 - 28)]
    for change in ({"route_mtu": 1400}, {"route_mtu": 1400, "mtu": 1400}, {"mtu": 1400}):
        state = dataclasses.replace(
            state, workloads=tuple(dataclasses.replace(endpoint, **change) for endpoint in (WEB, DB))
        )
        settle(kernel, state)
        assert ping(web, "10.244.1.6", *full).code == 0
        assert ping(web, "10.244.1.6", "-M", "do", "-s", str(1401 - 28)).code != 0


def test_a_whole_node_without_change_takes_no_writes(kernel):
    """`ip monitor` shows no write between two marks while a converged node is planned and applied again.

    It prints each event on one line, so that events that neighbours and IPv6 cause by themselves can be left out.
    """
    two_workloads(kernel)
    monitor = kernel._there(
        lambda: subprocess.Popen(
            ["ip", "-o", "monitor", "link", "address", "route", "neigh", "rule"], stdout=subprocess.PIPE, text=True
        )
    )
    try:
        kernel.link_add(NewLink("before", "bridge"))
        while not select.select([monitor.stdout], [], [], 0.1)[0]:  # until the monitor listens
            kernel.link_delete("before")
            kernel.link_add(NewLink("before", "bridge"))
        state = two_workloads_state(kernel)
        apply_node(kernel, plan_node(kernel, state))
        kernel.link_add(NewLink("after", "bridge"))
        seen = [monitor.stdout.readline()]
        while "after" not in seen[-1]:
            seen.append(monitor.stdout.readline())
            assert seen[-1], "ip monitor ended"
    finally:
        monitor.terminate()
        monitor.communicate()
    marks, by_itself = ("before", "after"), ("REACHABLE", "STALE", "fe80", "ff02", "inet6")
    assert [line for line in seen if not any(word in line for word in (*marks, *by_itself))] == []


def two_workloads_state(kernel):
    assert isinstance(kernel, LinuxKernel)
    plan = workload.diff([WEB, DB], workload.observe(kernel, [WEB, DB]))
    assert plan == []
    return NodeState(
        node="node1",
        address=f"{OWN}/24",
        workloads=(WEB, DB),
        routes=(
            Route("10.244.1.0/26", "blackhole"),
            Route("10.244.1.5/32", device="cali111"),
            Route("10.244.1.6/32", device="cali222"),
        ),
    )


def test_to_observe_many_workloads_takes_as_much_work_for_each(kernel):
    """To observe four times as many workloads takes less than five times as many calls of functions."""
    underlay(kernel)
    endpoints = [VethEndpoint(f"w{n}", f"cali{n}", f"10.244.1.{n}", 1450, "pool", netns=f"w{n}") for n in range(1, 41)]
    counted = []
    for some in (endpoints[:10], endpoints):
        converge(workload, kernel, some)
        calls, changes = calls_of(lambda some=some: workload.diff(some, workload.observe(kernel, some)))
        assert changes == []
        counted.append(calls)
    assert counted[1] < 5 * counted[0], counted
    converge(workload, kernel, [])
    assert kernel.netns_list() == []


def calls_of(function):
    """Call `function`; return (number of calls of functions that this caused in this thread, its result)."""
    calls = 0

    def count(_frame, event, _argument):
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        found = function()
    finally:
        sys.setprofile(None)
    return calls, found


def test_ends_of_pairs_with_equal_numbers_are_distinguished(kernel):
    """The pair of one namespace is not taken for that of another, although both number their devices alike."""
    converge(workload, kernel, [WEB])
    kernel.netns_add("other", "")
    kernel.inside("other").link_add(NewLink("eth0", "veth", peer_name="x"))
    moved = dataclasses.replace(WEB, netns="other", peer_interface="x")
    observed = workload.observe(kernel, [moved])["cali111"]
    assert not observed.joined


def test_workloads_are_written_without_pyroute2(kernel, tmp_path):
    """Making, planning, repairing and removing workloads works in a process without any library."""
    underlay(kernel)
    program = f"""
import dataclasses, sys
sys.path.insert(0, {str(__file__).rpartition("/tests/")[0]!r})
from plugins.module_utils.dataplane.planning import attach
from plugins.module_utils.dataplane.planning.apply import apply_node
from plugins.module_utils.dataplane.planning.plan import plan_node
from plugins.module_utils.dataplane.kernel.linux import LinuxKernel
from plugins.module_utils.state.attachment import endpoint_routes, endpoint_sysctls
from plugins.module_utils.state.node_state import NodeState, VethEndpoint
kernel = LinuxKernel(netns_folder={str(tmp_path / "netns")!r}, marker_folder={str(tmp_path / "markers")!r})
web = VethEndpoint("web-1", "cali111", "10.244.1.5", 1450, "pool", netns="web-1")
db = VethEndpoint("db-1", "cali222", "10.244.1.6", 1450, "pool", netns="db-1")
states = [NodeState("node1", "{OWN}/24", workloads=found,
    routes=tuple(route for one in found for route in endpoint_routes(one)),
    sysctls=tuple(setting for one in found for setting in endpoint_sysctls(one)))
    for found in ((web, db), (dataclasses.replace(web, address="10.244.1.9", mtu=1400),), ())]
attach.attach(kernel, web)
for state in states:
    plan = plan_node(kernel, state)
    apply_node(kernel, plan)
    print(len(plan.changes), len(plan_node(kernel, state).changes))
assert "pyroute2" not in sys.modules and not any("site-packages" in entry for entry in sys.path)
"""
    done = kernel.run([sys.executable, "-I", "-S", "-c", program])
    assert (done.errors, done.code) == ("", 0)
    # The second state changes web-1 and its route, and removes db-1 and its route.
    assert done.output.split() == ["6", "0", "5", "0", "2", "0"]


def test_connections_of_a_gone_address_are_forgotten(kernel, monkeypatch):
    if shutil.which("ping") is None:
        pytest.skip("ping is not installed")
    two_workloads(kernel)
    rules = "*filter\n-A FORWARD -m conntrack --ctstate ESTABLISHED -j ACCEPT\nCOMMIT\n"
    assert kernel.run(["iptables-restore", "--noflush"], stdin=rules).code == 0
    assert ping(kernel.inside("web-1"), "10.244.1.6").code == 0
    assert ping(kernel.inside("db-1"), OWN).code == 0
    assert ping(kernel, "10.244.1.5").code == 0
    dump, listed = kernel._tracker.dump, []
    kernel._tracker.dump = lambda *request: listed.append(len(found := dump(*request))) or found
    assert kernel.conntrack_flush(["10.244.1.99"]) == 0
    assert listed == [3]  # one dump without a filter had all three entries, because they are few
    monkeypatch.setattr(conntrack, "_FEW", 0)
    assert kernel.conntrack_flush(["10.244.1.99"]) == 0
    assert listed == [3, 0, 0]  # two dumps, filtered by the kernel for the address, had none
    assert kernel.conntrack_flush(["10.244.1.5"]) == 2
    monkeypatch.undo()
    assert kernel.conntrack_flush(["10.244.1.5", "10.244.1.6"]) == 1
    assert listed[5:] == [1]
    assert kernel.conntrack_flush(["10.244.1.5", "10.244.1.6"]) == 0
    assert listed[6:] == []  # no dump is made, because the kernel counts no entry


def test_an_attached_workload_reaches_the_host_and_is_reached(kernel):
    if shutil.which("ping") is None:
        pytest.skip("ping is not installed")
    underlay(kernel)
    apply_node(kernel, plan_node(kernel, NodeState("node1", f"{OWN}/24")))
    kernel.sysctl_write("net/ipv4/ip_forward", "1")
    for endpoint in (WEB, DB):
        attach.attach(kernel, endpoint)
    assert ping(kernel, "10.244.1.5").code == 0
    assert ping(kernel.inside("web-1"), "10.244.1.6").code == 0
    attach.detach_route(kernel, DB)
    assert ping(kernel.inside("web-1"), "10.244.1.6").code != 0


def test_a_namespace_ends_although_it_was_looked_into(kernel):
    """A namespace ends after it was read, because no socket of ours stays in it."""
    underlay(kernel)
    kernel.netns_add("pod", "")
    endpoint = dataclasses.replace(WEB, netns="pod", netns_owned=False)
    attach.attach(kernel, endpoint)
    state = NodeState("node1", f"{OWN}/24", workloads=(endpoint,), routes=(Route("10.244.1.5/32", device="cali111"),))
    assert not plan_node(kernel, state).changed
    kernel.run(["umount", f"{kernel._netns_folder}/pod"])
    deadline = time.monotonic() + 60
    while kernel.link("cali111") is not None and time.monotonic() < deadline:
        time.sleep(0.02)
    assert kernel.link("cali111") is None
    assert not kernel.netns_exists("pod")  # its file is still there
    assert [change.note for change in plan_node(kernel, state).kept] == ["its network namespace is gone"]


def test_a_group_of_others_survives_the_deletion_of_many(kernel):
    for name in ("a0", "b0", "theirs0"):
        kernel.link_add(NewLink(name, "veth", peer_name=f"{name}p"))
    kernel.run(["ip", "link", "set", "theirs0", "group", "4711"])
    kernel.links_delete(["a0", "b0"])
    assert sorted(link.name for link in kernel.links() if link.kind == "veth") == ["theirs0", "theirs0p"]


def test_a_thread_that_looked_elsewhere_is_home_again(kernel):
    host = LinuxKernel()
    before = os.stat("/proc/thread-self/ns/net").st_ino
    seen = []

    def look():
        kernel.observe_namespace("host-under-test")
        with pytest.raises(KernelError, match="open network namespace gone: No such file or directory"):
            kernel.observe_namespace("gone")
        with pytest.raises(ZeroDivisionError):
            kernel._there(lambda: 1 // 0)
        seen.append(os.stat("/proc/thread-self/ns/net").st_ino)

    threads = [threading.Thread(target=look) for _each in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    look()
    host.close()
    assert set(seen) == {before} and len(seen) == 5


def test_addresses_of_both_families(kernel):
    kernel.link_add(NewLink("eth7", "bridge", 1500))
    kernel.link_set("eth7", up=True)
    kernel.address_add(InterfaceAddress("eth7", "192.0.2.7", 24))
    assert kernel.run(["ip", "-6", "address", "add", "2001:db8::7/64", "dev", "eth7", "nodad"]).code == 0
    assert InterfaceAddress("eth7", "2001:db8::7", 64) in kernel.addresses(family=6)
    assert InterfaceAddress("eth7", "2001:db8::7", 64) in kernel.addresses("eth7", 6)
    assert [address.address for address in kernel.addresses("eth7")] == ["192.0.2.7"]
    assert all(":" in address.address for address in kernel.addresses(family=6))
