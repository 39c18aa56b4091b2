# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The reasons against a host as the node that its NodeState describes, found in the facts of `observe`. No I/O."""

from __future__ import annotations

import ipaddress
import re
import typing as t

from ..base import terminal_text
from ..base.addresses import GATEWAY, family_of
from ..base.ports import BGP_PORT
from ..bird import version as bird_version
from ..state.attachment import STRICT, UNCHECKED
from ..state.derived import outgoing_nat
from ..state.node_state import NodeState, Pool, TunnelDevice
from . import packages

Facts = t.Mapping[str, t.Any]

#: The supported systems, on which the tests run: {id of os-release: versions}.
SUPPORTED = {"debian": ("12", "13")}
OWN_ALIAS = "calico:"
#: The file of the network that the role writes for the CNI plugin.
CNI_NETWORK = "10-calico.conflist"
#: Values of firewalld's IPv6_rpfilter by which it checks sources strictly; "" is its default.
_FIREWALLD_STRICT = ("", "yes", "true", "strict", "strict-forward")
VXLAN_DEVICES = ("vxlan.calico", "vxlan-v6.calico")
#: The bridges that runtimes make by default: Docker, podman, CNI, LXC, libvirt and nerdctl.
_BRIDGE = re.compile(
    r"docker0|docker_gwbridge|br-[0-9a-f]{12}|podman[0-9]+|cni[0-9a-z-]*|lxcbr0|virbr[0-9]+|nerdctl[0-9]+"
)


class HostFinding(t.NamedTuple):
    """A reason against a host, in a sentence about what is wrong, one about where or why, and one about the remedy.

    `id` is its short name, such as not-root.
    """

    id: str
    what: str
    where: str
    remedy: str
    severity: str = "error"  # error: the node cannot work or would break what is there; warning: worth knowing

    def __str__(self) -> str:
        return f"{self.what} {self.where}\n{self.remedy}"

    def message(self, node: str) -> str:
        return f"{node}: {self}"


def judge(facts: Facts, state: NodeState) -> list[HostFinding]:
    """Return all findings about a host, errors before warnings, both in the order in which they are best corrected.

    `facts` are the result of `observe.observe`, `state` is what the host is to have. Control characters in what the
    host says are visible text in the findings. Raises ValueError if the state has a Bird and BIRD's package version in
    `facts` has no two numbers with a dot between.
    """
    findings = [_printable(finding) for check in _CHECKS for finding in check(facts, state)]
    return sorted(findings, key=lambda finding: finding.severity != "error")


def missing_packages(facts: Facts, state: NodeState, cni: bool = False) -> list[str]:
    """Return the packages that the state needs and the host lacks, with `cni` also the CNI plugin's optional ones."""
    unneeded = set()
    if state.bird is None:
        unneeded.add("bird2")
    if not (state.ipsets or state.policy):
        unneeded.add("ipset")
    if not (state.iptables or state.policy):
        unneeded.add("iptables")
    found = [name for name in facts["missing_packages"] if name not in unneeded]
    return found + [name for name in packages.CNI if cni and not facts["packages"].get(name)]


def cni_findings(facts: Facts) -> list[HostFinding]:
    """Return an error if CNI_NETWORK, once written, is a new default network of containers; [] otherwise.

    That is so if the host has another network that comes later, no earlier one, and a runtime that takes the first.
    """
    found = facts["cni"]
    networks, runtimes = found["networks"], found["runtimes"]
    if not networks or not runtimes or CNI_NETWORK in networks or networks[0] < CNI_NETWORK:
        return []
    default = HostFinding(
        "new-default-network",
        f"the network calico would become the default of {_joined(runtimes)}.",
        f"{found['folder']}/{CNI_NETWORK} would come before {networks[0]}, and new containers get the network that "
        "comes first.",
        "Set calico_node_cni_default: true if that is what you want, or calico_node_cni: false for this host.",
    )
    return [_printable(default)]


def first_network_findings(facts: Facts) -> list[HostFinding]:
    """Return a warning if another network comes before CNI_NETWORK, which shall be the default, and [] otherwise."""
    found = facts["cni"]
    others = [name for name in found["networks"] if name < CNI_NETWORK]
    if not others or not found["runtimes"]:
        return []
    first = HostFinding(
        "another-first-network",
        f"new containers of {_joined(found['runtimes'])} get another network than calico.",
        f"{found['folder']}/{others[0]} comes before {CNI_NETWORK}, and they get the network that comes first.",
        "Rename it so that it comes later, or set calico_node_cni_default: false.",
        severity="warning",
    )
    return [_printable(first)]


def _printable(finding: HostFinding) -> HostFinding:
    """Return the finding with each sentence on one line and harmless to a terminal: the host wrote their words."""
    what, where, remedy = map(terminal_text.line, (finding.what, finding.where, finding.remedy))
    return finding._replace(what=what, where=where, remedy=remedy)


def podman_findings(facts: Facts, wanted: t.Collection[str], asked: bool) -> list[HostFinding]:
    """Return errors about networks of podman that are to be written, by their names (`wanted`).

    A network of the same name may be another driver's. If `asked`, the inventory demands them of this host, whose
    podman may not take them.
    """
    version = facts["packages"].get("podman")
    if asked and version is not None and not facts["podman"]["plugins"]:
        found = [
            HostFinding(
                "podman-without-plugins",
                f"podman {version} of this host has no netavark with plugins.",
                "They came with podman 4.5 and netavark 1.6; an older one attaches containers by CNI.",
                "Leave podman out of calico_node_runtimes for this host, or install podman and netavark of Debian 13.",
            )
        ]
    else:
        found = [
            HostFinding(
                "network-of-podman",
                f"podman has a network {name} already, with the driver {driver or 'none'}.",
                f"It is in /etc/containers/networks/{name}.json, and calico_node_podman_networks has one of that name.",
                f"Choose another name there, or remove podman's: podman network rm {name}.",
            )
            for name, driver in sorted(facts["podman"]["networks"].items())
            if name in wanted and driver != "calico"
        ]
    return list(map(_printable, found))


def lacks_onlink(version: str) -> bool:
    """Return whether a BIRD of this package version ("2.0.12-7", "1:3.1.0") has no `onlink` in filters."""
    return not _without_epoch(version).has_onlink


def _without_epoch(version: str) -> bird_version.Version:
    return bird_version.parse(version.split(":")[-1])


def _device(state: NodeState, kind: str) -> t.Optional[TunnelDevice]:
    return next((device for device in state.devices if device.kind == kind), None)


def _routes_for_workloads(state: NodeState) -> bool:
    return state.bird is None or state.bird.workload_node


def _joined(words: t.Sequence[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def _shown(process: t.Mapping[str, t.Any]) -> str:
    unit = f", unit {process['unit']}" if process["unit"] else ""
    return f"{process['name']}, pid {process['pid']}{unit}"


def _access(facts: Facts, state: NodeState) -> t.Iterator[HostFinding]:
    if facts["uid"] != 0:
        yield HostFinding(
            "not-root",
            "the modules run without root's rights.",
            f"They run as user id {facts['uid']} and have to change routes, devices and files below /etc.",
            "Set ansible_become: true for this host.",
        )


def _system(facts: Facts, state: NodeState) -> t.Iterator[HostFinding]:
    system = facts["os"]
    if system["version"] not in SUPPORTED.get(system["id"], ()):
        yield HostFinding(
            "unsupported-system",
            f"{system['name'] or 'an unknown system'} is not one of the systems that this collection is tested on.",
            "/etc/os-release says so; the tested ones are Debian 12 and Debian 13.",
            "Try it on a host that may fail, or use a tested system.",
            severity="warning",
        )


def _identity(facts: Facts, state: NodeState) -> t.Iterator[HostFinding]:
    stored = facts["stored_node"]
    if stored and stored != state.node:
        yield HostFinding(
            "foreign-identity",
            f"this host holds the state of another node, {stored}.",
            f"/var/lib/calico/state.json says {stored}, the inventory says {state.node}: the host was cloned or "
            "renamed, and two nodes must not share blocks.",
            f"If {stored} lives on elsewhere or under the new name, remove /var/lib/calico on this host and run again; "
            "else correct the inventory.",
        )


def _address(facts: Facts, state: NodeState) -> t.Iterator[HostFinding]:
    found: list[HostFinding] = []
    if state.address:
        found += _own_address(facts, state, "calico_node_address", state.address, facts["addresses"])
    if state.address6 and facts["ipv6"]["present"]:
        found += _own_address(facts, state, "calico_node_address_ipv6", state.address6, facts["addresses6"])
    yield from dict.fromkeys(found)  # both addresses may be on one device, whose MTU is too small


def _own_address(
    facts: Facts, state: NodeState, variable: str, cidr: str, addresses: t.Mapping[str, t.Sequence[str]]
) -> t.Iterator[HostFinding]:
    address, length = cidr.split("/")
    everything = [(name, *held.split("/")) for name, all_ in addresses.items() for held in all_]
    device, actual = next(((name, size) for name, held, size in everything if held == address), (None, ""))
    if device is None:
        others = [f"{held}/{size} on {name}" for name, held, size in everything if name != "lo"]
        yield HostFinding(
            "no-node-address",
            f"no interface carries the node's address {address}.",
            f"{variable} is {cidr}; the host has {_joined(others) if others else 'none'}.",
            f"Correct {variable}, or configure the address on the host.",
        )
        return
    if actual != length:
        yield HostFinding(
            "other-prefix-length",
            f"the node's address has another prefix length on {device}.",
            f"{variable} is {cidr}, the interface has {address}/{actual}.",
            "Correct whichever is wrong: CrossSubnet pools decide by it which nodes are neighbours.",
            severity="warning",
        )
    mtu = facts["links"][device]["mtu"]
    if mtu < state.underlay_mtu:
        yield HostFinding(
            "small-underlay-mtu",
            f"{device} takes packets of {mtu} bytes and the fleet counts on {state.underlay_mtu}.",
            f"calico_underlay_mtu is {state.underlay_mtu}: larger packets to and from this node would be lost.",
            f"Raise the MTU of {device}, or set calico_underlay_mtu: {mtu} for all nodes.",
        )


def _forwards_ipv6(state: NodeState) -> bool:
    return any(sysctl.key == "net/ipv6/conf/all/forwarding" for sysctl in state.sysctls)


def _ipv6(facts: Facts, state: NodeState) -> t.Iterator[HostFinding]:
    forwards = _forwards_ipv6(state)
    if not state.address6 and not forwards:
        return
    if not facts["ipv6"]["present"]:
        yield HostFinding(
            "no-ipv6",
            "the kernel has no IPv6.",
            "There is no /proc/sys/net/ipv6: it was started with ipv6.disable=1, or built without it.",
            "Start it without that (GRUB_CMDLINE_LINUX in /etc/default/grub), or remove calico_node_address_ipv6.",
        )
    devices = facts["ipv6"]["advertised_default"]
    if forwards and devices:
        keys = _joined([f"net.ipv6.conf.{name.replace('.', '/')}.accept_ra = 2" for name in devices])
        yield HostFinding(
            "advertised-default-route",
            f"the host has its IPv6 default route from a router's advertisement on {_joined(devices)}.",
            "A host that forwards IPv6, as a node does, takes none while accept_ra is 1: it would lose that route.",
            f"Set {keys} (sysctl.d), or give the host a default route of its own.",
        )


def _calico(facts: Facts, state: NodeState) -> t.Iterator[HostFinding]:
    names = facts["daemons"].get("calico", [])
    rules = facts["firewall"]["calico_rules"]
    if not names and not rules:
        return
    signs = []
    if names:
        signs.append(f"process{'es' if len(names) > 1 else ''} {_joined(names)}")
    signs += [f"{count} cali-* rules in table {table}" for table, count in rules.items()]
    running = "a real Calico is running here" if names else "a real Calico left its rules here"
    yield HostFinding(
        "real-calico",
        f"{running} ({', '.join(signs)}).",
        "This collection uses the same names and would fight it.",
        f"Remove it first (docs/how-to/migrate-from-calico.md), or leave {state.node} out of the group.",
    )


def _bgp_port(facts: Facts, state: NodeState) -> t.Iterator[HostFinding]:
    if state.bird is None:
        return
    port = state.bird.listen_port
    listeners = facts["ports"]["tcp"].get(str(port))
    if listeners is None:
        return
    foreign = [process for process in listeners if not process["own_bird"]]
    if listeners and not foreign:
        return
    who = _shown(foreign[0]) if foreign else "its process could not be told"
    # `observe` names owners of BGP_PORT only: a listener without a name on another port may be our own BIRD.
    if not listeners and port != BGP_PORT:
        return
    yield HostFinding(
        "foreign-bgp",
        f"another daemon listens on TCP port {port} ({who}).",
        "calico-bird.service has to listen there for its peers.",
        f"Stop that daemon or set another calico_bgp_listen_port, or leave {state.node} out of the group.",
    )


def _tunl0(facts: Facts, state: NodeState) -> t.Iterator[HostFinding]:
    wanted = _device(state, "ipip")
    link = facts["links"].get("tunl0")
    if wanted is None or link is None:
        return
    own = {f"{address}/32" for address in state.ipam.tunnels.values()}
    addresses = [address for address in facts["addresses"].get("tunl0", []) if address not in own]
    routes = facts["manual_routes"].get("tunl0", [])
    signs = []
    if not link["alias"].startswith(OWN_ALIAS):
        # A local end and addresses are signs of others only without our alias: a device with it is this collection's.
        if link["local"] not in (None, "", "0.0.0.0"):
            signs.append(f"local end {link['local']}")
        signs += [f"address {address}" for address in addresses if not address.endswith("/32")]
    if routes:
        signs.append(f"route{'s' if len(routes) > 1 else ''} to {_joined(routes[:3])}")
    if signs:
        yield HostFinding(
            "foreign-tunl0",
            f"tunl0 is in use as somebody's own tunnel ({', '.join(signs)}).",
            "The pools with ipipMode need this device: the kernel has one per host that takes packets from any node.",
            "Move that tunnel to a device of its own (ip link add NAME type ipip), or set vxlanMode for the pools.",
        )
    elif addresses and not link["alias"].startswith(OWN_ALIAS):
        yield HostFinding(
            "addresses-on-tunl0",
            f"tunl0 carries addresses of somebody else ({_joined(addresses)}).",
            "Load balancers (LVS) keep their virtual addresses there; the device is shared, they stay as they are.",
            "Nothing has to be done if that is what they are for.",
            severity="warning",
        )


def _marked(link: t.Mapping[str, t.Any], wanted: TunnelDevice) -> bool:
    """Return whether a link is ours: by its alias or, before it is set, by its MAC, a hash of the node's name."""
    return bool(link["alias"].startswith(OWN_ALIAS) or (not link["alias"] and link["mac"] == wanted.mac))


def _vxlan(facts: Facts, state: NodeState) -> t.Iterator[HostFinding]:
    devices = [device for device in state.devices if device.kind == "vxlan"]
    for wanted in devices:
        link = facts["links"].get(wanted.name)
        if link is None or (link["kind"] == "vxlan" and _marked(link, wanted)):
            continue
        yield HostFinding(
            "foreign-vxlan-device",
            f"{wanted.name} exists and was not made by this collection.",
            f"It is of kind {link['kind'] or 'unknown'} and lacks the alias that marks ours ({OWN_ALIAS} ...).",
            f"Remove it if nothing uses it (ip link delete {wanted.name}), or leave {state.node} out of the group.",
        )
    if not devices:
        return
    wanted = devices[0]
    ours = {device.name for device in devices}
    # A device of ours that the state does not need will be removed.
    ours |= {name for name in VXLAN_DEVICES if facts["links"].get(name, {}).get("alias", "").startswith(OWN_ALIAS)}
    others = [
        name
        for name, other in facts["links"].items()
        if name not in ours and other["kind"] == "vxlan" and other["port"] == wanted.port
    ]
    if others:
        yield HostFinding(
            "foreign-vxlan",
            f"VXLAN device {others[0]} uses UDP port {wanted.port} as well.",
            "Packets to that port are accepted from the fleet's nodes alone, so its remote ends would be cut off.",
            f"Give {others[0]} another port, or set calico_vxlan_port for the fleet.",
        )
    users = facts["ports"]["udp"].get(str(wanted.port))
    if users is None or others or not ours.isdisjoint(facts["links"]):
        return
    who = _shown(users[0]) if users else "a socket of the kernel: VXLAN of a container network or of Open vSwitch"
    yield HostFinding(
        "foreign-vxlan-port",
        f"UDP port {wanted.port} is in use ({who}).",
        f"{wanted.name} needs it for VXLAN.",
        "Free the port, or set calico_vxlan_port for the fleet.",
    )


#: Descriptions of chains by firewall.observe.
_IPTABLES_CHAIN = re.compile(r"chain FORWARD of (ip6?tables) table filter \((nft|legacy)\)")
_NFT_CHAIN = re.compile(r"chain (\S+) of nftables table (\S+ \S+)")
_NFT_FILE = "/etc/nftables.conf on Debian"


def _firewall(facts: Facts, state: NodeState) -> t.Iterator[HostFinding]:
    active = [name for name, on in (("firewalld", "firewalld" in facts["daemons"]), ("ufw", facts["ufw"])) if on]
    for name in active:
        yield HostFinding(
            name,
            f"{name} is active.",
            "It drops what it was not told of, BGP, encapsulated packets and forwarded traffic included.",
            f"Stop it (systemctl disable --now {name}), or leave {state.node} out of the group.",
        )
    if "firewalld" in facts["firewall"]["chains_of"] and "firewalld" not in active:
        yield HostFinding(
            "firewalld-table",
            "firewalld's table is still in nftables.",
            "firewalld does not run, and its table may still reject forwarded packets, BGP and VXLAN.",
            "Delete it (nft delete table inet firewalld), or reboot.",
        )
    drops = _forward_drops(facts, state)
    if drops and not active:
        of_iptables = any(_IPTABLES_CHAIN.fullmatch(chain) for chain in drops)
        docker = of_iptables and ("docker" in facts["firewall"]["chains_of"] or "docker" in facts["daemons"])
        commands = " and ".join(map(_accepting, drops))
        yield HostFinding(
            "forward-drop",
            f"forwarded packets are dropped by default{' (Docker does that)' if docker else ''}.",
            f"The policy of {_joined(drops)} is drop, so nothing would reach this node's workloads.",
            'Set "ip-forward-no-drop": true in /etc/docker/daemon.json (Docker 28 or newer), restart Docker and run '
            f"{commands}."
            if docker
            else f"Set the policy to accept: run {commands}, and write it where it is configured"
            f"{' (' + _NFT_FILE + ')' if len(drops) == 1 and not of_iptables else ''}.",
        )
    rules = facts["firewall"]["rules"]
    if rules.get("legacy") and rules.get("nft"):
        yield HostFinding(
            "mixed-iptables",
            "both iptables backends hold rules.",
            f"There are {rules['legacy']} legacy rules and {rules['nft']} nft rules; each tool sees its own half only.",
            "Move all to one (iptables-legacy-save | iptables-nft-restore), then flush the other and reboot.",
        )


def _forward_drops(facts: Facts, state: NodeState) -> list[str]:
    """Return descriptions of the chains that drop forwarded packets by default.

    Only IP versions that the node forwards count, and iptables' own chain FORWARD only if this node's rules do not
    accept what comes from workloads and goes to them.
    """
    drops: list[str] = []
    needs = bool(state.address), _forwards_ipv6(state)
    for family, program, needed in zip(("ipv4", "ipv6"), ("iptables", "ip6tables"), needs):
        found = facts["firewall"]["forward_drop"][family]
        if _accepts_forwarded(state, int(family[-1])):
            found = [chain for chain in found if not chain.startswith(f"chain FORWARD of {program} table filter")]
        if needed and found:
            drops += [chain for chain in found if chain not in drops]  # a chain of family inet is found for both
    return drops


def _accepting(chain: str) -> str:
    """Return the command that makes a chain with this description accept by default; "" for an unknown description."""
    found = _IPTABLES_CHAIN.fullmatch(chain)
    if found:
        return f"{found[1]}-{found[2]} -P FORWARD ACCEPT"
    found = _NFT_CHAIN.fullmatch(chain)
    return f"nft chain {found[2]} {found[1]} '{{ policy accept; }}'" if found else ""


def _accepts_forwarded(state: NodeState, version: int) -> bool:
    """Return whether the node's own rules at the end of FORWARD accept workloads' packets, or those policy allows."""
    if state.policy is not None:
        return state.policy.settings.accepts_allowed
    return any(
        hook.chain == "FORWARD" and hook.last
        for table in state.iptables
        if (table.name, table.family) == ("filter", version)
        for hook in table.hooks
    )


def _bridges(facts: Facts, state: NodeState) -> t.Iterator[HostFinding]:
    """Yield an error for each bridge of a runtime whose subnet overlaps an IP pool."""
    for device in sorted({**facts["addresses"], **facts["addresses6"]}):
        if not _BRIDGE.fullmatch(device):
            continue
        for cidr in (*facts["addresses"].get(device, ()), *facts["addresses6"].get(device, ())):
            pool = _overlapped(cidr, state)
            if pool is not None:
                yield HostFinding(
                    "bridge-in-pool",
                    f"the bridge {device} has {cidr}, which overlaps the IP pool {pool.name} ({pool.cidr}).",
                    "Packets to workloads with such an address would go to the bridge.",
                    "Give the network of the bridge another subnet, or the pool another CIDR.",
                )


def _runtime_networks(facts: Facts, state: NodeState) -> t.Iterator[HostFinding]:
    """Yield warnings about networks that runtimes have or may make in IP pools, and about files that are broken."""
    seen = set()
    for one in facts["runtimes"]["subnets"]:
        pool = _overlapped(one["cidr"], state)
        if pool is None or (one["of"], pool.name) in seen:
            continue
        seen.add((one["of"], pool.name))
        verb = "has" if one["sure"] else "may get"
        where = one["file"] or "the defaults of the runtime"
        yield HostFinding(
            "runtime-in-pool",
            f"{one['of']}: {verb} {one['cidr']}, which overlaps the IP pool {pool.name} ({pool.cidr}).",
            f"It stands in {where}. Packets to workloads with such an address would go to the bridge of that network.",
            "Give it a subnet outside of all pools: default-address-pools and bip in /etc/docker/daemon.json,"
            " default_subnet and default_subnet_pools in /etc/containers/containers.conf, or the network's own file.",
            severity="warning",
        )
    for path in facts["runtimes"]["unreadable"]:
        yield HostFinding(
            "runtime-file-broken",
            f"{path} cannot be read.",
            "It is not what its runtime expects, or larger than 64 KiB; subnets in it are not compared with pools.",
            "Correct or remove it.",
            severity="warning",
        )
    driver = facts["runtimes"]["firewall_driver"]
    program = {"nftables": "nftables", "iptables": "iptables"}.get(driver)
    missing = program is not None and not facts["packages"].get(program)
    if driver == "firewalld" and "firewalld" not in facts["daemons"] or missing:
        yield HostFinding(
            "netavark-firewall",
            f"netavark's firewall_driver is {driver}, and this host has no {program or 'running firewalld'}.",
            "podman starts no container then, also none of the network calico.",
            "Set firewall_driver in /etc/containers/containers.conf to iptables or none, or install what it names.",
            severity="warning",
        )


def _overlapped(cidr: str, state: NodeState) -> t.Optional[Pool]:
    """Return the IP pool that a CIDR, with or without host bits, overlaps; None for none."""
    network = ipaddress.ip_network(cidr, strict=False)
    for pool in state.pools:
        other = ipaddress.ip_network(pool.cidr)
        if other.version == network.version and other.overlaps(network):
            return pool
    return None


def _features(facts: Facts, state: NodeState) -> t.Iterator[HostFinding]:
    uses = {
        "ipip": ("IPIP (module ipip)", "the pools with ipipMode", "set vxlanMode for the pools instead")
        if _device(state, "ipip")
        else None,
        "vxlan": ("VXLAN (module vxlan)", "the pools with vxlanMode", "set ipipMode for the pools instead")
        if _device(state, "vxlan")
        else None,
        "veth": ("veth pairs (module veth)", "workloads and probes", "use a kernel that has it")
        if state.endpoints
        else None,
        "ip_set": ("IP sets (module ip_set)", "firewall rules", "use a kernel that has it")
        if state.ipsets or state.policy
        else None,
        "nf_tables": ("nftables (module nf_tables)", "iptables rules", "use one that has it")
        if state.iptables or state.policy
        else None,
    }
    for name, use in uses.items():
        if use and facts["features"][name] is False:
            # iptables may run on the legacy backend, which needs no nftables.
            if name == "nf_tables" and facts["firewall"]["rules"].get("legacy"):
                continue
            yield HostFinding(
                f"no-{name.replace('_', '-')}",
                f"the running kernel lacks {use[0]}.",
                f"{use[1][0].upper()}{use[1][1:]} need it; it is neither built in nor a module that could be loaded.",
                f"Boot the distribution's own kernel (linux-image-amd64, not a cloud or a custom one), or {use[2]}.",
            )


def _bird(facts: Facts, state: NodeState) -> t.Iterator[HostFinding]:
    if state.bird is None:
        return
    version = facts["bird_installed"] or facts["bird_candidate"]
    if version and lacks_onlink(version):
        source = "installed" if facts["bird_installed"] else "what apt would install"
        yield HostFinding(
            "bird-without-onlink",
            f"BIRD {version} cannot place routes on tunnel devices.",
            f"It is {source}; its filters lack the attribute onlink, as all before 2.0.12 do, and 3.0 and 3.1.",
            "Install bird2 of Debian 12 or 13, or BIRD 3.2 or newer.",
        )
        return
    parsed = _without_epoch(version) if version else None
    if parsed and parsed >= (3, 0, 0) and state.bird.merge_paths:
        yield HostFinding(
            "bird-without-equal-paths",
            f"BIRD {version} lacks routes for a second or more when sessions change while it uses equal paths.",
            "It deletes routes that BGP withdraws, and does not write the backup routes that a run has made for them.",
            "Set calico_bgp_merge_paths: false, or install bird2 of Debian 12 or 13.",
        )
    if parsed and parsed.may_end_itself:
        yield HostFinding(
            "bird-may-end-itself",
            f"BIRD {version} may end itself while it removes or restarts a session, if the processors are busy.",
            "Its unit starts it again after a second and its routes stay, but some packets from and to this host may "
            "be lost.",
            "Install bird2 of Debian 12 or 13, or change sessions while this host is idle.",
            severity="warning",
        )


def _gateway(facts: Facts, state: NodeState) -> t.Iterator[HostFinding]:
    """Yield a finding if a workload node with an IPv4 address cannot answer for the workloads' IPv4 gateway.

    That is a host that has neither a route to 169.254.1.1 nor this address. It is an error if a workload in `state`, or
    the probe endpoint, has an IPv4 address, else a warning. The IPv6 gateway is an address of the host's own end of the
    link.
    """
    if not state.address or not _routes_for_workloads(state) or facts["link_local_route"]:
        return
    if any(f"{GATEWAY}/32" in addresses for addresses in facts["addresses"].values()):
        return
    yield HostFinding(
        "no-link-local-route",
        f"the host has no route to {GATEWAY}, the gateway of all workloads.",
        "The kernel answers their ARP requests for it only when it would itself know where to send such packets.",
        f"Give the host a default route, or that address on its loopback (ip address add {GATEWAY}/32 dev lo).",
        severity="error" if any(endpoint.address for endpoint in state.endpoints) else "warning",
    )


def _source_check(facts: Facts, state: NodeState) -> t.Iterator[HostFinding]:
    have = facts.get("rp_filter_of_all", "")
    most = UNCHECKED if state.workload_source_spoofing else STRICT
    if not _routes_for_workloads(state) or have <= most:
        return
    if state.workload_source_spoofing:
        effect = "What guests route would be dropped, although calico_workload_source_spoofing is set for this host."
    else:
        effect = "The sources of workloads' packets would be checked loosely, not strictly."
    yield HostFinding(
        "source-check-of-all",
        f"net.ipv4.conf.all.rp_filter is {have}, and the kernel takes the greater value of that and an interface's "
        "own.",
        effect,
        f"Set it to {'0' if state.workload_source_spoofing else '0 or 1'} where it is set (grep -r rp_filter "
        f"/etc/sysctl.d /etc/sysctl.conf) and by sysctl -w, and give interfaces that need {have} that value of their "
        "own.",
    )


def _source_towards_nodes(facts: Facts, state: NodeState) -> t.Iterator[HostFinding]:
    """Yield findings if packets of other nodes' workloads to this node's address would be dropped by their source.

    With tunnels, the route back to a workload leads into the tunnel, and its packets to a node's address come by the
    underlay. The node makes the check loose on the device with its address, but not on others by which they may come.
    """
    setting = "calico_nat_outgoing_exclusions is IPPoolsAndHostIPs"
    if state.address and _has_tunnel(state, 4) and outgoing_nat.excludes_hosts(state, 4):
        own = state.address.partition("/")[0]
        holding = [device for device, held in facts["addresses"].items() if _holds(held, own)]
        others = [node.address.partition("/")[0] for node in state.nodes if node.address and node.name != state.node]
        strict = [
            device
            for device, has_default in facts.get("strict_sources", {}).items()
            if device not in holding
            and (has_default or any(_reaches(facts["addresses"].get(device, ()), other) for other in others))
        ]
        if strict:
            yield HostFinding(
                "strict-source-check",
                f"net.ipv4.conf.{strict[0]}.rp_filter is 1, and {setting}.",
                f"What workloads of other nodes send to addresses of this host would be dropped on {_joined(strict)}: "
                "their way back is a tunnel.",
                "Set it to 2 there, or set calico_nat_outgoing_exclusions: IPPoolsOnly.",
                severity="warning",
            )
    if state.address6 and _has_tunnel(state, 6) and outgoing_nat.excludes_hosts(state, 6):
        if "firewalld" in facts["daemons"] and facts.get("firewalld_ipv6_rpfilter", "") in _FIREWALLD_STRICT:
            yield HostFinding(
                "firewalld-checks-sources",
                f"firewalld checks the sources of IPv6 packets strictly, and {setting}.",
                "It would drop what workloads of other nodes send to addresses of this host: their way back is a "
                "tunnel.",
                "Set IPv6_rpfilter=loose in /etc/firewalld/firewalld.conf and restart firewalld, or set "
                "calico_nat_outgoing_exclusions: IPPoolsOnly.",
                severity="warning",
            )


def _has_tunnel(state: NodeState, version: int) -> bool:
    return any(family_of(device.local) == version for device in state.devices)


def _holds(cidrs: t.Iterable[str], address: str) -> bool:
    return any(one.partition("/")[0] == address for one in cidrs)


def _reaches(cidrs: t.Iterable[str], address: str) -> bool:
    return any(ipaddress.ip_address(address) in ipaddress.ip_interface(one).network for one in cidrs)


_CHECKS: tuple[t.Callable[[Facts, NodeState], t.Iterator[HostFinding]], ...] = (
    _access,
    _identity,
    _calico,
    _address,
    _ipv6,
    _bgp_port,
    _tunl0,
    _vxlan,
    _firewall,
    _bridges,
    _runtime_networks,
    _features,
    _bird,
    _gateway,
    _source_towards_nodes,
    _source_check,
    _system,
)
