# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Observing a host with files, programs and devices that the test defines."""

from __future__ import annotations

import gzip
import json

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.kernel.port import (
    Completed,
    InterfaceAddress,
    Link,
    RouteAttributes,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.preflight import features, observe
from ansible_collections.baremetal.host_routing.plugins.module_utils.preflight.files import Files

APT = "apt-cache -o Dir::Cache::pkgcache= -o Dir::Cache::srcpkgcache= policy bird2"
TCP = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
ROUTES = "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\tWindow\tIRTT\n"


def listener(port, inode, state="0A"):
    queues = "00000000:00000000 00:00000000 00000000     0        0"
    return f"   0: 00000000:{port:04X} 00000000:0000 {state} {queues} {inode} 1\n"


class Host:
    """A host: a root folder with files such as /proc, and the kernel facts that the preflight needs.

    `programs` is {command line: its output}; other programs are not found.
    """

    def __init__(self, root):
        self.root = root
        self.programs = {}
        self.devices = [Link("lo", 1), Link("eth0", 2)]
        self.held = [InterfaceAddress("eth0", "10.10.1.17", 24)]
        self.table = []

    def write(self, path, text):
        target = self.root / path.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(text if isinstance(text, bytes) else text.encode())

    def process(self, pid, name, *, netns="net:[1]", cgroup="0::/system.slice/x.service\n", command=(), inodes=()):
        folder = self.root / "proc" / str(pid)
        (folder / "ns").mkdir(parents=True)
        (folder / "ns" / "net").symlink_to(netns)
        (folder / "fd").mkdir()
        for number, inode in enumerate(inodes):
            (folder / "fd" / str(number)).symlink_to(f"socket:[{inode}]")
        self.write(f"proc/{pid}/comm", name + "\n")
        self.write(f"proc/{pid}/cgroup", cgroup)
        self.write(f"proc/{pid}/cmdline", "\0".join(command))

    def links(self):
        return self.devices

    def addresses(self, device=None, family=4):
        return [address for address in self.held if (":" in address.address) == (family == 6)]

    def routes(self, table=None, protocol=None, family=4):
        wanted = [route for route in self.table if (":" in route[0]) == (family == 6)]
        return [route for route in wanted if route[1].protocol == protocol]

    def run(self, argv, stdin="", timeout=60.0):
        output = self.programs.get(" ".join(argv))
        return Completed(127, "", "not found") if output is None else Completed(0, output, "")

    def observe(self, **options):
        return observe.observe(self, root=str(self.root), uid=0, release="6.1.0-x", **options)


@pytest.fixture
def host(tmp_path):
    made = Host(tmp_path)
    (tmp_path / "proc/self/ns").mkdir(parents=True)
    (tmp_path / "proc/self/ns/net").symlink_to("net:[1]")
    return made


def test_a_host_without_anything_can_be_observed(host):
    facts = host.observe()
    assert facts["missing_packages"] == ["bird2", "ipset", "iptables", "python3-pyroute2"]
    assert facts["daemons"] == {} and facts["ports"] == {"tcp": {}, "udp": {}}
    assert facts["link_local_route"] is None and facts["stored_node"] is None
    assert facts["features"] == dict.fromkeys(features.FEATURES)
    assert json.loads(json.dumps(facts)) == facts  # the module returns the facts as JSON


def test_processes_of_other_network_namespaces_are_left_out(host):
    host.process(10, "calico-felix")
    host.process(11, "calico-node", netns="net:[2]")
    host.process(12, "systemd-network")
    assert host.observe()["daemons"] == {"calico": ["calico-felix"], "systemd-networkd": ["systemd-network"]}


def test_listeners_are_named_and_our_bird_is_distinguished(host):
    host.write("proc/net/tcp", TCP + listener(179, 501) + listener(22, 502) + listener(2000, 503, state="01"))
    host.write("proc/net/tcp6", TCP + listener(179, 504))
    host.write("proc/net/udp", TCP + listener(4789, 0, state="07"))
    own = ("/usr/sbin/bird", "-f", "-s", "/run/calico/bird.ctl")
    host.process(30, "bird", cgroup="0::/system.slice/calico-bird.service\n", command=own, inodes=(501,))
    host.process(31, "bgpd", cgroup="0::/system.slice/frr.service\n", inodes=(504, 9))
    ports = host.observe()["ports"]
    assert ports["udp"] == {"4789": []}
    assert ports["tcp"]["22"] == []
    assert ports["tcp"]["179"] == [
        {"pid": 30, "name": "bird", "unit": "calico-bird.service", "own_bird": True},
        {"pid": 31, "name": "bgpd", "unit": "frr.service", "own_bird": False},
    ]
    assert "2000" not in ports["tcp"]


def test_our_bird_outside_of_systemd_is_known_by_its_socket(host):
    host.write("proc/net/tcp", TCP + listener(179, 501))
    host.process(30, "bird", cgroup="0::/\n", command=("bird", "-s", "/run/calico/bird.ctl"), inodes=(501,))
    assert [process["own_bird"] for process in host.observe()["ports"]["tcp"]["179"]] == [True]


NFT_SAVE = """# Generated
*filter
:INPUT ACCEPT [0:0]
:FORWARD DROP [0:0]
:DOCKER-USER - [0:0]
:cali-INPUT - [0:0]
-A INPUT -m comment --comment "cali:Cz_u1IQiXIMmKD4c" -j cali-INPUT
-A cali-INPUT -m comment --comment "cali:abc" -j ACCEPT
-A cali-INPUT -m comment --comment "calico-host-routing:0123" -j ACCEPT
-A INPUT -p tcp -m comment --comment "cali:not ours" -j ACCEPT
COMMIT
*nat
:cali-nat - [0:0]
-A cali-nat -m comment --comment "cali:abc" -j RETURN
COMMIT
"""

CHAINS = """table ip filter {
\tchain FORWARD {
\t\ttype filter hook forward priority filter; policy drop;
\t}
}
table inet mine {
\tchain input {
\t\ttype filter hook input priority filter; policy drop;
\t}
\tchain fwd {
\t\ttype filter hook forward priority filter; policy drop;
\t}
}
"""


def test_rules_are_counted_per_backend_and_calicos_by_their_comments(host):
    host.programs = {
        "iptables-nft-save": NFT_SAVE,
        "iptables-legacy-save": "*nat\n-A POSTROUTING -j MASQUERADE\nCOMMIT\n",
        "nft list chains": CHAINS,
    }
    firewall = host.observe()["firewall"]
    assert firewall == {
        "rules": {"nft": 5},  # the legacy backend has no tables, so it is not even asked
        "calico_rules": {"filter": 2, "nat": 1},
        "chains_of": ["docker"],
        "forward_drop": {
            "ipv4": ["chain FORWARD of iptables table filter (nft)", "chain fwd of nftables table inet mine"],
            "ipv6": ["chain fwd of nftables table inet mine"],
        },
    }
    host.write("proc/net/ip_tables_names", "nat\n")
    assert host.observe()["firewall"]["rules"] == {"legacy": 1, "nft": 5}


def test_the_table_that_firewalld_leaves_is_observed(host):
    table = "table inet firewalld {\n\tchain filter_FORWARD {\n\t\ttype filter hook forward priority 10;\n\t}\n}\n"
    host.programs = {"nft list chains": CHAINS + table}
    assert host.observe()["firewall"]["chains_of"] == ["firewalld"]
    host.programs = {"nft list chains": CHAINS}
    assert host.observe()["firewall"]["chains_of"] == []


def test_chains_that_drop_forwarded_ipv6_are_observed(host):
    host.programs = {
        "ip6tables-nft-save": "*filter\n:INPUT DROP [0:0]\n:FORWARD ACCEPT [0:0]\n-A INPUT -j ACCEPT\nCOMMIT\n",
        "ip6tables-legacy-save": "*raw\n:FORWARD DROP [0:0]\nCOMMIT\n*filter\n:FORWARD DROP [0:0]\nCOMMIT\n",
        "nft list chains": CHAINS.replace("ip filter", "ip6 filter").replace("inet mine", "ip6 mine"),
    }
    assert host.observe()["firewall"]["forward_drop"] == {"ipv4": [], "ipv6": ["chain fwd of nftables table ip6 mine"]}
    host.write("proc/net/ip6_tables_names", "filter\n")
    firewall = host.observe()["firewall"]
    assert firewall["forward_drop"]["ipv6"][0] == "chain FORWARD of ip6tables table filter (legacy)"
    assert firewall["rules"] == {"nft": 0}  # rules of ip6tables are not counted


STATUS = """Package: xbird2
Status: install ok installed
Version: 9

Package: bird2
Status: deinstall ok config-files
Version: 2.0.7-4

Package: iptables
Essential: no
Status: install ok installed
Architecture: amd64
Version: 1.8.9-2
"""


def test_packages_are_read_from_dpkg_and_the_candidate_from_apt(host):
    host.write("var/lib/dpkg/status", STATUS)
    host.programs[APT] = "bird2:\n  Installed: (none)\n  Candidate: 2.0.12-7\n  Version table:\n"
    facts = host.observe()
    assert facts["packages"]["iptables"] == "1.8.9-2"
    assert facts["missing_packages"] == ["bird2", "ipset", "python3-pyroute2"]
    assert (facts["bird_installed"], facts["bird_candidate"]) == (None, "2.0.12-7")


def test_an_installed_bird_of_either_name_is_enough(host):
    host.write("var/lib/dpkg/status", "Package: bird3\nStatus: install ok installed\nVersion: 3.2.0-1\n")
    host.programs[APT] = "  Candidate: 2.0.12-7\n"
    facts = host.observe()
    assert (facts["bird_installed"], facts["bird_candidate"]) == ("3.2.0-1", None)
    assert "bird2" not in facts["missing_packages"]


@pytest.mark.parametrize(
    ("lines", "device"),
    [
        ("eth0\t00000000\t0101A8C0\t0003\t0\t0\t100\t00000000\n", "eth0"),
        ("cali1\t00000000\t00000000\t0001\t0\t0\t0\t00000000\n", None),  # None: a workload's interface does not count
        ("*\t00000000\t00000000\t0201\t0\t0\t0\t00000000\n", None),  # None: an unreachable default route has no device
        (
            "eth1\t0000FEA9\t00000000\t0001\t0\t0\t0\t0000FFFF\neth0\t00000000\t0101A8C0\t0003\t0\t0\t0\t00000000\n",
            "eth1",
        ),
        (
            "eth0\t00000000\t0101A8C0\t0003\t0\t0\t200\t00000000\nwl0\t00000000\t0101A8C0\t0003\t0\t0\t100\t00000000\n",
            "wl0",
        ),
        ("eth0\t0000A8C0\t00000000\t0001\t0\t0\t0\t0000FFFF\n", None),
    ],
)
def test_the_route_to_the_workloads_gateway(host, lines, device):
    host.write("proc/net/route", ROUTES + lines)
    assert host.observe()["link_local_route"] == device


def test_devices_addresses_and_what_people_route_into_tunnels(host):
    host.devices += [Link("tunl0", 3, kind="ipip", local="192.0.2.1"), Link("cali1", 4, kind="veth")]
    host.held += [InterfaceAddress("tunl0", "10.9.9.9", 32), InterfaceAddress("cali1", "169.254.1.1", 32)]
    host.table = [
        ("10.1.0.0/16", RouteAttributes(device="tunl0", protocol=3)),
        ("10.2.0.0/16", RouteAttributes(device="tunl0", protocol=179)),
        ("10.3.0.0/16", RouteAttributes(device="eth0", protocol=4)),
    ]
    facts = host.observe()
    assert sorted(facts["links"]) == ["eth0", "lo", "tunl0"]
    assert facts["links"]["tunl0"]["local"] == "192.0.2.1"
    assert facts["addresses"] == {"eth0": ["10.10.1.17/24"], "tunl0": ["10.9.9.9/32"]}
    assert facts["manual_routes"] == {"tunl0": ["10.1.0.0/16"]}


def test_ipv6(host):
    assert host.observe()["ipv6"] == {"present": False, "advertised_default": []}
    host.held += [InterfaceAddress("eth0", "fd00:10:10::17", 64), InterfaceAddress("eth0", "fe80::1", 64, 253)]
    host.devices += [Link("vxlan-v6.calico", 3, kind="vxlan")]
    host.table = [
        ("::/0", RouteAttributes(device="eth0", gateway="fe80::9", protocol=9, metric=1024)),
        ("2001:db8::/64", RouteAttributes(device="eth1", protocol=9, metric=1024)),
        ("::/0", RouteAttributes(device="cali111", gateway="fe80::bad", protocol=9, metric=1024)),
        ("::/0", RouteAttributes(device="vxlan.calico", gateway="fe80::bad", protocol=9, metric=1024)),
        ("fd00:77::/64", RouteAttributes(device="vxlan-v6.calico", protocol=3, metric=1024)),
    ]
    host.write("proc/sys/net/ipv6/conf/all/forwarding", "0\n")
    for device in ("eth0", "cali111", "vxlan.calico"):
        host.write(f"proc/sys/net/ipv6/conf/{device}/accept_ra", "1\n")
    facts = host.observe()
    assert facts["addresses6"] == {"eth0": ["fd00:10:10::17/64"]}
    assert facts["addresses"] == {"eth0": ["10.10.1.17/24"]}
    assert facts["manual_routes"] == {"vxlan-v6.calico": ["fd00:77::/64"]}
    assert facts["ipv6"] == {"present": True, "advertised_default": ["eth0"]}
    for name, value in (("eth0/accept_ra", "2"), ("all/forwarding", "1")):
        host.write(f"proc/sys/net/ipv6/conf/{name}", value)
        assert host.observe()["ipv6"]["advertised_default"] == []
        host.write("proc/sys/net/ipv6/conf/eth0/accept_ra", "1")


def test_rp_filter_of_all_interfaces_is_observed(host):
    assert host.observe()["rp_filter_of_all"] == ""
    host.write("proc/sys/net/ipv4/conf/all/rp_filter", "2\n")
    assert host.observe()["rp_filter_of_all"] == "2"


def test_devices_that_check_sources_strictly(host):
    """The greater value of that for all devices and of the device's own counts."""
    for name, value in (("eth0", 0), ("eth1", 1), ("eth2", 2), ("lo", 1), ("tunl0", 1), ("cali0", 1), ("default", 1)):
        host.write(f"proc/sys/net/ipv4/conf/{name}/rp_filter", f"{value}\n")
    host.write("proc/net/route", ROUTES + "eth1\t00000000\t010A0A0A\t0003\t0\t0\t0\t00000000\t0\t0\t0\n")
    for of_all, strict in (("0", {"eth1": True}), ("1", {"eth0": False, "eth1": True}), ("2", {})):
        host.write("proc/sys/net/ipv4/conf/all/rp_filter", of_all)
        assert host.observe()["strict_sources"] == strict


def test_the_check_of_firewalld(host):
    assert host.observe()["firewalld_ipv6_rpfilter"] == ""
    host.write("etc/firewalld/firewalld.conf", "# IPv6_rpfilter=no\nDefaultZone=public\nIPv6_rpfilter=Loose\n")
    assert host.observe()["firewalld_ipv6_rpfilter"] == "loose"


def test_the_stored_node_and_the_system(host):
    host.write("var/lib/calico/state.json", json.dumps({"state": {"node": "node3"}}))
    host.write("etc/os-release", 'ID=debian\nVERSION_ID="13"\nPRETTY_NAME="Debian GNU/Linux 13 (trixie)"\n')
    host.write("etc/ufw/ufw.conf", "# x\nENABLED=yes\n")
    facts = host.observe()
    assert facts["stored_node"] == "node3"
    assert (facts["os"]["id"], facts["os"]["version"]) == ("debian", "13")
    assert facts["ufw"] is True


@pytest.mark.parametrize("text", ["", "{", "[]", '{"state": null}'])
def test_a_damaged_state_names_no_node(host, text):
    host.write("var/lib/calico/state.json", text)
    assert host.observe()["stored_node"] is None


class TestFeatures:
    def look(self, host):
        return features.observe(Files(str(host.root)), "6.1.0-x")

    def test_by_module_lists(self, host):
        host.write("lib/modules/6.1.0-x/modules.dep", "kernel/net/ipv4/ipip.ko.xz: kernel/net/ipv4/tunnel4.ko.xz\n")
        host.write("lib/modules/6.1.0-x/modules.builtin", "kernel/drivers/net/vxlan/vxlan.ko\n")
        assert self.look(host) == {"ipip": True, "vxlan": True, "veth": False, "ip_set": False, "nf_tables": False}

    def test_by_configuration(self, host):
        host.write("proc/config.gz", gzip.compress(b"CONFIG_VXLAN=y\n# CONFIG_NET_IPIP is not set\nCONFIG_VETH=m\n"))
        known = self.look(host)
        assert (known["ipip"], known["vxlan"], known["veth"]) == (False, True, True)

    def test_a_loaded_module_and_a_configured_one_are_available(self, host):
        host.write("sys/module/ipip/refcnt", "0")
        host.write("boot/config-6.1.0-x", "CONFIG_VXLAN=m\n")
        assert (self.look(host)["ipip"], self.look(host)["vxlan"]) == (True, True)

    def test_by_symbols_in_a_kernel_without_modules(self, host):
        host.write("proc/kallsyms", "0 t vxlan_newlink\n0 T ip_set_create\t[ip_set]\n")
        assert self.look(host) == {"ipip": False, "vxlan": True, "veth": False, "ip_set": True, "nf_tables": False}

    def test_a_feature_without_evidence_is_unknown_in_a_container(self, host):
        host.write("proc/kallsyms", "0 t vxlan_newlink\n")
        host.write("proc/modules", "")
        known = self.look(host)
        assert (known["vxlan"], known["ipip"]) == (True, None)


def test_networks_of_runtimes_in_their_order_and_who_takes_the_first(host):
    for name in ("99-lo.conf", "10-b.conflist", "10-a.json", "README", ".10-calico.conflist.0123abcd"):
        host.write(f"etc/cni/net.d/{name}", "{}")
    host.write("usr/bin/containerd", "")
    assert host.observe()["cni"] == {
        "folder": "/etc/cni/net.d",
        "networks": ["10-a.json", "10-b.conflist", "99-lo.conf"],
        "runtimes": ["containerd"],
    }


def test_docker_is_known_by_its_daemons_program(host):
    assert host.observe()["docker"] is False
    host.write("usr/sbin/dockerd", "")
    assert host.observe()["docker"] is True


def test_networks_are_searched_in_the_folder_of_the_inventory(host):
    host.write("etc/cni/other/10-b.conflist", "{}")
    host.write("usr/local/bin/crio", "")
    found = host.observe(cni_conf_dir="/etc/cni/other")["cni"]
    assert found == {"folder": "/etc/cni/other", "networks": ["10-b.conflist"], "runtimes": ["crio"]}


def test_networks_of_podman_and_their_drivers(host):
    host.write("etc/containers/networks/calico.json", '{"driver": "calico"}')
    host.write("etc/containers/networks/own.json", '{"driver": "bridge"}')
    host.write("etc/containers/networks/odd.json", '{"driver": 7}')
    host.write("etc/containers/networks/deep.json", "[" * 60_000)
    host.write("etc/containers/networks/large.json", '{"driver": "bridge", "x": "' + "y" * 70_000 + '"}')
    host.write("etc/containers/networks/.calico.json.new", "{}")
    assert host.observe()["podman"] == {
        "plugins": False,
        "networks": {"calico": "calico", "deep": "", "large": "", "odd": "", "own": "bridge"},
    }


@pytest.mark.parametrize(
    ("podman", "netavark", "takes"),
    [
        ("5.4.2+ds1-2+b2", "1.14.0-2", True),
        ("4.5.0-1", "1.6.0-1", True),
        ("1:10.0", "1.14.0-2", True),
        ("4.3.1+ds1-8+deb12u1", "1.4.0-3", False),
        ("5.4.2", None, False),
        (None, "1.14.0-2", False),
        ("weird", "1.14.0-2", False),
    ],
)
def test_which_podman_takes_plugins_of_netavark(host, podman, netavark, takes):
    found = {"podman": podman, "netavark": netavark}
    text = "\n".join(
        f"Package: {name}\nStatus: install ok installed\nVersion: {version}\n"
        for name, version in found.items()
        if version
    )
    host.write("var/lib/dpkg/status", text)
    assert host.observe()["podman"]["plugins"] is takes
