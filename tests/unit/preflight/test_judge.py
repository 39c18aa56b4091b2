# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The messages for a host that cannot be used, word for word; a usable host passes."""

from __future__ import annotations

import copy
import dataclasses

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.base import terminal_text
from ansible_collections.baremetal.host_routing.plugins.module_utils.bgp.bird_state import Bird
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet import firewall
from ansible_collections.baremetal.host_routing.plugins.module_utils.preflight import judge as judging
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.attachment import (
    probe_endpoint,
    with_probe_endpoint,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.fleet_list import FleetMember
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_state import (
    Hook,
    IpSet,
    IptablesTable,
    NodeIpam,
    NodeState,
    Pool,
    Sysctl,
    TunnelDevice,
    VethEndpoint,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.policy_state import (
    PolicySettings,
    PolicyState,
)

POOLS = {
    4: Pool("pool", "10.244.0.0/16", 26, "IPIP", nat_outgoing=True),
    6: Pool("six", "fd00:10:244::/48", 122, "VXLAN", nat_outgoing=True),
}
WORKLOAD = VethEndpoint("web-1", "cali0123456789a", "10.244.3.1", 1450, "pool")
IPIP = TunnelDevice("tunl0", "ipip", 1480, "10.10.1.17", "10.244.3.0")
VXLAN = TunnelDevice("vxlan.calico", "vxlan", 1450, "10.10.1.17", "10.244.3.0", "66:00:00:00:00:01", 4096, 4789)
BIRD = Bird("10.10.1.17", "10.10.1.17", 64512, "10.10.1.0/24")
STATE = NodeState(
    "node7",
    "10.10.1.17/24",
    devices=(IPIP, VXLAN),
    ipam=NodeIpam(tunnels={"ipip": "10.244.3.0", "vxlan": "10.244.3.1"}),
    workloads=(WORKLOAD,),
    ipsets=(IpSet("cali40all-hosts-net", "hash:net"),),
    iptables=(IptablesTable("filter", {"cali-INPUT": ()}),),
    bird=BIRD,
)


def link(**fields):
    plain = {"kind": "", "mtu": 1500, "mac": "", "up": True, "alias": "", "vni": None, "port": None, "local": None}
    return {**plain, "external": False, **fields}


GOOD = {
    "uid": 0,
    "os": {"id": "debian", "version": "12", "name": "Debian GNU/Linux 12 (bookworm)", "codename": "bookworm"},
    "packages": {},
    "missing_packages": [],
    "bird_installed": "2.0.12-7",
    "bird_candidate": None,
    "daemons": {},
    "runtimes": {"subnets": [], "firewall_driver": "", "unreadable": []},
    "ufw": False,
    "ports": {"tcp": {}, "udp": {}},
    "firewall": {"rules": {"nft": 3}, "forward_drop": {"ipv4": [], "ipv6": []}, "chains_of": [], "calico_rules": {}},
    "features": dict.fromkeys(("ipip", "vxlan", "veth", "ip_set", "nf_tables"), True),
    "link_local_route": "eth0",
    "stored_node": None,
    "links": {"lo": link(mtu=65536), "eth0": link()},
    "addresses": {"lo": ["127.0.0.1/8"], "eth0": ["10.10.1.17/24"]},
    "addresses6": {"eth0": ["fd00:10:10::17/64"]},
    "ipv6": {"present": True, "advertised_default": []},
    "manual_routes": {},
    "rp_filter_of_all": "1",
    "cni": {"folder": "/etc/cni/net.d", "networks": [], "runtimes": []},
    "podman": {"plugins": False, "networks": {}},
}


def facts(**changes):
    """Return a copy of GOOD with facts["a"] set to the value of `a`, and facts["a"]["b"] to that of `a__b`.

    Raise KeyError for `a__b` if GOOD has no "a".
    """
    result = copy.deepcopy(GOOD)
    for path, value in changes.items():
        *folders, last = path.split("__")
        place = result
        for folder in folders:
            place = place[folder]
        place[last] = value
    return result


def process(name="bird", pid=812, unit="bird.service", own_bird=False):
    return {"name": name, "pid": pid, "unit": unit, "own_bird": own_bird}


def test_a_usable_host_has_no_findings():
    assert judging.judge(facts(), STATE) == []


@pytest.mark.parametrize(
    ("have", "spoofing", "text"),
    [
        ("", False, ""),
        ("1", False, ""),
        ("0", True, ""),
        (
            "2",
            False,
            "node7: net.ipv4.conf.all.rp_filter is 2, and the kernel takes the greater value of that and an "
            "interface's own. The sources of workloads' packets would be checked loosely, not strictly.\n"
            "Set it to 0 or 1 where it is set (grep -r rp_filter /etc/sysctl.d /etc/sysctl.conf) and by sysctl -w, and "
            "give interfaces that need 2 that value of their own.",
        ),
        (
            "1",
            True,
            "node7: net.ipv4.conf.all.rp_filter is 1, and the kernel takes the greater value of that and an "
            "interface's own. What guests route would be dropped, although calico_workload_source_spoofing is set for "
            "this host.\nSet it to 0 where it is set (grep -r rp_filter /etc/sysctl.d /etc/sysctl.conf) and by sysctl "
            "-w, and give interfaces that need 1 that value of their own.",
        ),
    ],
)
def test_a_check_of_all_interfaces_overrules_that_of_workloads(have, spoofing, text):
    state = dataclasses.replace(STATE, workload_source_spoofing=spoofing)
    found = judging.judge(facts(rp_filter_of_all=have), state)
    assert [(finding.severity, finding.message("node7")) for finding in found] == ([("error", text)] if text else [])
    reflector = dataclasses.replace(state, bird=dataclasses.replace(BIRD, workload_node=False), workloads=())
    assert not judging.judge(facts(rp_filter_of_all=have), reflector)


def excluding(*versions):
    """Return a state with tunnels of both IP versions. Its natOutgoing leaves packets to nodes' addresses alone."""
    tables = firewall.tables([POOLS[version] for version in versions], (), excludes_hosts=True)
    vxlan6 = TunnelDevice("vxlan-v6.calico", "vxlan", 1430, "fd00:10:10::17", None, "66:00:00:00:00:02", 4096, 4789)
    nodes = (FleetMember("node7", STATE.address, 64512), FleetMember("node8", "10.10.1.18/24", 64512))
    return dataclasses.replace(
        STATE, address6="fd00:10:10::17/64", devices=(IPIP, vxlan6), iptables=tables, nodes=nodes
    )


STRICT = (
    "node7: net.ipv4.conf.eth1.rp_filter is 1, and calico_nat_outgoing_exclusions is IPPoolsAndHostIPs. What workloads "
    "of other nodes send to addresses of this host would be dropped on eth1: their way back is a tunnel.\n"
    "Set it to 2 there, or set calico_nat_outgoing_exclusions: IPPoolsOnly."
)


@pytest.mark.parametrize(
    ("addresses", "strict", "texts"),
    [
        ({}, {"eth1": True}, [STRICT]),
        ({"eth1": ["10.10.1.99/24"]}, {"eth1": False}, [STRICT]),
        ({"eth1": ["10.10.9.99/24"]}, {"eth1": False}, []),
        ({}, {"eth0": True}, []),  # it has the node's address: the node itself makes its check loose
        ({}, {}, []),
    ],
)
def test_a_strict_check_where_packets_of_other_nodes_come_in(addresses, strict, texts):
    held = {"eth0": ["10.10.1.17/24"], **addresses}
    found = judging.judge(facts(addresses=held, strict_sources=strict), excluding(4, 6))
    assert [one.message("node7") for one in found] == texts
    assert {one.severity for one in found} <= {"warning"}
    for state in (STATE, dataclasses.replace(excluding(4, 6), devices=()), excluding(6)):
        assert not judging.judge(facts(addresses=held, strict_sources=strict), state)


@pytest.mark.parametrize(
    ("value", "finds"), [("", True), ("yes", True), ("strict", True), ("loose", False), ("no", False)]
)
def test_firewalld_checks_the_sources_of_ipv6(value, finds):
    given = facts(daemons={"firewalld": ["firewalld"]}, firewalld_ipv6_rpfilter=value)
    found = [one for one in judging.judge(given, excluding(4, 6)) if one.id == "firewalld-checks-sources"]
    text = (
        "node7: firewalld checks the sources of IPv6 packets strictly, and calico_nat_outgoing_exclusions is "
        "IPPoolsAndHostIPs. It would drop what workloads of other nodes send to addresses of this host: their way back "
        "is a tunnel.\nSet IPv6_rpfilter=loose in /etc/firewalld/firewalld.conf and restart firewalld, or set "
        "calico_nat_outgoing_exclusions: IPPoolsOnly."
    )
    assert [(one.severity, one.message("node7")) for one in found] == ([("warning", text)] if finds else [])
    assert not [one for one in judging.judge(given, excluding(4)) if one.id == "firewalld-checks-sources"]


def test_a_converged_node_has_no_findings():
    converged = facts(
        stored_node="node7",
        ports={"tcp": {"179": [process(unit="calico-bird.service", own_bird=True)]}, "udp": {"4789": []}},
        features=dict.fromkeys(GOOD["features"]),  # None is unknown: a container cannot see its kernel
    )
    converged["links"]["tunl0"] = link(kind="ipip", alias="calico: tunl0", mtu=1480, local="10.10.1.17")
    converged["links"]["vxlan.calico"] = link(kind="vxlan", alias="calico: vxlan", mtu=1450, vni=4096, port=4789)
    converged["addresses"]["tunl0"] = ["10.244.3.0/32"]
    converged["addresses"]["vxlan.calico"] = ["10.244.3.1/32"]
    assert judging.judge(converged, STATE) == []


VXLAN6 = TunnelDevice("vxlan-v6.calico", "vxlan", 1430, "fd00:10:10::17", None, "66:00:00:00:00:01", 4096, 4789)
DUAL = dataclasses.replace(
    STATE,
    address6="fd00:10:10::17/64",
    devices=(*STATE.devices, VXLAN6),
    sysctls=(Sysctl("net/ipv6/conf/all/forwarding", "1"),),
)


def test_both_tunnels_of_ours_share_their_port():
    found = facts(ports__udp={"4789": []})
    found["links"]["vxlan.calico"] = link(kind="vxlan", alias="calico: tunnel", vni=4096, port=4789)
    assert judging.judge(found, DUAL) == []
    found["links"]["vxlan-v6.calico"] = link(kind="vxlan", alias="calico: tunnel", vni=4096, port=4789)
    assert judging.judge(found, DUAL) == judging.judge(found, STATE) == []
    found["links"]["vxlan-v6.calico"] = link(kind="vxlan", alias="theirs", vni=4096, port=4789)
    assert [finding.id for finding in judging.judge(found, DUAL)] == ["foreign-vxlan-device"]


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        (
            {"ipv6__present": False, "addresses6": {}},
            "node7: the kernel has no IPv6. There is no /proc/sys/net/ipv6: it was started with ipv6.disable=1, or "
            "built without it.\n"
            "Start it without that (GRUB_CMDLINE_LINUX in /etc/default/grub), or remove calico_node_address_ipv6.",
        ),
        (
            {"addresses6__eth0": ["fd00:10:10::18/64"]},
            "node7: no interface carries the node's address fd00:10:10::17. calico_node_address_ipv6 is "
            "fd00:10:10::17/64; the host has fd00:10:10::18/64 on eth0.\n"
            "Correct calico_node_address_ipv6, or configure the address on the host.",
        ),
        (
            {"ipv6__advertised_default": ["eth0"]},
            "node7: the host has its IPv6 default route from a router's advertisement on eth0. A host that forwards "
            "IPv6, as a node does, takes none while accept_ra is 1: it would lose that route.\n"
            "Set net.ipv6.conf.eth0.accept_ra = 2 (sysctl.d), or give the host a default route of its own.",
        ),
        (
            {"firewall__forward_drop__ipv6": ["chain FORWARD of ip6tables table filter (nft)"]},
            "node7: forwarded packets are dropped by default. The policy of chain FORWARD of ip6tables table filter "
            "(nft) is drop, so nothing would reach this node's workloads.\n"
            "Set the policy to accept: run ip6tables-nft -P FORWARD ACCEPT, and write it where it is configured.",
        ),
    ],
)
def test_a_host_unfit_for_ipv6_is_a_finding_if_ipv6_is_used(changes, told):
    assert [finding.message("node7") for finding in judging.judge(facts(**changes), DUAL)] == [told]
    assert judging.judge(facts(**changes), STATE) == []


def test_a_chain_that_drops_both_ip_versions_is_named_once():
    chain = "chain fwd of nftables table inet mine"
    found = facts(
        firewall__forward_drop={"ipv4": [chain], "ipv6": [chain, "chain FORWARD of ip6tables table filter (nft)"]},
        firewall__chains_of=["docker"],
    )
    assert [finding.message("node7") for finding in judging.judge(found, DUAL)] == [
        "node7: forwarded packets are dropped by default (Docker does that). The policy of chain fwd of nftables table "
        "inet mine and chain FORWARD of ip6tables table filter (nft) is drop, so nothing would reach this node's "
        "workloads.\n"
        'Set "ip-forward-no-drop": true in /etc/docker/daemon.json (Docker 28 or newer), restart Docker and run '
        "nft chain inet mine fwd '{ policy accept; }' and ip6tables-nft -P FORWARD ACCEPT."
    ]


def test_dockers_drop_harms_no_node_whose_rules_accept():
    """The node's own rules, or its policy, accept at the end of iptables' chain. Chains of nftables drop anyway."""
    accepting = tuple(
        IptablesTable("filter", hooks=(Hook("FORWARD", "-i cali+ -j ACCEPT", last=True),), family=family)
        for family in (4, 6)
    )
    docker = facts(
        firewall__forward_drop={
            "ipv4": ["chain FORWARD of iptables table filter (nft)"],
            "ipv6": ["chain FORWARD of ip6tables table filter (nft)"],
        },
        firewall__chains_of=["docker"],
    )
    assert judging.judge(docker, dataclasses.replace(DUAL, iptables=accepting)) == []
    assert judging.judge(docker, dataclasses.replace(DUAL, policy=PolicyState())) == []
    returning = PolicyState(settings=PolicySettings(allow_action="Return"))
    for left in (accepting[:1], accepting[1:]):
        (finding,) = judging.judge(docker, dataclasses.replace(DUAL, iptables=left))
        assert finding.id == "forward-drop"
    (finding,) = judging.judge(docker, dataclasses.replace(DUAL, policy=returning, iptables=accepting))
    assert finding.id == "forward-drop"
    mine = facts(firewall__forward_drop__ipv4=["chain fwd of nftables table inet mine"])
    (finding,) = judging.judge(mine, dataclasses.replace(DUAL, iptables=accepting))
    assert finding.id == "forward-drop"


def test_a_node_with_ipv6_alone_is_judged_by_that():
    six = dataclasses.replace(WORKLOAD, address="", pool="", address6="fd00:10:244::7", pool6="six")
    alone = dataclasses.replace(DUAL, address="", devices=(VXLAN6,), workloads=(six,))
    docker = {"ipv4": ["chain FORWARD of iptables table filter (nft)"], "ipv6": []}
    found = facts(addresses={}, firewall__forward_drop=docker, link_local_route=None)
    assert judging.judge(found, alone) == []


def tunl0(*addresses, alias="", local=None, routes=()):
    found = facts()
    found["links"]["tunl0"] = link(kind="ipip", alias=alias, local=local, mtu=1480)
    found["addresses"]["tunl0"] = list(addresses)
    if routes:
        found["manual_routes"] = {"tunl0": list(routes)}
    return found


def vxlan(name, port=4789, kind="vxlan", alias=""):
    found = facts()
    found["links"][name] = link(kind=kind, alias=alias, vni=77, port=port)
    return found


CASES = {
    "not root": (
        facts(uid=1000),
        "error",
        "node7: the modules run without root's rights. They run as user id 1000 and have to change routes, devices and "
        "files below /etc.\n"
        "Set ansible_become: true for this host.",
    ),
    "clone": (
        facts(stored_node="node3"),
        "error",
        "node7: this host holds the state of another node, node3. /var/lib/calico/state.json says node3, the inventory "
        "says node7: the host was cloned or renamed, and two nodes must not share blocks.\n"
        "If node3 lives on elsewhere or under the new name, remove /var/lib/calico on this host and run again; else "
        "correct the inventory.",
    ),
    "felix with rules": (
        facts(daemons={"calico": ["calico-felix"]}, firewall__calico_rules={"filter": 214}),
        "error",
        "node7: a real Calico is running here (process calico-felix, 214 cali-* rules in table filter). This "
        "collection "
        "uses the same names and would fight it.\n"
        "Remove it first (docs/how-to/migrate-from-calico.md), or leave node7 out of the group.",
    ),
    "calico's rules without it": (
        facts(firewall__calico_rules={"filter": 20, "nat": 3}),
        "error",
        "node7: a real Calico left its rules here (20 cali-* rules in table filter, 3 cali-* rules in table nat). This "
        "collection uses the same names and would fight it.\n"
        "Remove it first (docs/how-to/migrate-from-calico.md), or leave node7 out of the group.",
    ),
    "address elsewhere": (
        facts(addresses={"lo": ["127.0.0.1/8"], "eth0": ["10.10.1.18/24"], "eth1": ["192.0.2.1/30"]}),
        "error",
        "node7: no interface carries the node's address 10.10.1.17. calico_node_address is 10.10.1.17/24; the host has "
        "10.10.1.18/24 on eth0 and 192.0.2.1/30 on eth1.\n"
        "Correct calico_node_address, or configure the address on the host.",
    ),
    "prefix length": (
        facts(addresses__eth0=["10.10.1.17/16"]),
        "warning",
        "node7: the node's address has another prefix length on eth0. calico_node_address is 10.10.1.17/24, the "
        "interface has 10.10.1.17/16.\n"
        "Correct whichever is wrong: CrossSubnet pools decide by it which nodes are neighbours.",
    ),
    "mtu": (
        facts(links__eth0=link(mtu=1400)),
        "error",
        "node7: eth0 takes packets of 1400 bytes and the fleet counts on 1500. calico_underlay_mtu is 1500: larger "
        "packets to and from this node would be lost.\n"
        "Raise the MTU of eth0, or set calico_underlay_mtu: 1400 for all nodes.",
    ),
    "foreign bgp": (
        facts(ports__tcp={"179": [process("bgpd", 4711, "frr.service")]}),
        "error",
        "node7: another daemon listens on TCP port 179 (bgpd, pid 4711, unit frr.service). calico-bird.service has to "
        "listen there for its peers.\n"
        "Stop that daemon or set another calico_bgp_listen_port, or leave node7 out of the group.",
    ),
    "foreign bgp beside ours": (
        facts(ports__tcp={"179": [process(own_bird=True), process("gobgpd", 9, "")]}),
        "error",
        "node7: another daemon listens on TCP port 179 (gobgpd, pid 9). calico-bird.service has to listen there "
        "for its "
        "peers.\n"
        "Stop that daemon or set another calico_bgp_listen_port, or leave node7 out of the group.",
    ),
    "own tunnel": (
        tunl0("10.99.0.1/30", local="192.0.2.5", routes=("10.98.0.0/16",)),
        "error",
        "node7: tunl0 is in use as somebody's own tunnel (local end 192.0.2.5, address 10.99.0.1/30, route to "
        "10.98.0.0/16). The pools with ipipMode need this device: the kernel has one per host that takes packets from "
        "any node.\n"
        "Move that tunnel to a device of its own (ip link add NAME type ipip), or set vxlanMode for the pools.",
    ),
    "virtual addresses": (
        tunl0("198.51.100.1/32", "198.51.100.2/32"),
        "warning",
        "node7: tunl0 carries addresses of somebody else (198.51.100.1/32 and 198.51.100.2/32). Load balancers (LVS) "
        "keep their virtual addresses there; the device is shared, they stay as they are.\n"
        "Nothing has to be done if that is what they are for.",
    ),
    "foreign vxlan.calico": (
        vxlan("vxlan.calico", kind="bridge"),
        "error",
        "node7: vxlan.calico exists and was not made by this collection. It is of kind bridge and lacks the alias that "
        "marks ours (calico: ...).\n"
        "Remove it if nothing uses it (ip link delete vxlan.calico), or leave node7 out of the group.",
    ),
    "other vxlan on the port": (
        vxlan("vxlan77"),
        "error",
        "node7: VXLAN device vxlan77 uses UDP port 4789 as well. Packets to that port are accepted from the fleet's "
        "nodes alone, so its remote ends would be cut off.\n"
        "Give vxlan77 another port, or set calico_vxlan_port for the fleet.",
    ),
    "process on the vxlan port": (
        facts(ports__udp={"4789": [process("vxland", 5, "")]}),
        "error",
        "node7: UDP port 4789 is in use (vxland, pid 5). vxlan.calico needs it for VXLAN.\n"
        "Free the port, or set calico_vxlan_port for the fleet.",
    ),
    "kernel on the vxlan port": (
        facts(ports__udp={"4789": []}),
        "error",
        "node7: UDP port 4789 is in use (a socket of the kernel: VXLAN of a container network or of Open vSwitch). "
        "vxlan.calico needs it for VXLAN.\n"
        "Free the port, or set calico_vxlan_port for the fleet.",
    ),
    "firewalld": (
        facts(
            daemons={"firewalld": ["firewalld"]},
            firewall__forward_drop__ipv4=["chain x of nftables table inet firewalld"],
        ),
        "error",
        "node7: firewalld is active. It drops what it was not told of, BGP, encapsulated packets and forwarded traffic "
        "included.\n"
        "Stop it (systemctl disable --now firewalld), or leave node7 out of the group.",
    ),
    "firewalld's table": (
        facts(firewall__chains_of=["firewalld"]),
        "error",
        "node7: firewalld's table is still in nftables. firewalld does not run, and its table may still reject "
        "forwarded packets, BGP and VXLAN.\n"
        "Delete it (nft delete table inet firewalld), or reboot.",
    ),
    "ufw": (
        facts(ufw=True),
        "error",
        "node7: ufw is active. It drops what it was not told of, BGP, encapsulated packets and forwarded traffic "
        "included.\n"
        "Stop it (systemctl disable --now ufw), or leave node7 out of the group.",
    ),
    "docker": (
        facts(
            firewall__forward_drop__ipv4=["chain FORWARD of iptables table filter (nft)"],
            firewall__chains_of=["docker"],
        ),
        "error",
        "node7: forwarded packets are dropped by default (Docker does that). The policy of chain FORWARD of iptables "
        "table filter (nft) is drop, so nothing would reach this node's workloads.\n"
        'Set "ip-forward-no-drop": true in /etc/docker/daemon.json (Docker 28 or newer), restart Docker and run '
        "iptables-nft -P FORWARD ACCEPT.",
    ),
    "forward drop": (
        facts(firewall__forward_drop__ipv4=["chain forward of nftables table inet filter"]),
        "error",
        "node7: forwarded packets are dropped by default. The policy of chain forward of nftables table inet filter is "
        "drop, so nothing would reach this node's workloads.\n"
        "Set the policy to accept: run nft chain inet filter forward '{ policy accept; }', and write it where it is "
        "configured (/etc/nftables.conf on Debian).",
    ),
    "both backends": (
        facts(firewall__rules={"legacy": 12, "nft": 7}),
        "error",
        "node7: both iptables backends hold rules. There are 12 legacy rules and 7 nft rules; each tool sees its own "
        "half only.\n"
        "Move all to one (iptables-legacy-save | iptables-nft-restore), then flush the other and reboot.",
    ),
    "no ipip": (
        facts(features__ipip=False),
        "error",
        "node7: the running kernel lacks IPIP (module ipip). The pools with ipipMode need it; it is neither built "
        "in nor "
        "a module that could be loaded.\n"
        "Boot the distribution's own kernel (linux-image-amd64, not a cloud or a custom one), or set vxlanMode for the "
        "pools instead.",
    ),
    "no ip sets": (
        facts(features__ip_set=False),
        "error",
        "node7: the running kernel lacks IP sets (module ip_set). Firewall rules need it; it is neither built in nor a "
        "module that could be loaded.\n"
        "Boot the distribution's own kernel (linux-image-amd64, not a cloud or a custom one), or use a kernel that has "
        "it.",
    ),
    "bird": (
        facts(bird_installed="3.1.7-1"),
        "error",
        "node7: BIRD 3.1.7-1 cannot place routes on tunnel devices. It is installed; its filters lack the attribute "
        "onlink, as all before 2.0.12 do, and 3.0 and 3.1.\n"
        "Install bird2 of Debian 12 or 13, or BIRD 3.2 or newer.",
    ),
    "bird to come": (
        facts(bird_installed=None, bird_candidate="2.0.8-2"),
        "error",
        "node7: BIRD 2.0.8-2 cannot place routes on tunnel devices. It is what apt would install; its filters lack the "
        "attribute onlink, as all before 2.0.12 do, and 3.0 and 3.1.\n"
        "Install bird2 of Debian 12 or 13, or BIRD 3.2 or newer.",
    ),
    "bird that races": (
        facts(bird_installed="3.4.0-2"),
        "warning",
        "node7: BIRD 3.4.0-2 may end itself while it removes or restarts a session, if the processors are busy. Its "
        "unit starts it again after a second and its routes stay, but some packets from and to this host may be "
        "lost.\n"
        "Install bird2 of Debian 12 or 13, or change sessions while this host is idle.",
    ),
    "no gateway": (
        facts(link_local_route=None),
        "error",
        "node7: the host has no route to 169.254.1.1, the gateway of all workloads. The kernel answers their ARP "
        "requests for it only when it would itself know where to send such packets.\n"
        "Give the host a default route, or that address on its loopback (ip address add 169.254.1.1/32 dev lo).",
    ),
    "system": (
        facts(os={"id": "ubuntu", "version": "22.04", "name": "Ubuntu 22.04.5 LTS", "codename": "jammy"}),
        "warning",
        "node7: Ubuntu 22.04.5 LTS is not one of the systems that this collection is tested on. /etc/os-release "
        "says so; "
        "the tested ones are Debian 12 and Debian 13.\n"
        "Try it on a host that may fail, or use a tested system.",
    ),
}


@pytest.mark.parametrize(("host", "severity", "message"), CASES.values(), ids=CASES.keys())
def test_an_unusable_host_has_one_finding_with_its_message(host, severity, message):
    (finding,) = judging.judge(host, STATE)
    assert finding.message("node7") == message
    assert finding.severity == severity


@pytest.mark.parametrize("host", CASES.values(), ids=CASES.keys())
def test_every_message_is_what_where_and_how(host):
    (finding,) = judging.judge(host[0], STATE)
    assert all(part.endswith(".") for part in (finding.what, finding.where, finding.remedy))
    assert finding.message("x").count("\n") == 1


def test_a_vxlan_device_that_a_run_left_half_made_is_ours():
    host = vxlan("vxlan.calico")
    host["links"]["vxlan.calico"]["mac"] = VXLAN.mac
    assert judging.judge(host, STATE) == []


def test_only_what_the_state_needs_is_asked_of_the_host():
    plain = NodeState("node7", "10.10.1.17/24")
    for host in (
        facts(features=dict.fromkeys(GOOD["features"], False)),
        tunl0("10.99.0.1/30"),
        vxlan("vxlan77"),
        facts(ports__udp={"4789": []}),
        facts(ports__tcp={"179": [process()]}),
        facts(bird_installed="2.0.8-2"),
    ):
        assert judging.judge(host, plain) == []


def test_other_ports_are_judged_by_their_own_numbers():
    state = NodeState("node7", "10.10.1.17/24", devices=(VXLAN,), bird=BIRD)
    assert judging.judge(vxlan("vxlan77", port=8472), state) == []
    assert judging.judge(facts(ports__udp={"8472": []}, ports__tcp={"22": []}), state) == []


def test_a_reflector_needs_no_gateway_and_a_node_without_workloads_is_only_warned():
    reflector = NodeState("rr1", "10.10.1.17/24", bird=Bird("10.10.1.17", "", 1, "", workload_node=False))
    assert judging.judge(facts(link_local_route=None), reflector) == []
    (finding,) = judging.judge(facts(link_local_route=None), NodeState("node7", "10.10.1.17/24"))
    assert (finding.id, finding.severity) == ("no-link-local-route", "warning")


def test_a_probe_endpoint_needs_the_gateway_and_veth_pairs_as_workloads_do():
    """A node with a probe endpoint alone is refused without the gateway, and on a kernel without veth pairs."""
    plain = NodeState("node7", "10.10.1.17/24")
    probed = with_probe_endpoint(plain, probe_endpoint(["10.244.3.60"], ()))
    (finding,) = judging.judge(facts(link_local_route=None), probed)
    assert (finding.id, finding.severity) == ("no-link-local-route", "error")
    six = with_probe_endpoint(plain, probe_endpoint(["fd00::3f"], ()))
    (finding,) = judging.judge(facts(link_local_route=None), six)
    assert (finding.id, finding.severity) == ("no-link-local-route", "warning")
    assert judging.judge(facts(features__veth=False), plain) == []
    assert [one.severity for one in judging.judge(facts(features__veth=False), probed)] == ["error"]


def test_the_address_on_the_loopback_serves_as_well():
    assert judging.judge(facts(link_local_route=None, addresses__lo=["127.0.0.1/8", "169.254.1.1/32"]), STATE) == []


HOSTILE = "eth0\n\x1b[2J\u202e"


def with_hostile_texts(value):
    """Return a copy of facts in which HOSTILE follows each text that is the value of a key."""
    if isinstance(value, dict):
        return {key: with_hostile_texts(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [with_hostile_texts(entry) for entry in value]
    return value + HOSTILE if isinstance(value, str) else value


@pytest.mark.parametrize("host", CASES)
def test_hostile_texts_of_a_host_control_no_terminal(host):
    """Whatever texts root on a host writes into its facts, each sentence of a finding is one harmless line."""
    given = with_hostile_texts(CASES[host][0])
    given["packages"] = CASES[host][0]["packages"]  # versions are parsed: a wrong one is no finding
    for finding in [*judging.judge(given, STATE), *judging.cni_findings(given)]:
        for sentence in (finding.what, finding.where, finding.remedy):
            assert sentence == terminal_text.line(sentence)


def test_a_hostile_name_of_a_process_is_shown():
    (finding,) = judging.judge(facts(daemons={"calico": ["calico-felix\n\x1b[2Jok"]}), STATE)
    assert finding.message("node7") == (
        "node7: a real Calico is running here (process calico-felix\\n\\x1b[2Jok). This collection uses the same names "
        "and would fight it.\nRemove it first (docs/how-to/migrate-from-calico.md), or leave node7 out of the group."
    )


def test_errors_come_before_warnings():
    host = facts(os={"id": "", "version": "", "name": "", "codename": ""}, uid=1, ufw=True)
    assert [(f.id, f.severity) for f in judging.judge(host, STATE)] == [
        ("not-root", "error"),
        ("ufw", "error"),
        ("unsupported-system", "warning"),
    ]


@pytest.mark.parametrize(
    ("version", "lacking"),
    [
        ("2.0.8-2", True),
        ("2.0.12-7", False),
        ("2.17.5-1", False),
        ("3.0.1-1", True),
        ("3.1.7-1~bpo", True),
        ("3.2.0-1", False),
        ("1:3.4.0-2", False),
        ("1.6.8-3", True),
    ],
)
def test_birds_without_onlink(version, lacking):
    assert judging.lacks_onlink(version) is lacking


def test_packages_are_asked_for_by_those_who_need_them():
    bare = facts(missing_packages=["bird2", "ipset", "iptables", "python3-pyroute2"])
    assert judging.missing_packages(bare, STATE) == ["bird2", "ipset", "iptables", "python3-pyroute2"]
    assert judging.missing_packages(bare, NodeState("node7", "10.10.1.17/24")) == ["python3-pyroute2"]
    policed = NodeState("node7", "10.10.1.17/24", policy=PolicyState())
    assert judging.missing_packages(bare, policed) == ["ipset", "iptables", "python3-pyroute2"]
    assert judging.missing_packages(facts(), STATE) == []
    with_netcat = {**facts()["packages"], "netcat-openbsd": "1.219-1"}
    assert judging.missing_packages(facts(packages=with_netcat), STATE, cni=True) == []
    without = {**with_netcat, "netcat-openbsd": None}
    assert judging.missing_packages(facts(packages=without), STATE, cni=True) == ["netcat-openbsd"]


def test_daemons_that_delete_routes_are_no_reason_to_stop():
    running = {"NetworkManager": ["NetworkManager"], "systemd-networkd": ["systemd-network"]}
    assert judging.judge(facts(daemons=running), STATE) == []


@pytest.mark.parametrize(
    ("networks", "runtimes"),
    [
        ([], ["containerd"]),
        (["87-podman-bridge.conflist"], []),
        (["05-bridge.conf", "10-containerd-net.conflist"], ["containerd"]),  # was the default, and still is
        (["10-calico.conflist", "10-containerd-net.conflist"], ["containerd"]),  # calico is the default already
    ],
)
def test_a_network_that_becomes_no_default_is_no_finding(networks, runtimes):
    given = facts(cni__networks=networks, cni__runtimes=runtimes)
    assert judging.cni_findings(given) == []


def test_a_network_that_would_become_the_default_is_asked_for_in_words():
    given = facts(cni__networks=["10-containerd-net.conflist", "99-lo.conf"], cni__runtimes=["containerd", "crio"])
    assert [(one.id, one.severity, str(one)) for one in judging.cni_findings(given)] == [
        (
            "new-default-network",
            "error",
            "the network calico would become the default of containerd and crio. /etc/cni/net.d/10-calico.conflist "
            "would come before 10-containerd-net.conflist, and new containers get the network that comes first.\n"
            "Set calico_node_cni_default: true if that is what you want, or calico_node_cni: false for this host.",
        )
    ]


def test_the_name_of_a_networks_file_adds_no_line_to_the_finding():
    """A hostile node may tell any name: the finding has its two lines, and no line of another host's."""
    name = "10-z.conflist\nnode2: all is well\x1b[2K"
    (finding,) = judging.cni_findings(facts(cni__networks=[name], cni__runtimes=["containerd"]))
    assert str(finding).splitlines() == [
        "the network calico would become the default of containerd. /etc/cni/net.d/10-calico.conflist would come "
        r"before 10-z.conflist\nnode2: all is well\x1b[2K, and new containers get the network that comes first.",
        finding.remedy,
    ]


def test_podmans_own_network_is_not_overwritten():
    given = facts(podman__plugins=True, podman__networks={"calico": "bridge", "back": "calico", "other": "bridge"})
    assert [(one.id, one.severity, str(one)) for one in judging.podman_findings(given, ["calico", "back"], False)] == [
        (
            "network-of-podman",
            "error",
            "podman has a network calico already, with the driver bridge. It is in "
            "/etc/containers/networks/calico.json, "
            "and calico_node_podman_networks has one of that name.\n"
            "Choose another name there, or remove podman's: podman network rm calico.",
        )
    ]


def test_a_podman_without_plugins_is_named_only_where_they_are_demanded():
    given = facts(packages={"podman": "4.3.1+ds1-8\x1b[2K"})
    assert judging.podman_findings(given, ["calico"], False) == []
    (finding,) = judging.podman_findings(given, ["calico"], True)
    assert (finding.id, finding.severity, str(finding)) == (
        "podman-without-plugins",
        "error",
        "podman 4.3.1+ds1-8\\x1b[2K of this host has no netavark with plugins. They came with podman 4.5 and "
        "netavark 1.6; "
        "an older one attaches containers by CNI.\n"
        "Leave podman out of calico_node_runtimes for this host, or install podman and netavark of Debian 13.",
    )
    assert judging.podman_findings(facts(packages={}), ["calico"], True) == []


@pytest.mark.parametrize("version", ["3.2.0-1", "3.4.0-2"])
def test_a_bird_3_with_equal_paths_is_refused(version):
    beside = dataclasses.replace(STATE, bird=dataclasses.replace(BIRD, merge_paths=True))
    found = facts(bird_installed=version)
    assert judging.judge(found, beside)[0].message("node7") == (
        f"node7: BIRD {version} lacks routes for a second or more when sessions change while it uses equal paths. It "
        "deletes routes that BGP withdraws, and does not write the backup routes that a run has made for them.\n"
        "Set calico_bgp_merge_paths: false, or install bird2 of Debian 12 or 13."
    )
    assert judging.judge(found, beside)[0].severity == "error"
    assert judging.judge(facts(bird_installed="2.17.6-0+deb13u1"), beside) == []
    assert "bird-without-equal-paths" not in {finding.id for finding in judging.judge(found, STATE)}


def test_a_device_with_both_addresses_of_the_node_has_one_finding_about_its_mtu():
    found = facts(links__eth0=link(mtu=1400), addresses6={"eth0": ["fd00:10:10::17/64"]})
    assert [str(finding) for finding in judging.judge(found, DUAL) if finding.id == "small-underlay-mtu"] == [
        "eth0 takes packets of 1400 bytes and the fleet counts on 1500. calico_underlay_mtu is 1500: larger packets to "
        "and from this node would be lost.\nRaise the MTU of eth0, or set calico_underlay_mtu: 1400 for all nodes."
    ]
