# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests that a running agent repairs changes of its own objects in time, and leaves other programs' objects alone."""

from __future__ import annotations

import dataclasses
import os
import pathlib
import shutil
import time
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.kernel.port import Kernel
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_state import (
    FdbEntry,
    Hook,
    IpSet,
    IptablesTable,
    Neighbor,
    NodeState,
    RoutingRule,
    Sysctl,
    TunnelDevice,
)

from tests.integration.agent.daemon_under_test import Daemon, daemon_under_test
from tests.unit.agent.node_under_test import STATE
from tests.unit.dataplane.suites.drivers import OWN
from tests.unit.dataplane.suites.suite_node import foreign, state_of

VTEP, REMOTE = "66:00:00:00:00:01", "66:00:00:00:00:02"
ACCEPT = "-p udp -m udp --dport 4789 -m set --match-set cali40all-hosts-net src -j ACCEPT"

FULL: NodeState = dataclasses.replace(
    STATE,
    devices=(TunnelDevice("vxlan.calico", "vxlan", 1450, OWN, "10.244.1.255", VTEP, 4096, 4789),),
    neighbors=(Neighbor("vxlan.calico", "10.10.1.12", REMOTE),),
    fdb=(FdbEntry("vxlan.calico", REMOTE, "10.10.1.12"),),
    rules=(RoutingRule(0xCA11, 179, 179),),
    sysctls=(*STATE.sysctls, Sysctl("net/ipv4/conf/vxlan.calico/rp_filter", "2")),
    ipsets=(IpSet("cali40all-hosts-net", "hash:net", ("10.10.1.11", "10.10.1.12")),),
    iptables=(
        IptablesTable("filter", {"cali-INPUT": (ACCEPT,)}, (Hook("INPUT", "-j cali-INPUT"),)),
        IptablesTable(
            "nat",
            {"cali-POSTROUTING": ("-s 10.244.0.0/16 ! -d 10.244.0.0/16 -j MASQUERADE",)},
            (Hook("POSTROUTING", "-j cali-POSTROUTING"),),
        ),
    ),
)


#: {name of a change by another program: (its command, in a shell on the node; the kind counted as drift)}. {host},
#: {address}, {netns} and {remote} stand for the workload's host end, address and namespace, and for REMOTE.
SABOTAGES = {
    "route": ("ip route del {address}", "route"),
    "blackhole": ("ip route del blackhole 10.244.1.0/29", "route"),
    "route replaced": ("ip route replace {address} via 10.10.1.9 proto 179", "route"),
    "route replaced as BIRD would": ("ip route replace {address} via 10.10.1.9 proto bird", "route"),
    "route too much": ("ip route add 10.244.1.77 dev {host} proto 179", "route"),
    "rule": ("ip rule del priority 179", "rule"),
    "tunnel address": ("ip address del 10.244.1.255/32 dev vxlan.calico", "address"),
    "neighbour": ("ip neighbor del 10.10.1.12 dev vxlan.calico", "neighbor"),
    "neighbour replaced": (
        "ip neighbor replace 10.10.1.12 lladdr 66:66:66:66:66:66 dev vxlan.calico nud permanent",
        "neighbor",
    ),
    "forwarding entry": ("bridge fdb del {remote} dev vxlan.calico dst 10.10.1.12", "fdb"),
    "tunnel device": ("ip link del vxlan.calico", "device"),
    "tunnel device down": ("ip link set vxlan.calico down", "device"),
    "tunnel device's mtu": ("ip link set vxlan.calico mtu 1280", "device"),
    "host end": ("ip link del {host}", "workload"),
    "host end down": ("ip link set {host} down", "workload"),
    "host end's mtu": ("ip link set {host} mtu 1280", "workload"),
    "host end's mac": ("ip link set {host} address 02:00:00:00:00:01", "workload"),
    "host end's mark": ("ip link set {host} alias theirs", "workload"),
    "proxy_arp": ("echo 0 > /proc/sys/net/ipv4/conf/{host}/proxy_arp", "sysctl"),
    "forwarding": ("echo 0 > /proc/sys/net/ipv4/conf/{host}/forwarding", "sysctl"),
    "proxy_delay": ("echo 80 > /proc/sys/net/ipv4/neigh/{host}/proxy_delay", "sysctl"),
    "ip_forward": ("echo 0 > /proc/sys/net/ipv4/ip_forward", "sysctl"),
    "rp_filter": ("echo 1 > /proc/sys/net/ipv4/conf/vxlan.calico/rp_filter", "sysctl"),
    "rp_filter as udev sets it": ("echo 2 > /proc/sys/net/ipv4/conf/{host}/rp_filter", "sysctl"),
    "advertisements of a workload": ("echo 1 > /proc/sys/net/ipv6/conf/{host}/accept_ra", "workload"),
    "advertisements in a tunnel": ("echo 1 > /proc/sys/net/ipv6/conf/vxlan.calico/accept_ra", "device"),
    "NAT rule": ("iptables -t nat -F cali-POSTROUTING", "iptables"),
    "NAT hook": ("iptables -t nat -F POSTROUTING", "iptables"),
    "chain": (
        "iptables -F INPUT; iptables -A INPUT -j theirs; iptables -F cali-INPUT; iptables -X cali-INPUT",
        "iptables",
    ),
    "rule before our hook": ("iptables -I INPUT -s 192.0.2.7 -j ACCEPT", "iptables"),
    "member of a set": ("ipset del cali40all-hosts-net 10.10.1.12", "ipset"),
    "address inside": ("nsenter --net={netns} ip address del {address}/32 dev eth0", "workload"),
    "default route inside": ("nsenter --net={netns} ip route del default", "workload"),
}
#: Changes that only polling finds, because the agent's monitor receives no event. They may take longer.
POLLED = {
    "route replaced as BIRD would",
    "proxy_delay",
    "NAT rule",
    "NAT hook",
    "chain",
    "rule before our hook",
    "member of a set",
    "address inside",
    "default route inside",
    "advertisements of a workload",
    "advertisements in a tunnel",
}


def shell(kernel: Kernel, script: str) -> None:
    done = kernel.run(["sh", "-euc", script])
    assert done.code == 0, (script, done)


def sysctls(kernel: Kernel, host: str) -> list[t.Any]:
    keys = ["conf/{}/proxy_arp", "conf/{}/forwarding", "neigh/{}/proxy_delay", "conf/{}/rp_filter"]
    found = [kernel.sysctl_read(f"net/ipv4/{key.format(host)}") for key in keys]
    return [
        *found,
        kernel.sysctl_read("net/ipv4/ip_forward"),
        *(kernel.sysctl_read(f"net/ipv6/conf/{device}/accept_ra") for device in (host, "vxlan.calico")),
        kernel.sysctl_read("net/ipv4/conf/vxlan.calico/rp_filter"),
    ]


def everything(node: Daemon, host: str) -> dict[str, t.Any]:
    kernel = node.kernel
    found = state_of(kernel)
    found["links"] = sorted(
        (link.name, link.mtu, link.up, link.alias, link.kind and link.mac)
        for link in kernel.links()
        if link.name in (host, "vxlan.calico")
    )
    found["neighbors"] = [entry for entry in kernel.neighbors("vxlan.calico") if entry.permanent]
    found["fdb"] = [entry for entry in kernel.fdb("vxlan.calico") if entry.destination]
    inside = kernel.observe_namespace("web")
    found["inside"] = inside.addresses, sorted(inside.routes, key=repr)
    found["sysctls"] = sysctls(kernel, host)
    return found


@pytest.fixture(scope="module")
def shared(engine: pathlib.Path, tmp_path_factory: pytest.TempPathFactory) -> t.Iterator[Daemon]:
    with daemon_under_test(engine, tmp_path_factory.mktemp("repair"), FULL) as daemon:
        foreign(daemon.kernel)
        daemon.settings(cleanup_grace=0.0)
        daemon.start()
        daemon.add("web")
        daemon.in_sync()
        yield daemon


def beats_until_counted(node: Daemon, script: str, kind: str) -> int:
    """Run `script` on the node; return the number of waits of ten milliseconds until drift of this kind is counted.

    The agent is in sync again then. Raise AssertionError after 600 waits, if the script fails, or if the agent is not
    in sync within two minutes.
    """
    counted = node.call("status")["drift"]["kinds"].get(kind, 0)
    shell(node.kernel, script)
    beats = 0
    while node.call("status")["drift"]["kinds"].get(kind, 0) == counted:
        time.sleep(0.01)
        beats += 1
        assert beats < 600, f"{script} is not noticed"
    node.in_sync()
    return beats


@pytest.mark.parametrize("name", SABOTAGES)
def test_a_broken_object_is_repaired_in_time_and_counted(shared: Daemon, name: str) -> None:
    script, kind = SABOTAGES[name]
    workload = shared.call("workload.get", id="default/web")["workload"]
    host, address = workload["interface"], workload["addresses"][0]
    before = everything(shared, host)
    script = script.format(host=host, address=address, remote=REMOTE, netns=shared.netns("web"))
    limit = 200 if name in POLLED else 100
    # The machine may be busy, so one of two attempts has to be fast enough.
    assert beats_until_counted(shared, script, kind) <= limit or beats_until_counted(shared, script, kind) <= limit
    after = everything(shared, host)
    if name == "rule before our hook":
        assert [line for line in after["iptables"] if "192.0.2.7" in line]
        after["iptables"] = [line for line in after["iptables"] if "192.0.2.7" not in line]
        shell(shared.kernel, "iptables -D INPUT -s 192.0.2.7 -j ACCEPT")
    assert after == before
    assert f"Repaired {kind} " in shared.log.read_text()


#: Changes of other programs that the agent must leave alone. Some resemble changes of its own objects.
FOREIGN = """
ip route add 10.244.77.0/24 via 10.10.1.9
ip route add 10.244.1.200 via 10.10.1.9 proto static
ip route add 192.0.2.64/26 dev {host}
ip route add 10.244.1.5/32 dev eth0 table 77
ip rule add priority 200 fwmark 0xca11 lookup 77
ip address add 192.0.2.99/32 dev vxlan.calico
ip address add 192.0.2.98/32 dev eth0
ip link add cali0123456789a type veth peer name theirs9
ip link add vxlan77 type vxlan id 77 dstport 4777 local 10.10.1.11
bridge fdb append 66:00:00:00:00:09 dev vxlan77 dst 10.10.1.19
ip neighbor add 10.10.1.12 lladdr 66:00:00:00:00:09 dev eth0 nud permanent
iptables -N theirs-too
iptables -A theirs-too -j DROP
iptables -A INPUT -j theirs-too
iptables -t nat -A POSTROUTING -s 192.0.2.0/24 -j MASQUERADE
ipset create theirs-too hash:ip
ipset add theirs-too 192.0.2.1
echo 1 > /proc/sys/net/ipv4/conf/{host}/log_martians
"""


def test_foreign_objects_are_never_touched(stopped_daemon: Daemon) -> None:
    daemon = stopped_daemon
    daemon.desire(FULL)
    daemon.settings(cleanup_grace=0.0)
    daemon.start()
    host = daemon.add("web")["interface"]
    daemon.in_sync()
    shell(daemon.kernel, FOREIGN.format(host=host))

    def theirs() -> dict[str, t.Any]:
        found = state_of(daemon.kernel)
        found["fdb"] = daemon.kernel.fdb("vxlan77")
        found["neighbors"] = [entry for entry in daemon.kernel.neighbors("eth0") if entry.permanent]
        found["rp_filter"] = daemon.kernel.sysctl_read(f"net/ipv4/conf/{host}/rp_filter")
        return found

    before = theirs()
    assert daemon.call("resync")["in_sync"]
    time.sleep(2.5)  # the agent polls twice, or more often
    found = daemon.call("resync")
    assert found["in_sync"] and found["changes"] == []
    assert theirs() == before
    assert daemon.call("status")["drift"]["total"] == 0


def test_rules_of_the_legacy_backend_are_repaired_too(
    stopped_daemon: Daemon, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    legacy = shutil.which("xtables-legacy-multi", path="/usr/sbin:/sbin")
    assert legacy, "install iptables to run these tests"
    (tmp_path / "alternatives").mkdir()
    for name in ("iptables", "iptables-save", "iptables-restore"):
        (tmp_path / "alternatives" / name).symlink_to(legacy)
    monkeypatch.setenv("PATH", f"{tmp_path / 'alternatives'}:{os.environ['PATH']}")
    daemon = stopped_daemon
    daemon.desire(FULL)
    daemon.start()
    daemon.in_sync()
    before = state_of(daemon.kernel)["iptables"]
    for count, script in enumerate(("iptables -F cali-INPUT", "iptables -t nat -F POSTROUTING"), start=1):
        shell(daemon.kernel, script)
        daemon.until(lambda n=count: daemon.call("status")["drift"]["total"] == n, "it is repaired")  # type: ignore[misc]
        assert state_of(daemon.kernel)["iptables"] == before


def test_an_underlay_that_goes_away_comes_back_without_help(shared: Daemon) -> None:
    """What depends on the underlay's address is back without a request once the address is.

    Meanwhile the agent reports the problem.
    """
    kernel = shared.kernel
    before = state_of(kernel)
    shell(kernel, "ip address del 10.10.1.11/24 dev eth0")
    shared.until(lambda: shared.call("status")["problems"], "the agent says that something is the matter")
    assert "No network interface of node1 has its address 10.10.1.11." in shared.call("status")["problems"][0]
    shell(kernel, "ip address add 10.10.1.11/24 dev eth0")
    shared.in_sync()
    shell(kernel, "ip route add default via 10.10.1.1; ip route add 198.51.100.0/24 via 10.10.1.9 proto static")
    shell(kernel, "ip route add 10.244.77.0/26 via 10.10.1.9 proto bird")
    assert state_of(kernel) == before
