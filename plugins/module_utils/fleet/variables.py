# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The variables that a user may set for a fleet, its groups and its nodes, except those of roles.

The compiler reads their types and defaults here, and docs/reference/variables.md has their descriptions from this file.
"""

from __future__ import annotations

import dataclasses
import difflib
import re
import typing as t

from ..base.ports import VXLAN_PORT
from ..state.errors import FleetError

FLEET, GROUP, NODE = "fleet", "group", "node"

#: The prefixes of the names of group lists. The group's name follows, with - and . replaced by _.
POLICIES_OF_GROUP = "calico_policies_"
PEERS_OF_GROUP = "calico_bgp_peers_"
GROUP_LISTS = (POLICIES_OF_GROUP, PEERS_OF_GROUP)


@dataclasses.dataclass(frozen=True)
class Variable:
    """A variable that a user may set.

    `scope` is FLEET (one value for all nodes), NODE (one value per node) or GROUP. The name of a group variable has the
    name of its group in it, so the lists of several groups add up.

    `type` is str, int, bool, dict, list or "bool or dict". `default` is None if the variable is required, or if it has
    no fixed default; in the second case `default_text` says what holds without it. Numbers are from `minimum` to
    `maximum`, both allowed. `choices` are the allowed texts, () for any. An error does not show the value of a `secret`
    variable that has the wrong type or differs between hosts. Every entry of a list `of_texts` must be a text.
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
    of_texts: bool = False


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
        "address of each family that has a pool which selects its node; ip_families: [IPv4] or [IPv6] leaves one out.",
        default=[],
        example="[{name: web-1, node: node1, labels: {app: web}}]",
    ),
    Variable(
        "calico_node_workloads",
        NODE,
        "list",
        "Workloads of one node, with the fields of calico_workloads except node. Both lists add up.",
        default=[],
        example="[{name: web-1, labels: {app: web}}]",
    ),
    Variable(
        "calico_policies",
        FLEET,
        "list",
        "Policy, as Calico v3 resources: GlobalNetworkPolicy, NetworkPolicy, their staged kinds, Profile, Tier, "
        "GlobalNetworkSet, NetworkSet and HostEndpoint. Each entry has a kind and is flat or a whole document. See "
        "docs/how-to/policy.md.",
        default=[],
        example="[{kind: NetworkPolicy, name: web, selector: app == 'web', ingress: [{action: Allow, protocol: TCP, "
        "destination: {ports: [80]}}]}]",
    ),
    Variable(
        "calico_node_policies",
        NODE,
        "list",
        "Resources like those of calico_policies for one node, mostly its own HostEndpoints. All lists and files add "
        "up.",
        default=[],
        example="[{kind: HostEndpoint, interfaceName: eth0, labels: {role: gateway}}]",
    ),
    Variable(
        "calico_policies_<group>",
        GROUP,
        "list",
        "Resources like those of calico_policies for a group of nodes, in whose name - and . are written _. A "
        "HostEndpoint stands for one on each node of the group; leave its node out. Its name may be left out, too, and "
        "is node1-eth0 then. Any other resource counts once.",
        default=[],
        example="calico_policies_gateways: [{kind: HostEndpoint, interfaceName: eth0, labels: {role: gateway}}]",
    ),
    Variable(
        "calico_policy_files",
        FLEET,
        "list",
        "Files, folders or patterns of files with resources like those of calico_policies, in the format of calicoctl "
        "and kubectl (YAML, with several documents a file, or JSON). Paths are relative to the inventory's folder. Put "
        "the files where Ansible does not read them as inventory.",
        default=[],
        example="[../policy/*.yml]",
        of_texts=True,
    ),
    Variable(
        "calico_policy_enabled",
        FLEET,
        "bool",
        "Whether policy is in force. False: the lists and files are checked, but not enforced.",
        default_text="true with any resource in the lists and files, false without",
    ),
    Variable(
        "calico_staged_policies",
        FLEET,
        "list",
        "Names of policies that are staged: they decide nothing, and packets that they would deny are logged. Write a "
        "NetworkPolicy with its namespace.",
        default=[],
        example="[default/web, no-telnet]",
        of_texts=True,
    ),
    Variable(
        "calico_node_policy_audit",
        NODE,
        "bool",
        "Whether packets that policy would drop on this node are only logged, and let through.",
        default=False,
    ),
    Variable(
        "calico_workload_profiles",
        FLEET,
        "list",
        "Profiles of workloads that name none. They decide if no policy applies to a workload. "
        "projectcalico-default-allow allows everything; with an empty list, nothing is allowed.",
        default=["projectcalico-default-allow"],
        of_texts=True,
    ),
    Variable(
        "calico_default_endpoint_to_host_action",
        FLEET,
        "str",
        "What happens to packets that a workload's policy lets it send to its own host. Return leaves them to the "
        "host's own rules.",
        default="Drop",
        choices=("Drop", "Return", "Accept"),
    ),
    Variable(
        "calico_disable_conntrack_invalid_check",
        FLEET,
        "bool",
        "Whether policy also decides on packets that connection tracking finds invalid, for example of connections "
        "whose replies take another path. False: they are dropped.",
        default=False,
    ),
    Variable(
        "calico_allow_vxlan_packets_from_workloads",
        FLEET,
        "bool",
        "Whether workloads may send VXLAN packets. Policy does not apply to the packets inside them.",
        default=False,
    ),
    Variable(
        "calico_allow_ipip_packets_from_workloads",
        FLEET,
        "bool",
        "Whether workloads may send IPIP packets. Policy does not apply to the packets inside them.",
        default=False,
    ),
    Variable(
        "calico_workload_source_spoofing",
        NODE,
        "bool",
        "Whether the workloads of this node may send from addresses that are not theirs, for guests that route, such "
        "as a VPN gateway. False: packets from such addresses are dropped at the workload's own interface. True "
        "requires net.ipv4.conf.all.rp_filter to be 0.",
        default=False,
    ),
    Variable(
        "calico_iptables_filter_allow_action",
        FLEET,
        "str",
        "What happens to packets that policy allows. Return leaves them to the host's own rules.",
        default="Accept",
        choices=("Accept", "Return"),
    ),
    Variable(
        "calico_iptables_filter_deny_action",
        FLEET,
        "str",
        "What happens to packets that policy denies. With Reject the sender gets an error message.",
        default="Drop",
        choices=("Drop", "Reject"),
    ),
    Variable(
        "calico_failsafe_inbound_host_ports",
        FLEET,
        "list",
        "Ports of the hosts that no policy closes: protocol, port, and optionally net to open a port for one network "
        "only. The port by which Ansible reaches a host is added unless the list has it. If the list has it with net, "
        "it is open to that network alone. With an empty list, no port is exempt.",
        default_text="SSH (tcp 22), BGP (tcp, the ports of all sessions), etcd (tcp 2378 to 2380), BFD (udp 3784, "
        "3785; 4784 where any session has it), DHCP (udp 68)",
        example="[{protocol: tcp, port: 22}, {protocol: tcp, port: 179, net: 10.10.0.0/16}]",
    ),
    Variable(
        "calico_failsafe_outbound_host_ports",
        FLEET,
        "list",
        "Ports on other hosts that no policy keeps the fleet's hosts from reaching.",
        default_text="BGP, etcd and BFD as above, DNS (udp and tcp 53), DHCP (udp 67), NTP (udp 123)",
        example="[{protocol: udp, port: 53}, {protocol: tcp, port: 179}]",
    ),
    Variable(
        "calico_policy_log_group",
        FLEET,
        "int",
        "NFLOG group that dropped packets and packets of the action Log are sent to; 0 logs nothing.",
        default=179,
        minimum=0,
        maximum=65535,
    ),
    Variable(
        "calico_policy_cut_denied_flows",
        FLEET,
        "bool",
        "Whether a new policy ends the connections that it denies, and no others. False: a connection that was allowed "
        "when it began continues.",
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
        "Whether BIRD advertises the blocks between nodes. False: there is no BIRD, and routes are written from the "
        "plan; every pool must then use VXLAN.",
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
        "Whether every node that is not a route reflector peers with every other such node.",
        default_text="true without route reflectors, false with them",
    ),
    Variable(
        "calico_bgp_listen_port",
        FLEET,
        "int",
        "TCP port on which nodes accept BGP sessions.",
        default=179,
        minimum=1,
        maximum=65535,
    ),
    Variable(
        "calico_bgp_log_severity",
        FLEET,
        "str",
        "How much BIRD logs, with the values of BGPConfiguration.",
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
        "between its nodes (peerSelector). node or nodeSelector chooses the nodes that have the peer; without them all "
        "nodes have it. docs/reference/bgp.md has every field.",
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
        "Password of the sessions that exist without a BGPPeer: those of the mesh, and those with the reflectors of "
        "group calico_rr. It refers to calico_bgp_secrets.",
        default_text="none",
        example="{secretKeyRef: {name: mesh, key: password}}",
        secret=True,  # a password may stand there by mistake
    ),
    Variable(
        "calico_bgp_mesh_max_restart_time",
        FLEET,
        "int",
        "Seconds that the peers of sessions without a BGPPeer (mesh, reflectors of group calico_rr) keep the routes of "
        "a BIRD that restarts.",
        default_text="calico_bgp_graceful_restart_time",
        example="60",
        minimum=1,
        maximum=4095,
    ),
    Variable(
        "calico_bgp_bfd",
        FLEET,
        "bool or dict",
        "Whether sessions without a BGPPeer (mesh, reflectors of group calico_rr) have BFD, and its intervals in "
        "milliseconds (minRx, minTx, multiplier). A dead node is detected within minTx times multiplier. A BGPPeer has "
        "its own: bfd.",
        default=False,
        example="{minRx: 100, minTx: 100, multiplier: 5}",
    ),
    Variable(
        "calico_bgp_hold_time",
        FLEET,
        "int",
        "Seconds without a message from a peer after which a session ends (RFC 4271). A BGPPeer may have its own: "
        "holdTime.",
        default=90,
        minimum=3,
        maximum=65535,
    ),
    Variable(
        "calico_bgp_keepalive_time",
        FLEET,
        "int",
        "Seconds between two keepalive messages. A BGPPeer may have its own: keepaliveTime.",
        default=30,
        minimum=1,
        maximum=65535,
    ),
    Variable(
        "calico_bgp_long_lived_stale_time",
        FLEET,
        "int",
        "Seconds for which the routes of a peer that does not come back are kept as a last resort, after the graceful "
        "restart time (RFC 9494). A BGPPeer may have its own: longLivedStaleTime.",
        default_text="none: they are removed when the graceful restart time is over",
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
        "BGP router id of a node: an IPv4 address, or hash for one that is derived from its name.",
        default_text="calico_node_address; hash without one",
        example="hash",
    ),
    Variable(
        "calico_bgp_bind_mode",
        FLEET,
        "str",
        "Whether BIRD accepts sessions on all addresses of a node (None) or on calico_node_address alone (NodeIP), "
        "with the values of BGPConfiguration.",
        default="None",
        choices=("None", "NodeIP"),
    ),
    Variable(
        "calico_node_bgp_listen_port",
        NODE,
        "int",
        "TCP port on which a node accepts BGP sessions.",
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
        "Selector of the nodes that a reflector of group calico_rr reflects for, for example the nodes of its rack.",
        default="all()",
        example="rack == 'a'",
    ),
    Variable(
        "calico_bgp_secrets",
        FLEET,
        "dict",
        "Passwords for BGP sessions, by the name and the key with which a password's secretKeyRef refers to them; "
        "encrypted with ansible-vault. At most 80 bytes each, without double quotes. See docs/reference/bgp.md.",
        default={},
        example="{tor-a: {password: ...}}",
        secret=True,
    ),
    Variable(
        "calico_bgp_filters",
        FLEET,
        "list",
        "BGPFilters, flat or whole Calico v3 documents: which routes the BGPPeers that name them in their filters "
        "advertise and accept.",
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
        "Communities, by name or value, that nodes add to the routes that they advertise in a range.",
        default=[],
        example="[{cidr: 10.244.0.0/16, communities: [workloads, '64512:1:2']}]",
    ),
    Variable(
        "calico_node_bgp_prefix_advertisements",
        NODE,
        "list",
        "Prefix advertisements of a node, or of the hosts of a group, that replace calico_bgp_prefix_advertisements.",
        default_text="calico_bgp_prefix_advertisements",
        example="[{cidr: 10.244.0.0/16, communities: ['64512:101']}]",
    ),
    Variable(
        "calico_bgp_ignored_interfaces",
        FLEET,
        "list",
        "Patterns of interfaces whose subnets BIRD ignores.",
        default=[],
        example="[docker*, cni0]",
    ),
    Variable(
        "calico_node_bird_include_dir",
        NODE,
        "str",
        "Folder on the node with *.conf files that are read at the end of bird.cfg, see docs/reference/bgp.md. Empty: "
        "no file is read.",
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
        "MTU in bytes of the network between the nodes. Devices and workloads get 20 less with IPIP, 50 less with "
        "VXLAN, 70 less with VXLAN of an IPv6 pool. A workload with both families gets the smaller MTU.",
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
        "Blocks granted in advance to each node of a pool, so that its agent can open the next block between runs.",
        default=1,
        minimum=0,
        maximum=64,
    ),
    Variable(
        "calico_ip_reservations",
        FLEET,
        "list",
        "CIDRs inside the pools, of either family. No address in them is chosen for a workload or a tunnel, as with "
        "the reservedCIDRs of Calico's IPReservation. A workload that requests such an address by name gets it, and an "
        "address that is already in use stays in use.",
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
        of_texts=True,
    ),
    Variable(
        "calico_rebuild_lockfile",
        FLEET,
        "bool",
        "Whether to plan anew although the lockfile is missing and some nodes did not report their copies, or have no "
        "copy of a block that another node claims. Set it only if you know that those nodes hold no blocks.",
        default=False,
    ),
    Variable(
        "calico_etcd_endpoints",
        FLEET,
        "list",
        "The members of the etcd cluster that carries workloads between nodes, as https URLs; see "
        "docs/how-to/datastore.md. With an empty list the fleet has no datastore, also if group calico_etcd has hosts.",
        default_text="each host of group calico_etcd: port 2379 for the run, port 2378, the gate, for nodes; without "
        "the group there is no datastore",
        example="[https://10.10.1.11:2379, https://10.10.1.12:2379, https://10.10.2.13:2379]",
        of_texts=True,
    ),
    Variable(
        "calico_etcd_ca",
        FLEET,
        "str",
        "File on the controller with the certificates of the CAs that sign the members' certificates (PEM), relative "
        "to the inventory's folder.",
        default_text=".calico.etcd/ca.pem in the inventory's folder",
        example="../pki/etcd-ca.pem",
    ),
    Variable(
        "calico_etcd_cert",
        FLEET,
        "str",
        "File on the controller with the certificate by which nodes and the controller reach the members (PEM). It "
        "must have no CN: members refuse users with a password whose certificate has one.",
        default_text=".calico.etcd/client.pem in the inventory's folder; none if calico_etcd_endpoints is set and "
        "there is no such file",
        example="../pki/etcd-client.pem",
    ),
    Variable(
        "calico_etcd_key",
        FLEET,
        "str",
        "File on the controller with the private key of calico_etcd_cert (PEM, without a passphrase).",
        default_text=".calico.etcd/client.key in the inventory's folder, together with calico_etcd_cert",
        example="../pki/etcd-client.key",
    ),
    Variable(
        "calico_etcd_username",
        FLEET,
        "str",
        "User of the etcd cluster for runs of Ansible. It needs the role root, because it makes a user for each node.",
        default_text="that of .calico.etcd/secrets.json, or root with calico_etcd_password",
        example="host-routing",
    ),
    Variable(
        "calico_etcd_password",
        FLEET,
        "str",
        "Password of calico_etcd_username, encrypted with ansible-vault.",
        default_text="that of .calico.etcd/secrets.json",
        secret=True,
    ),
    Variable(
        "calico_etcd_node_secret",
        FLEET,
        "str",
        "Secret from which the passwords of the nodes' users derive, as at least 32 hex digits, encrypted with "
        "ansible-vault. With another one, all nodes get new passwords.",
        default_text="that of .calico.etcd/secrets.json",
        secret=True,
    ),
    Variable(
        "calico_etcd_progress_interval",
        FLEET,
        "int",
        "Seconds between two progress messages of a member on a watch that is quiet "
        "(--experimental-watch-progress-notify-interval). 0: not known, so that nodes ask their member every 5 s.",
        default_text="2 for group calico_etcd, 0 for calico_etcd_endpoints",
        minimum=0,
        maximum=3600,
    ),
    Variable(
        "calico_lint_ignore",
        FLEET,
        "list",
        "Rules of playbooks/validate.yml whose findings are intended in this inventory; docs/reference/validate.md has "
        "their names.",
        default=[],
        example="[single-reflector]",
        of_texts=True,
    ),
    Variable(
        "calico_lockfile",
        FLEET,
        "str",
        "The file that holds the plan of blocks, relative to the inventory's folder; commit it with the inventory.",
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
_WHOLE_NUMBER = re.compile(r"-?[0-9]{1,20}")
_WORDS = {
    "str": "text",
    "int": "a whole number",
    "bool": "true or false",
    "dict": "a dictionary",
    "list": "a list",
    "bool or dict": "true, false or a dictionary",
}


def check(name: str, value: t.Any, where: str = "") -> t.Any:
    """Return `value` for variable `name`, converted from text if an int or bool variable has a text that fits.

    A text fits an int variable if it is a whole number of at most 20 digits, with or without spaces around it, and a
    bool variable if it is true, false, yes or no in any mixture of cases. `where` is the node for node variables, for
    the error. Raise FleetError if the type, the range, the choice or an entry of a list of texts is wrong, KeyError if
    there is no such variable.
    """
    variable = BY_NAME[name]
    label = f"{name} of {where}" if where else name
    if variable.type == "int" and isinstance(value, str) and _WHOLE_NUMBER.fullmatch(value.strip()):
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
    if variable.of_texts:
        check_texts(label, value, _example(variable))
    if variable.choices and value not in variable.choices:
        raise FleetError(label, value, "is not known.", f"Choose one of {', '.join(variable.choices)}.")
    return value


def check_texts(label: str, values: t.Iterable[t.Any], remedy: str) -> None:
    """Raise FleetError if one of `values`, a list that errors name by `label`, is not a text.

    `remedy` is a sentence that says what to write.
    """
    path, separator, owner = label.partition(" of ")
    for index, value in enumerate(values):
        if not isinstance(value, str):
            shown = "null" if value is None else value
            raise FleetError(f"{path}[{index}]{separator}{owner}", shown, "is not a text.", remedy)


def _example(variable: Variable) -> str:
    if variable.example:
        return f"Write for example {variable.example}."
    if variable.default is None:
        return "Remove it to get the default."
    default = str(variable.default).lower() if variable.type == "bool" else variable.default
    return f"Write for example {default}, which is the default."


#: Variables of the roles that are nearly called like one of the fleet, and no misspellings.
_OF_ROLES = frozenset({"calico_etcd_ca_cert", "calico_etcd_ca_key"})

#: A mapping from names of an older release to present names, of variables of the fleet and of roles. An old name is
#: refused, because a variable that is silently ignored can leave a function off that the user wants on.
RENAMED: t.Mapping[str, str] = {
    "calico_node_loss_limit": "calico_node_max_lost_probes",
}


def check_renamed(names: t.Container[str]) -> None:
    """Raise FleetError if `names`, a host's variables, has an old name of RENAMED."""
    for old, new in RENAMED.items():
        if old in names:
            raise FleetError(old, None, f"is called {new} in this release.", "Rename it where it is set.")


def misspelt(names: t.Iterable[str]) -> t.Iterator[tuple[str, str]]:
    """Yield each name in `names`, sorted, that looks like a misspelling, with the variable that is probably meant.

    It looks at names that begin with calico_ and are nearly a name in VARIABLES; names of group lists are left out.
    Other unknown names are permitted: Kubespray's variables may be in the same inventory.
    """
    for name in sorted(names):
        if name in BY_NAME or name in _OF_ROLES or name.startswith(GROUP_LISTS):
            continue
        if name.startswith("calico_"):
            near = difflib.get_close_matches(name, BY_NAME, n=1, cutoff=0.9)
            if near:
                yield name, near[0]
