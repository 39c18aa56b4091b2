# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every variable that a user may set for a fleet: the one place that names, defaults and describes them.

The compiler reads its defaults here and docs/variables.md is generated from here.
"""

from __future__ import annotations

import dataclasses
import difflib
import typing as t

from ..base.assigned_ports import VXLAN_PORT
from ..state.errors import FleetError

FLEET, GROUP, NODE = "fleet", "group", "node"

#: What the names of group lists begin with; the group's name follows, in characters that a variable may have.
POLICIES_OF_GROUP = "calico_policies_"
PEERS_OF_GROUP = "calico_bgp_peers_"
GROUP_LISTS = (POLICIES_OF_GROUP, PEERS_OF_GROUP)


@dataclasses.dataclass(frozen=True)
class Variable:
    """`scope`: a fleet variable has one value for all nodes, a node variable one per node. That of a group has one for
    the hosts of the group, whose name is a part of its own: so lists of several groups add up.

    `type` is str, int, bool, dict, list or "bool or dict". `default` is None where the variable is required or derived
    (then `default_text` says how). What is `secret` is shown in no error.
    """

    name: str
    scope: str
    type: str
    description: str
    default: t.Any = None
    default_text: str = ""
    required: bool = False
    example: str = ""
    minimum: t.Optional[int] = None
    maximum: t.Optional[int] = None
    choices: tuple[str, ...] = ()
    secret: bool = False


VARIABLES: tuple[Variable, ...] = (
    Variable(
        "calico_ip_pools",
        FLEET,
        "list",
        "The IP pools. Each entry is flat (name, cidr, ipipMode, vxlanMode, natOutgoing, blockSize, nodeSelector, "
        "disabled, disableBGPExport, allowedUses) or a whole Calico v3 IPPool document. ipipMode and vxlanMode are "
        "Always, CrossSubnet or Never and exclude each other; both Never is direct routing. IPv6 pools (cidr "
        "fd00:10:244::/64; blocks of /122) stand in the same list and know no IPIP.",
        required=True,
        example="[{name: default-ipv4-ippool, cidr: 10.244.0.0/16, ipipMode: CrossSubnet, natOutgoing: true}]",
    ),
    Variable(
        "calico_node_address",
        NODE,
        "str",
        "The node's own address on the underlay with its prefix length. Its subnet decides what CrossSubnet means. "
        "Nodes that IPv4 pools select need it, and so do route reflectors then.",
        default_text="none: the node routes IPv6 alone, and has calico_node_address_ipv6",
        example="10.10.1.11/24",
    ),
    Variable(
        "calico_node_address_ipv6",
        NODE,
        "str",
        "The node's own IPv6 address on the underlay with its prefix length, beside the other one or alone. Nodes that "
        "IPv6 pools select need it, and so do route reflectors then.",
        default_text="none: the node routes IPv4 alone",
        example="fd00:10:10:1::11/64",
    ),
    Variable(
        "calico_node_labels",
        NODE,
        "dict",
        "Labels of the node, for the nodeSelector of pools and peers. kubernetes.io/hostname is the node's name.",
        default={},
        example="{rack: a}",
    ),
    Variable(
        "calico_workloads",
        FLEET,
        "list",
        "Workloads for the whole fleet: name, node, and optionally namespace, labels, pool, address, pool_ipv6, "
        "address_ipv6, ip_families, endpoint, profiles, ports (each with name, protocol and port). A workload has an "
        "address of each family of which a pool selects its node; ip_families: [IPv4] or [IPv6] leaves one out.",
        default=[],
        example="[{name: web-1, node: node1, labels: {app: web}}]",
    ),
    Variable(
        "calico_node_workloads",
        NODE,
        "list",
        "Workloads of one node; as calico_workloads without node. Both lists add up.",
        default=[],
        example="[{name: web-1, labels: {app: web}}]",
    ),
    Variable(
        "calico_policies",
        FLEET,
        "list",
        "Policy, as Calico v3 resources: GlobalNetworkPolicy, NetworkPolicy, their staged kinds, Profile, Tier, "
        "GlobalNetworkSet, NetworkSet and HostEndpoint. Each entry has a kind and is flat or a whole document. See "
        "docs/policy.md.",
        default=[],
        example="[{kind: NetworkPolicy, name: web, selector: app == 'web', ingress: [{action: Allow, protocol: TCP, "
        "destination: {ports: [80]}}]}]",
    ),
    Variable(
        "calico_node_policies",
        NODE,
        "list",
        "Such resources beside a node, most of all its own HostEndpoints. All lists and files add up.",
        default=[],
        example="[{kind: HostEndpoint, interfaceName: eth0, labels: {role: gateway}}]",
    ),
    Variable(
        "calico_policies_<group>",
        GROUP,
        "list",
        "Such resources beside a group of nodes, in whose name - and . are written _. A HostEndpoint stands for one on "
        "each node of the group; its node is left out, and its name may be (node1-eth0). Anything else counts once.",
        default=[],
        example="calico_policies_gateways: [{kind: HostEndpoint, interfaceName: eth0, labels: {role: gateway}}]",
    ),
    Variable(
        "calico_policy_files",
        FLEET,
        "list",
        "Files, folders or patterns of files with such resources, as calicoctl and kubectl take them (YAML, several "
        "documents a file, or JSON); seen from the inventory's folder. They lie where Ansible reads no inventory.",
        default=[],
        example="[../policy/*.yml]",
    ),
    Variable(
        "calico_policy_enabled",
        FLEET,
        "bool",
        "Whether policy is in force. False: what the lists and files say is checked and not enforced.",
        default_text="true with any resource in the lists and files, false without",
    ),
    Variable(
        "calico_staged_policies",
        FLEET,
        "list",
        "Policies that are only watched: they decide nothing, and what they would deny is logged. A NetworkPolicy is "
        "named with its namespace.",
        default=[],
        example="[default/web, no-telnet]",
    ),
    Variable(
        "calico_node_policy_audit",
        NODE,
        "bool",
        "Whether what policy would drop on this node is only logged, and let through.",
        default=False,
    ),
    Variable(
        "calico_workload_profiles",
        FLEET,
        "list",
        "Profiles of workloads that name none: what holds for them where no policy applies. "
        "projectcalico-default-allow allows everything; with none, nothing is allowed.",
        default=["projectcalico-default-allow"],
    ),
    Variable(
        "calico_default_endpoint_to_host_action",
        FLEET,
        "str",
        "What becomes of packets that a workload's policy lets it send to its own host. Return leaves it to the host's "
        "own rules.",
        default="Drop",
        choices=("Drop", "Return", "Accept"),
    ),
    Variable(
        "calico_disable_conntrack_invalid_check",
        FLEET,
        "bool",
        "Whether policy is asked about packets too that connection tracking finds invalid, as of connections that take "
        "another way back. False: they are dropped.",
        default=False,
    ),
    Variable(
        "calico_allow_vxlan_packets_from_workloads",
        FLEET,
        "bool",
        "Whether workloads may send VXLAN packets. What is inside them is past their policy.",
        default=False,
    ),
    Variable(
        "calico_allow_ipip_packets_from_workloads",
        FLEET,
        "bool",
        "Whether workloads may send IPIP packets. What is inside them is past their policy.",
        default=False,
    ),
    Variable(
        "calico_workload_source_spoofing",
        NODE,
        "bool",
        "Whether the workloads of this node may send from addresses that are not theirs. For guests that route, as a "
        "VPN gateway does. False: packets from such addresses are dropped at the workload's own interface. With true "
        "net.ipv4.conf.all.rp_filter has to be 0.",
        default=False,
    ),
    Variable(
        "calico_iptables_filter_allow_action",
        FLEET,
        "str",
        "What becomes of packets that policy allows. Return leaves them to the host's own rules.",
        default="Accept",
        choices=("Accept", "Return"),
    ),
    Variable(
        "calico_iptables_filter_deny_action",
        FLEET,
        "str",
        "What becomes of packets that policy denies. With Reject the sender is told.",
        default="Drop",
        choices=("Drop", "Reject"),
    ),
    Variable(
        "calico_failsafe_inbound_host_ports",
        FLEET,
        "list",
        "Ports of the hosts that no policy closes: protocol, port, and optionally net for those in a network only. The "
        "port by which Ansible reaches a host is among them in any case, unless the list is empty: then there are none "
        "at all.",
        default_text="SSH (tcp 22), BGP (tcp, the ports of all sessions), BFD (udp 3784, 3785; 4784 where any session "
        "has it), DHCP (udp 68)",
        example="[{protocol: tcp, port: 22}, {protocol: tcp, port: 179, net: 10.10.0.0/16}]",
    ),
    Variable(
        "calico_failsafe_outbound_host_ports",
        FLEET,
        "list",
        "Ports elsewhere to which no policy closes the hosts' way.",
        default_text="BGP and BFD as above, DNS (udp and tcp 53), DHCP (udp 67), NTP (udp 123)",
        example="[{protocol: udp, port: 53}, {protocol: tcp, port: 179}]",
    ),
    Variable(
        "calico_policy_log_group",
        FLEET,
        "int",
        "NFLOG group to which dropped packets and those of the action Log are told; 0 logs nothing.",
        default=179,
        minimum=0,
        maximum=65535,
    ),
    Variable(
        "calico_policy_cut_denied_flows",
        FLEET,
        "bool",
        "Whether a new policy ends the connections that it denies, and no others. Else what was allowed when it began "
        "goes on.",
        default=False,
    ),
    Variable(
        "calico_iptables_mark_mask",
        FLEET,
        "int",
        "Bits of the packet mark that policy may use, at least five of them.",
        default=0xFFFF0000,
        minimum=1,
        maximum=0xFFFFFFFF,
    ),
    Variable(
        "calico_bgp_enabled",
        FLEET,
        "bool",
        "Whether BIRD carries the blocks between nodes. False: no BIRD at all, the routes are written from the plan; "
        "every pool must then use VXLAN.",
        default=True,
    ),
    Variable(
        "calico_bgp_as_number",
        FLEET,
        "int",
        "AS number of the nodes that have none of their own.",
        default=64512,
        minimum=1,
        maximum=4294967295,
    ),
    Variable(
        "calico_bgp_node_to_node_mesh",
        FLEET,
        "bool",
        "Whether every node that is no reflector peers with every other one.",
        default_text="true without route reflectors, false with them",
    ),
    Variable(
        "calico_bgp_listen_port",
        FLEET,
        "int",
        "TCP port on which nodes take BGP sessions.",
        default=179,
        minimum=1,
        maximum=65535,
    ),
    Variable(
        "calico_bgp_log_severity",
        FLEET,
        "str",
        "How much BIRD logs, in BGPConfiguration's words.",
        default="Info",
        choices=("Debug", "Info", "Warning", "Error", "Fatal", "None"),
    ),
    Variable(
        "calico_bgp_graceful_restart_time",
        FLEET,
        "int",
        "Seconds that peers keep the routes of a BIRD that restarts.",
        default=120,
        minimum=1,
        maximum=4095,
    ),
    Variable(
        "calico_bgp_peers",
        FLEET,
        "list",
        "BGPPeers, flat or whole Calico v3 documents: routers outside the fleet (peerIP, asNumber) and sessions "
        "between its nodes (peerSelector), for the nodes that node or nodeSelector mean, else for all. docs/bgp.md has "
        "every field.",
        default=[],
        example="[{name: tor-a, peerIP: 10.10.1.1, asNumber: 65000, nodeSelector: rack == 'a'}]",
    ),
    Variable(
        "calico_bgp_peers_<group>",
        GROUP,
        "list",
        "BGPPeers of the nodes of a group, in whose name - and . are written _.",
        default=[],
        example="calico_bgp_peers_rack_a: [{name: tor-a, peerIP: 10.10.1.1, asNumber: 65001}]",
    ),
    Variable(
        "calico_node_bgp_peers",
        NODE,
        "list",
        "BGPPeers of one node. The lists of the fleet, of groups and of nodes add up.",
        default=[],
        example="[{name: tor-b, peerIP: 10.20.1.1, asNumber: 65001, sourceAddress: 10.20.1.11/24}]",
    ),
    Variable(
        "calico_bgp_mesh_password",
        FLEET,
        "dict",
        "Password of the sessions that are there without a BGPPeer: of the mesh, and with the reflectors of group "
        "calico_rr. It refers to calico_bgp_secrets.",
        default_text="none",
        example="{secretKeyRef: {name: mesh, key: password}}",
    ),
    Variable(
        "calico_bgp_mesh_max_restart_time",
        FLEET,
        "int",
        "Seconds that the peers of these sessions keep the routes of a BIRD that restarts.",
        default_text="calico_bgp_graceful_restart_time",
        example="60",
        minimum=1,
        maximum=4095,
    ),
    Variable(
        "calico_bgp_bfd",
        FLEET,
        "bool or dict",
        "Whether these sessions have BFD, and its intervals in milliseconds (minRx, minTx, multiplier). A dead node is "
        "noticed within minTx times multiplier. A BGPPeer has its own: bfd.",
        default=False,
        example="{minRx: 100, minTx: 100, multiplier: 5}",
    ),
    Variable(
        "calico_bgp_hold_time",
        FLEET,
        "int",
        "Seconds without a word from a peer after which a session ends (RFC 4271). A BGPPeer may have its own: "
        "holdTime.",
        default=90,
        minimum=3,
        maximum=65535,
    ),
    Variable(
        "calico_bgp_keepalive_time",
        FLEET,
        "int",
        "Seconds between two such words. A BGPPeer may have its own: keepaliveTime.",
        default=30,
        minimum=1,
        maximum=65535,
    ),
    Variable(
        "calico_bgp_long_lived_stale_time",
        FLEET,
        "int",
        "Seconds for which routes of a peer that stays away are kept as a last resort, after the graceful restart time "
        "(RFC 9494). A BGPPeer may have its own: longLivedStaleTime.",
        default_text="none: they go when the graceful restart time is over",
        example="3600",
        minimum=1,
        maximum=16777215,
    ),
    Variable(
        "calico_node_bgp_as_number",
        NODE,
        "int",
        "AS number of a node; in group_vars of a rack, that of the rack.",
        default_text="calico_bgp_as_number",
        example="64601",
        minimum=1,
        maximum=4294967295,
    ),
    Variable(
        "calico_node_router_id",
        NODE,
        "str",
        "BGP router id of a node: an IPv4 address, or hash for one that its name gives.",
        default_text="calico_node_address; hash without one",
        example="hash",
    ),
    Variable(
        "calico_bgp_bind_mode",
        FLEET,
        "str",
        "Whether BIRD takes sessions on all addresses of a node (None) or on calico_node_address alone (NodeIP), in "
        "BGPConfiguration's words.",
        default="None",
        choices=("None", "NodeIP"),
    ),
    Variable(
        "calico_node_bgp_listen_port",
        NODE,
        "int",
        "TCP port on which a node takes BGP sessions.",
        default_text="calico_bgp_listen_port",
        example="1179",
        minimum=1,
        maximum=65535,
    ),
    Variable(
        "calico_node_route_reflector_cluster_id",
        NODE,
        "str",
        "Cluster id of a node that reflects routes, written as an IPv4 address. A node that is not in group calico_rr "
        "becomes a reflector by it, as in Calico: it leaves the mesh, and has the clients that BGPPeers give it.",
        default_text="calico_rr_cluster_id in group calico_rr, none elsewhere",
        example="244.0.0.2",
    ),
    Variable(
        "calico_node_route_reflector_clients",
        NODE,
        "str",
        "Selector of the nodes that a reflector of group calico_rr reflects for, as those of its rack.",
        default="all()",
        example="rack == 'a'",
    ),
    Variable(
        "calico_bgp_secrets",
        FLEET,
        "dict",
        "Passwords for BGP sessions, by the name and the key with which a password's secretKeyRef refers to them; "
        "encrypted with ansible-vault. At most 80 bytes each, without double quotes. See docs/bgp.md.",
        default={},
        example="{tor-a: {password: ...}}",
        secret=True,
    ),
    Variable(
        "calico_bgp_filters",
        FLEET,
        "list",
        "BGPFilters, flat or whole Calico v3 documents: what the BGPPeers that name them in their filters announce and "
        "believe.",
        default=[],
        example="[{name: from-tor, importV4: [{action: Accept, matchOperator: Equal, cidr: 0.0.0.0/0}]}]",
    ),
    Variable(
        "calico_bgp_communities",
        FLEET,
        "list",
        "Names for BGP communities, to be used in prefix advertisements.",
        default=[],
        example="[{name: workloads, value: '64512:100'}]",
    ),
    Variable(
        "calico_bgp_prefix_advertisements",
        FLEET,
        "list",
        "Communities, by name or value, that nodes add to what they announce of a range.",
        default=[],
        example="[{cidr: 10.244.0.0/16, communities: [workloads, '64512:1:2']}]",
    ),
    Variable(
        "calico_node_bgp_prefix_advertisements",
        NODE,
        "list",
        "What a node, or the hosts of a group, add instead of calico_bgp_prefix_advertisements.",
        default_text="calico_bgp_prefix_advertisements",
        example="[{cidr: 10.244.0.0/16, communities: ['64512:101']}]",
    ),
    Variable(
        "calico_bgp_ignored_interfaces",
        FLEET,
        "list",
        "Patterns of interfaces whose subnets BIRD does not take for a way to anywhere.",
        default=[],
        example="[docker*, cni0]",
    ),
    Variable(
        "calico_node_bird_include_dir",
        NODE,
        "str",
        "Folder on the node whose *.conf are read at the end of bird.cfg, see docs/bgp.md. Empty: none is.",
        default="/etc/calico/bird.d",
    ),
    Variable(
        "calico_rr_cluster_id",
        FLEET,
        "str",
        "Cluster id of the route reflectors (group calico_rr), written as an IPv4 address.",
        default="244.0.0.1",
    ),
    Variable(
        "calico_underlay_mtu",
        FLEET,
        "int",
        "MTU in bytes of the network between the nodes. Devices and workloads get 20 less with IPIP, 50 with VXLAN, 70 "
        "with VXLAN of an IPv6 pool; a workload with both families what the smaller one leaves.",
        default=1500,
        minimum=1280,
        maximum=65535,
    ),
    Variable(
        "calico_vxlan_vni",
        FLEET,
        "int",
        "VXLAN network identifier of vxlan.calico and vxlan-v6.calico.",
        default=4096,
        minimum=1,
        maximum=16777215,
    ),
    Variable(
        "calico_vxlan_port",
        FLEET,
        "int",
        "UDP port of vxlan.calico and vxlan-v6.calico.",
        default=VXLAN_PORT,
        minimum=1,
        maximum=65535,
    ),
    Variable(
        "calico_spare_blocks",
        FLEET,
        "int",
        "Blocks granted ahead to each node of a pool, so that it can open its next one without asking anyone.",
        default=1,
        minimum=0,
        maximum=64,
    ),
    Variable(
        "calico_ip_reservations",
        FLEET,
        "list",
        "CIDRs inside the pools, of either family, out of which no address is chosen for a workload or a tunnel, as "
        "reservedCIDRs of Calico's IPReservation. One who asks for such an address by name gets it, and what has one "
        "already keeps it.",
        default=[],
        example="[10.244.0.0/28, 10.244.3.7/32]",
    ),
    Variable(
        "calico_release_blocks",
        FLEET,
        "list",
        "Names of removed nodes, or blocks, that leave quarantine in this run and may be granted again.",
        default=[],
        example="[node7, 10.244.9.64/26]",
    ),
    Variable(
        "calico_rebuild_lockfile",
        FLEET,
        "bool",
        "Plan anew although the lockfile is missing and some nodes could not be asked for their copies. Only when you "
        "know that those nodes hold no blocks.",
        default=False,
    ),
    Variable(
        "calico_lint_ignore",
        FLEET,
        "list",
        "Rules of playbooks/validate.yml whose findings are meant in this inventory; docs/validate.md has their names.",
        default=[],
        example="[single-reflector]",
    ),
    Variable(
        "calico_lockfile",
        FLEET,
        "str",
        "The file in which the plan of blocks is kept, seen from the inventory's folder; commit it with the inventory.",
        default_text=".calico.lock.yml in the inventory's folder",
    ),
)

BY_NAME = {variable.name: variable for variable in VARIABLES}

_TYPES: dict[str, tuple[type, ...]] = {
    "str": (str,),
    "int": (int,),
    "bool": (bool,),
    "dict": (dict,),
    "list": (list, tuple),
    "bool or dict": (bool, dict),
}
_WORDS = {
    "str": "text",
    "int": "a whole number",
    "bool": "true or false",
    "dict": "a dictionary",
    "list": "a list",
    "bool or dict": "true, false or a dictionary",
}


def check(name: str, value: t.Any, where: str = "") -> t.Any:
    """The value of variable `name` if it may stand there; raises FleetError. `where` is the node for node variables."""
    variable = BY_NAME[name]
    label = f"{name} of {where}" if where else name
    if variable.type == "int" and isinstance(value, str) and value.strip().lstrip("-").isdigit():
        value = int(value)
    if variable.type == "bool" and isinstance(value, str) and value.lower() in ("true", "false", "yes", "no"):
        value = value.lower() in ("true", "yes")
    wrong = not isinstance(value, _TYPES[variable.type]) or (variable.type == "int" and isinstance(value, bool))
    if wrong:
        found = None if variable.secret else value
        raise FleetError(label, found, f"is not {_WORDS[variable.type]}.", _example(variable))
    if (
        variable.minimum is not None
        and value < variable.minimum
        or variable.maximum is not None
        and value > variable.maximum
    ):
        raise FleetError(
            label, value, "is out of range.", f"Choose a number from {variable.minimum} to {variable.maximum}."
        )
    if variable.choices and value not in variable.choices:
        raise FleetError(label, value, "is not known.", f"Choose one of {', '.join(variable.choices)}.")
    return value


def _example(variable: Variable) -> str:
    if variable.example:
        return f"Write for example {variable.example}."
    if variable.default is None:
        return "Remove it to get the default."
    default = str(variable.default).lower() if variable.type == "bool" else variable.default
    return f"Write for example {default}, which is the default."


#: {name of an older release: name now}, of variables of the fleet and of roles. An old name is refused: a variable that
#: is ignored in silence can switch off what it was to switch on.
RENAMED: t.Mapping[str, str] = {
    "calico_node_loss_limit": "calico_node_max_lost_probes",
}


def check_renamed(names: t.Container[str]) -> None:
    """Raise FleetError if `names`, a host's variables, has one that this release calls otherwise."""
    for old, new in RENAMED.items():
        if old in names:
            raise FleetError(old, None, f"is called {new} in this release.", "Rename it where it is set.")


def misspelt(names: t.Iterable[str]) -> t.Iterator[tuple[str, str]]:
    """(name, what was probably meant) for each calico_* name that is nearly, but not, one of ours.

    Names that are like none of ours are left alone: Kubespray's variables may stand in the same inventory.
    """
    for name in sorted(names):
        if name.startswith("calico_") and name not in BY_NAME and not name.startswith(GROUP_LISTS):
            near = difflib.get_close_matches(name, BY_NAME, n=1, cutoff=0.9)
            if near:
                yield name, near[0]
