# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The tests of modules for one kind of object, on any kernel: check, do, check again, do again, and undo."""

from __future__ import annotations

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.base import naming
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.drivers import workload
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.kernel.port import (
    InterfaceAddress,
    NewLink,
    RouteAttributes,
    RouteOperation,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.store import lock
from ansible_collections.baremetal.host_routing.plugins.modules import (
    interface_sysctl,
    interface_sysctl_info,
    iptables_table,
    iptables_table_info,
    route,
    route_info,
    tunnel_device,
    tunnel_device_info,
    workload_endpoint,
    workload_endpoint_info,
)

from tests.unit.dataplane.suites.suite_probe_endpoint import PROBE


def routes_of(host):
    return {destination for destination, attributes in host.kernel.routes(protocol=179)}


def addresses6(host, netns):
    held = host.kernel.inside(netns).addresses("eth0", 6)
    return [entry.address for entry in held if not entry.address.startswith("fe80")]


class TestRoute:
    def test_a_route_is_planned_and_added(self, host):
        planned, dummy = host.four_times(route, destination="172.19.2.0/24", gateway="10.10.1.12")
        assert planned["plan"] == ["+ route    172.19.2.0/24  via 10.10.1.12 dev eth0"]
        assert planned["diff"] == {"before": "", "after": "route    172.19.2.0/24  via 10.10.1.12 dev eth0\n"}

    def test_many_routes_are_added_in_one_call(self, host):
        wanted = [{"destination": f"10.244.{n}.0/26", "type": "blackhole"} for n in range(200)]
        wanted.append({"destination": "10.245.0.1", "device": "eth0"})
        host.four_times(route, routes=wanted)
        assert len(routes_of(host)) == 201
        found = host.run(route_info, prefix="10.245.0.0/16")["routes"]
        assert [(entry["destination"], entry["device"], entry["protocol"]) for entry in found] == [
            ("10.245.0.1/32", "eth0", "calico")
        ]

    def test_a_new_gateway_replaces_the_route_in_place(self, host):
        host.run(route, destination="172.19.2.0/24", gateway="10.10.1.12")
        seen = []
        host.kernel.watch(lambda kernel: seen.append("172.19.2.0/24" in dict(kernel.routes())))
        planned, dummy = host.four_times(route, destination="172.19.2.0/24", gateway="10.10.1.13")
        assert all(seen)
        assert planned["plan"] == ["~ route    172.19.2.0/24  via 10.10.1.12 dev eth0  ->  via 10.10.1.13 dev eth0"]

    def test_others_stay_unless_purged(self, host):
        host.run(route, destination="172.19.2.0/24", gateway="10.10.1.12")
        host.run(route, destination="172.19.3.0/24", gateway="10.10.1.12")
        assert routes_of(host) == {"172.19.2.0/24", "172.19.3.0/24"}
        host.four_times(route, purge=True, routes=[{"destination": "172.19.3.0/24", "gateway": "10.10.1.12"}])
        assert routes_of(host) == {"172.19.3.0/24"}
        assert "0.0.0.0/0" in dict(host.kernel.routes())

    def test_an_absent_route_is_removed_and_others_stay(self, host):
        host.run(route, destination="172.19.2.0/24", gateway="10.10.1.12")
        host.run(route, destination="172.19.3.0/24", gateway="10.10.1.12")
        host.four_times(route, destination="172.19.2.0/24", state="absent")
        assert routes_of(host) == {"172.19.3.0/24"}

    def test_somebody_elses_route_stays(self, host):
        foreign = RouteAttributes(device="eth0", gateway="10.10.1.9")
        host.kernel.route_batch([RouteOperation("add", "172.19.2.0/24", foreign)])
        before = host.snapshot()
        answer = host.run(route, destination="172.19.2.0/24", gateway="10.10.1.12")
        assert answer["msg"] == (
            "A route that is not ours has this destination already: 172.19.2.0/24 via 10.10.1.9 dev eth0 proto "
            "boot. It "
            "was not touched. Delete it (ip route del 172.19.2.0/24 proto 3) or stop what writes it, then run again."
        )
        assert host.run(route, destination="172.19.2.0/24", state="absent")["changed"] is False
        assert host.snapshot() == before

    def test_both_ip_versions(self, host):
        host.kernel.address_add(InterfaceAddress("eth0", "fd00:10:10::11", 64))
        host.run(route, destination="172.19.2.0/24", gateway="10.10.1.12")
        params = {"destination": "fd00:19:0::40/122", "gateway": "fd00:10:10:0::12"}
        planned, dummy = host.four_times(route, **params)
        assert planned["plan"] == ["+ route    fd00:19::40/122  via fd00:10:10::12 dev eth0"]
        assert routes_of(host) == {"172.19.2.0/24"}
        (found,) = host.run(route_info, prefix="fd00:19::/64")["routes"]
        assert (found["destination"], found["gateway"]) == ("fd00:19::40/122", "fd00:10:10::12")
        (found,) = host.run(route_info, prefix="172.19.0.0/16")["routes"]
        assert found["destination"] == "172.19.2.0/24"
        host.four_times(route, destination="fd00:19::40/122", state="absent")
        assert [entry["destination"] for entry in host.run(route_info)["routes"]] == ["172.19.2.0/24"]
        assert host.run(route_info, prefix="fd00:19::1/64")["msg"] == (
            "prefix fd00:19::1/64 is not an IPv6 network: fd00:19::1/64 has host bits set. Write it as "
            "fd00:10:244::40/122."
        )

    @pytest.mark.parametrize(
        ("params", "message"),
        [
            (
                {"destination": "fd00:19::2/64", "device": "eth0"},
                "destination fd00:19::2/64 is not an IPv6 network: fd00:19::2/64 has host bits set. Write it as "
                "fd00:10:244::40/122.",
            ),
            (
                {"destination": "fd00:19::/64", "gateway": "10.10.1.12"},
                "gateway 10.10.1.12 is not an IPv6 address, as destination fd00:19::/64 needs one. Write it as "
                "fd00:10:10:1::12.",
            ),
            (
                {"destination": "fd00:19::/64", "gateway": "fe80::1%eth0"},
                "gateway fe80::1%eth0 is not an IPv6 address, as destination fd00:19::/64 needs one. Write it as "
                "fd00:10:10:1::12.",
            ),
            (
                {"destination": "172.19.2.1/24", "device": "eth0"},
                "destination 172.19.2.1/24 is not an IPv4 network: 172.19.2.1/24 has host bits set. Write it as "
                "10.244.3.0/26.",
            ),
            (
                {"destination": "172.19.2.0/24"},
                "destination 172.19.2.0/24 has neither device nor gateway, so it leads nowhere. Name one of "
                "them, or set "
                "type: blackhole.",
            ),
            (
                {"destination": "172.19.2.0/24", "device": "eth0", "purge": True},
                "purge needs routes and state: present. It removes whatever is not in that list.",
            ),
        ],
    )
    def test_invalid_route_parameters_are_refused(self, host, params, message):
        assert host.run(route, **params)["msg"] == message


class TestTunnelDevice:
    def test_ipip(self, host):
        host.needs("ipip")
        planned, dummy = host.four_times(tunnel_device, kind="ipip", local="10.10.1.11", address="10.244.3.0")
        assert planned["plan"][0] == "+ device   tunl0  mtu 1480  up"
        (device,) = host.run(tunnel_device_info)["devices"]
        assert (device["name"], device["mtu"], device["addresses"]) == ("tunl0", 1480, ["10.244.3.0/32"])

    def test_vxlan_and_its_remote_ends(self, host):
        remotes = [{"node": "node2", "address": "10.10.1.12"}, {"mac": "66:00:00:00:00:03", "address": "10.10.1.13"}]
        params = {"kind": "vxlan", "local": "10.10.1.11", "node": "node1", "address": "10.244.3.1"}
        host.four_times(tunnel_device, remotes=remotes, **params)
        (device,) = host.run(tunnel_device_info)["devices"]
        assert (device["name"], device["mtu"], device["vni"], device["port"]) == ("vxlan.calico", 1450, 4096, 4789)
        assert [(r["address"], r["gateway"]) for r in device["remotes"]] == [
            ("10.10.1.12", "10.10.1.12"),
            ("10.10.1.13", "10.10.1.13"),
        ]
        assert host.run(tunnel_device, **params)["changed"] is False  # without `remotes`, the device's remotes stay
        host.four_times(tunnel_device, remotes=remotes[:1], **params)
        assert len(host.run(tunnel_device_info)["devices"][0]["remotes"]) == 1

    def test_vxlan_over_ipv6(self, host):
        host.kernel.address_add(InterfaceAddress("eth0", "fd00:10:10::11", 64))
        host.kernel.link_set("eth0", mtu=9000)
        remotes = [
            {"node": "node2", "address": "fd00:10:10:0::12"},
            {"mac": "66:00:00:00:00:03", "address": "fd00:10:10::13", "gateway": "fe80::3"},
        ]
        params = {"kind": "vxlan6", "local": "fd00:10:10:0::11", "node": "node1", "address": "fd00:19::1"}
        host.four_times(tunnel_device, remotes=remotes, **params)
        (device,) = host.run(tunnel_device_info)["devices"]
        assert (device["name"], device["kind"], device["mtu"]) == ("vxlan-v6.calico", "vxlan", 8930)
        assert (device["local"], device["addresses"]) == ("fd00:10:10::11", ["fd00:19::1/128"])
        assert [(r["address"], r["gateway"]) for r in device["remotes"]] == [
            ("fd00:10:10::12", naming.vtep_link_local("node2")),
            ("fd00:10:10::13", "fe80::3"),
        ]
        # A VXLAN device for IPv4 with the same port changes nothing for the one for IPv6.
        host.run(tunnel_device, kind="vxlan", local="10.10.1.11", node="node1")
        assert host.run(tunnel_device, remotes=remotes, **params)["changed"] is False
        host.four_times(tunnel_device, kind="vxlan6", state="absent")
        assert [device["name"] for device in host.run(tunnel_device_info)["devices"]] == ["vxlan.calico"]

    def test_an_absent_tunnel_device_is_removed(self, host):
        host.run(tunnel_device, kind="vxlan", local="10.10.1.11")
        host.four_times(tunnel_device, kind="vxlan", state="absent")
        assert host.run(tunnel_device_info)["devices"] == []

    def test_the_mtu_follows_the_underlay(self, host):
        host.kernel.link_set("eth0", mtu=9000)
        host.run(tunnel_device, kind="vxlan", local="10.10.1.11")
        assert host.kernel.link("vxlan.calico").mtu == 8950

    def test_addresses_of_others_stay(self, host):
        host.needs("ipip")
        host.run(tunnel_device, kind="ipip", local="10.10.1.11", address="10.244.3.0")
        host.kernel.address_add(InterfaceAddress("tunl0", "198.51.100.1", 32))
        host.run(tunnel_device, kind="ipip", state="absent")
        assert [entry.address for entry in host.kernel.addresses("tunl0")] == ["198.51.100.1"]

    def test_invalid_tunnel_parameters_are_refused(self, host):
        assert host.run(tunnel_device, kind="vxlan")["msg"] == (
            "local is missing: kind vxlan needs the node's own address. Set it to that address."
        )
        answer = host.run(tunnel_device, kind="vxlan", local="10.10.1.11", remotes=[{"address": "10.10.1.12"}])
        assert answer["msg"] == (
            "remotes: 10.10.1.12 has neither node nor mac, so frames to it have no destination. Name one."
        )
        remotes = [{"address": "10.10.1.12", "mac": "66aa.bbcc.ddee"}]
        assert host.run(tunnel_device, kind="vxlan", local="10.10.1.11", remotes=remotes)["msg"] == (
            "remotes: mac 66aa.bbcc.ddee is not the MAC address of one device. Write it as 02:00:00:00:00:01."
        )
        assert host.run(tunnel_device, kind="vxlan6", local="10.10.1.11")["msg"] == (
            "local: 10.10.1.11 is not an IPv6 address, and kind vxlan6 needs one. Write it as fd00:10:10:1::11."
        )
        remotes = [{"address": "fd00:10:10:1::12", "node": "n2", "gateway": "fe80::1%eth0"}]
        assert host.run(tunnel_device, kind="vxlan6", local="fd00:10:10:1::11", remotes=remotes)["msg"] == (
            "remotes: fe80::1%eth0 is not an IPv6 address, and kind vxlan6 needs one. Write it as fd00:10:10:1::11."
        )


class TestWorkloadEndpoint:
    def test_with_all_that_it_takes(self, host):
        planned, done = host.four_times(workload_endpoint, name="net1", address="172.19.1.2")
        interface = naming.interface_name("default", "net1")
        assert planned["interface"] == done["interface"] == interface
        link = host.kernel.link(interface)
        assert (link.mac, link.up) == ("ee:ee:ee:ee:ee:ee", True)
        assert host.kernel.sysctl_read(f"net/ipv4/conf/{interface}/proxy_arp") == "1"
        assert routes_of(host) == {"172.19.1.2/32"}
        assert [entry.address for entry in host.kernel.inside("net1").addresses("eth0")] == ["172.19.1.2"]
        assert host.run(workload_endpoint_info)["workloads"] == [
            {
                "name": "net1",
                "namespace": "default",
                "interface": interface,
                "up": True,
                "mtu": 1500,
                "netns": "net1",
                "addresses": ["172.19.1.2/32"],
            }
        ]
        assert host.run(workload_endpoint_info, name="other")["workloads"] == []
        workload.apply(host.kernel, workload.diff([PROBE], workload.observe_each(host.kernel, [PROBE])))
        assert [one["name"] for one in host.run(workload_endpoint_info)["workloads"]] == ["net1"]

    def test_with_both_ip_versions(self, host):
        done = host.four_times(workload_endpoint, name="net1", address="172.19.1.2", address_ipv6="fd00:19:0::2")[1]
        settings = {
            key: host.kernel.sysctl_read(f"net/ipv6/conf/{done['interface']}/{key}")
            for key in ("accept_dad", "accept_ra", "disable_ipv6", "forwarding")
        }
        assert settings == {"accept_dad": "0", "accept_ra": "0", "disable_ipv6": "0", "forwarding": "1"}
        assert addresses6(host, "net1") == ["fd00:19::2"]
        (found,) = host.run(workload_endpoint_info)["workloads"]
        assert found["addresses"] == ["172.19.1.2/32", "fd00:19::2/128"]
        host.four_times(workload_endpoint, name="net1", address="172.19.1.2", address_ipv6="fd00:19::3")
        assert addresses6(host, "net1") == ["fd00:19::3"]
        host.four_times(workload_endpoint, name="net1", state="absent")
        assert host.run(route_info)["routes"] == []

    def test_with_ipv6_alone(self, host):
        done = host.four_times(workload_endpoint, name="net1", address_ipv6="fd00:19::2")[1]
        assert host.kernel.sysctl_read(f"net/ipv4/conf/{done['interface']}/proxy_arp") == "0"
        assert host.kernel.inside("net1").addresses("eth0") == []
        assert addresses6(host, "net1") == ["fd00:19::2"]

    def test_an_address_of_the_other_ip_version(self, host):
        assert host.run(workload_endpoint, name="net1", address="fd00:19::2")["msg"] == (
            "address: fd00:19::2 is not an IPv4 address. Write it as 172.19.1.2."
        )
        assert host.run(workload_endpoint, name="net1", address_ipv6="fe80::1%eth0")["msg"] == (
            "address_ipv6: fe80::1%eth0 is not an IPv6 address. Write it as fd00:19::2."
        )
        assert host.run(workload_endpoint, name="net1", address_ipv6="172.19.1.2")["msg"] == (
            "address_ipv6: 172.19.1.2 is not an IPv6 address. Write it as fd00:19::2."
        )
        assert host.run(workload_endpoint, name="net1")["msg"] == (
            "state is present but any of the following are missing: address, address_ipv6"
        )

    def test_the_pair_alone(self, host):
        done = host.four_times(workload_endpoint, name="net1", address="172.19.1.2", routed=False)[1]
        assert routes_of(host) == set()
        assert host.kernel.link(done["interface"]).up
        assert host.kernel.sysctl_read(f"net/ipv4/conf/{done['interface']}/proxy_arp") == "0"

    def test_a_new_mtu_and_address_are_applied(self, host):
        host.run(workload_endpoint, name="net1", address="172.19.1.2")
        done = host.four_times(workload_endpoint, name="net1", address="172.19.1.3", mtu=1480)[1]
        assert host.kernel.link(done["interface"]).mtu == 1480
        assert "172.19.1.3/32" in routes_of(host)

    def test_absent_takes_its_own_away_and_no_other(self, host):
        host.run(workload_endpoint, name="net1", address="172.19.1.2")
        host.run(workload_endpoint, name="net2", address="172.19.1.3")
        host.run(route, destination="172.19.2.0/24", gateway="10.10.1.12")
        host.four_times(workload_endpoint, name="net1", state="absent")
        assert host.kernel.netns_list() == ["net2"]
        assert routes_of(host) == {"172.19.1.3/32", "172.19.2.0/24"}

    def test_a_name_that_no_device_can_have(self, host):
        answer = host.run(workload_endpoint, name="net1", address="172.19.1.2", interface="much-too-long-a-name")
        assert answer["failed"] and "cannot be the name of a device" in answer["msg"]

    @pytest.mark.parametrize(
        ("options", "words"),
        [
            ({"netns": "calico-probe"}, "netns: calico-probe"),
            ({"name": "calico-probe"}, "netns: calico-probe"),
            ({"interface": "caliprobe"}, "interface: caliprobe"),
            ({"name": "probe", "namespace": "calico-system"}, "name: calico-system/probe"),
        ],
    )
    def test_names_of_the_probe_endpoint_are_refused(self, host, options, words):
        before = host.snapshot()
        answer = host.run(workload_endpoint, **{"name": "net1", "address": "172.19.1.2", **options})
        assert answer["msg"] == (
            f"{words} belongs to the node's own probe endpoint, by which it tests its paths to other nodes."
            " Choose another one."
        )
        assert host.snapshot() == before

    def test_a_device_of_somebody_else_stays(self, host):
        host.kernel.link_add(NewLink("cali0", "bridge"))
        before = host.snapshot()
        answer = host.run(workload_endpoint, name="net1", address="172.19.1.2", interface="cali0")
        assert answer["msg"] == (
            "A device cali0 exists on this host that this collection did not make. It was not touched. Rename "
            "or delete "
            "it (ip link del cali0), then run again."
        )
        assert host.snapshot() == before


class TestInterfaceSysctl:
    def test_in_an_order_that_is_safe(self, host):
        host.kernel.sysctl_write("net/ipv4/neigh/eth0/proxy_delay", "80")
        planned, dummy = host.four_times(
            interface_sysctl, interface="eth0", proxy_arp=True, proxy_delay=0, forwarding=True, rp_filter=2
        )
        assert [line.split()[2].rpartition(".")[2] for line in planned["plan"]] == [
            "proxy_delay",
            "forwarding",
            "proxy_arp",
            "rp_filter",
        ]
        settings = host.run(interface_sysctl_info, interface="eth0")["settings"]
        assert (settings["proxy_delay"], settings["proxy_arp"], settings["rp_filter"]) == (0, 1, 2)

    def test_forwarding_at_all(self, host):
        host.four_times(interface_sysctl, interface="all", forwarding=True)
        assert host.kernel.sysctl_read("net/ipv4/ip_forward") == "1"

    def test_an_interface_that_is_not_there(self, host):
        answer = host.run(interface_sysctl, interface="veth9", proxy_arp=True)
        assert answer["msg"].startswith(
            "sysctl net.ipv4.conf.veth9.proxy_arp: There is no /proc/sys/net/ipv4/conf/veth9/proxy_arp to write 1 to."
        )
        assert set(host.run(interface_sysctl_info, interface="veth9")["settings"].values()) == {None}

    def test_proxy_delay_on_the_interface_all_is_refused(self, host):
        answer = host.run(interface_sysctl, interface="all", proxy_delay=0)
        assert answer["msg"] == "interface all has no proxy_delay. Set it on default, or on each interface."


class TestIptablesTable:
    NAT = {
        "table": "nat",
        "chains": {"cali-nat-outgoing": ["-d 10.244.0.0/16 -j RETURN", "-s 10.244.0.0/16 -j MASQUERADE"]},
        "hooks": [{"chain": "POSTROUTING", "rule": "-j cali-nat-outgoing"}],
    }

    def test_chains_and_hooks(self, host):
        host.four_times(iptables_table, **self.NAT)
        tables = host.run(iptables_table_info)["tables"]
        assert {chain: len(rules) for chain, rules in tables["nat"].items()} == {
            "cali-nat-outgoing": 2,
            "POSTROUTING": 1,
        }
        assert host.run(iptables_table_info, table="filter")["tables"] == {}

    def test_other_tables_and_rules_stay(self, host):
        host.run(iptables_table, chains={"cali-INPUT": ["-p 4 -j DROP"]})
        host.kernel.run(["iptables-restore", "--noflush"], stdin="*nat\n-A POSTROUTING -j MASQUERADE\nCOMMIT\n")
        host.run(iptables_table, **self.NAT)
        host.four_times(iptables_table, table="nat", state="absent")
        assert list(host.run(iptables_table_info)["tables"]) == ["filter"]
        assert "-A POSTROUTING -j MASQUERADE" in host.kernel.run(["iptables-save"]).output

    def test_tables_of_ipv6_are_others(self, host):
        host.run(iptables_table, chains={"cali-INPUT": ["-p 4 -j DROP"]})
        host.four_times(iptables_table, family=6, chains={"cali-INPUT": ["-s fd00::/8 -j DROP"]})
        for family, rule in ((4, "-p"), (6, "fd00::/8")):
            (found,) = host.run(iptables_table_info, family=family)["tables"]["filter"]["cali-INPUT"]
            assert rule in found.split()
        host.four_times(iptables_table, family=6, state="absent")
        assert host.run(iptables_table_info, family=6)["tables"] == {}
        assert list(host.run(iptables_table_info)["tables"]) == ["filter"]

    def test_a_changed_rule_is_one_planned_change(self, host):
        host.run(iptables_table, **self.NAT)
        changed = {**self.NAT, "chains": {"cali-nat-outgoing": ["-s 10.244.0.0/16 -j MASQUERADE"]}}
        planned, dummy = host.four_times(iptables_table, **changed)
        assert len(planned["plan"]) == 1

    @pytest.mark.parametrize(
        ("chains", "message"),
        [
            (
                {"INPUT": []},
                "chains: INPUT cannot be a chain of the collection. Those begin with cali- and have at most 28 "
                "characters. Rename it.",
            ),
            ({"cali-x": "-j DROP"}, "chains: cali-x is not a list of rules. Write each rule as one text."),
        ],
    )
    def test_invalid_chains_are_refused(self, host, chains, message):
        assert host.run(iptables_table, chains=chains)["msg"] == message


def test_a_run_waits_for_the_lock_and_then_names_its_holder(host):
    host.machine.lock_timeout = 0.1
    params = {"destination": "172.19.2.0/24", "gateway": "10.10.1.12"}
    with lock.held("ansible by you@there", path=host.machine.lock):
        assert host.run(route, check=True, **params)["changed"] is True
        answer = host.run(route, **params)
    assert answer["msg"].startswith("this node is being changed by ansible by you@there (pid ")
    assert routes_of(host) == set()
