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

from .errors import FleetError

FLEET, GROUP, NODE = "fleet", "group", "node"

#: What the names of group lists begin with; the group's name follows, in characters that a variable may have.
POLICIES_OF_GROUP = "calico_policies_"


@dataclasses.dataclass(frozen=True)
class Variable:
    """`scope`: a fleet variable has one value for all nodes, a node variable one per node. That of a group has one for
    the hosts of the group, whose name is a part of its own: so lists of several groups add up.

    `type` is str, int, bool, dict or list. `default` is None where the variable is required or derived (then
    `default_text` says how).
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


VARIABLES: tuple[Variable, ...] = (
    Variable(
        "calico_ip_pools",
        FLEET,
        "list",
        "The IP pools. Each entry is flat (name, cidr, ipipMode, vxlanMode, natOutgoing, blockSize, nodeSelector, "
        "disabled, disableBGPExport, allowedUses) or a whole Calico v3 IPPool document. ipipMode and vxlanMode are "
        "Always, CrossSubnet or Never and exclude each other; both Never is direct routing.",
        required=True,
        example="[{name: default-ipv4-ippool, cidr: 10.244.0.0/16, ipipMode: CrossSubnet, natOutgoing: true}]",
    ),
    Variable(
        "calico_node_address",
        NODE,
        "str",
        "The node's own address on the underlay with its prefix length. Its subnet decides what CrossSubnet means.",
        required=True,
        example="10.10.1.11/24",
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
        "Workloads for the whole fleet: name, node, and optionally namespace, labels, pool, address, endpoint, "
        "profiles, ports (each with name, protocol and port).",
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
        default_text="SSH (tcp 22), BGP (tcp calico_bgp_listen_port), BFD (udp 3784, 3785), DHCP (udp 68)",
        example="[{protocol: tcp, port: 22}, {protocol: tcp, port: 179, net: 10.10.0.0/16}]",
    ),
    Variable(
        "calico_failsafe_outbound_host_ports",
        FLEET,
        "list",
        "Ports elsewhere to which no policy closes the hosts' way.",
        default_text="BGP (tcp calico_bgp_listen_port), BFD (udp 3784, 3785), DNS (udp and tcp 53), DHCP (udp 67), NTP "
        "(udp 123)",
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
        "AS number of all nodes.",
        default=64512,
        minimum=1,
        maximum=4294967295,
    ),
    Variable(
        "calico_bgp_node_to_node_mesh",
        FLEET,
        "bool",
        "Whether every node peers with every other one.",
        default_text="true without route reflectors (group calico_rr), false with them",
    ),
    Variable(
        "calico_bgp_listen_port",
        FLEET,
        "int",
        "TCP port of the BGP sessions between nodes.",
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
        "Peers outside the fleet, such as routers: name, peerIP, asNumber, nodeSelector. Own blocks are announced to "
        "them, nothing is accepted from them in this release.",
        default=[],
        example="[{name: tor-a, peerIP: 10.10.1.1, asNumber: 65000, nodeSelector: rack == 'a'}]",
    ),
    Variable(
        "calico_node_bgp_peers",
        NODE,
        "list",
        "Such peers of one node. Both lists add up.",
        default=[],
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
        "MTU in bytes of the network between the nodes. Devices and workloads get 20 less with IPIP, 50 with VXLAN.",
        default=1500,
        minimum=1280,
        maximum=65535,
    ),
    Variable(
        "calico_vxlan_vni",
        FLEET,
        "int",
        "VXLAN network identifier of vxlan.calico.",
        default=4096,
        minimum=1,
        maximum=16777215,
    ),
    Variable(
        "calico_vxlan_port",
        FLEET,
        "int",
        "UDP port of vxlan.calico.",
        default=4789,
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
        "CIDRs inside the pools out of which no address is chosen for a workload or a tunnel, as reservedCIDRs of "
        "Calico's IPReservation. One who asks for such an address by name gets it, and what has one already keeps it.",
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
}
_WORDS = {"str": "text", "int": "a whole number", "bool": "true or false", "dict": "a dictionary", "list": "a list"}


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
        raise FleetError(label, value, f"is not {_WORDS[variable.type]}.", _example(variable))
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


def misspelt(names: t.Iterable[str]) -> t.Iterator[tuple[str, str]]:
    """(name, what was probably meant) for each calico_* name that is nearly, but not, one of ours.

    Names that are like none of ours are left alone: Kubespray's variables may stand in the same inventory.
    """
    for name in sorted(names):
        if name.startswith("calico_") and name not in BY_NAME and not name.startswith(POLICIES_OF_GROUP):
            near = difflib.get_close_matches(name, BY_NAME, n=1, cutoff=0.9)
            if near:
                yield name, near[0]
