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
from ..state.errors import FleetError, did_you_mean, within
from .host import Host

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

    `type` is str, int, bool, dict, list, "bool or dict" or "list or *"; the last reads the text `*` as a list of it.
    `default` is None if the variable is required, or if it has no fixed default; in the second case `default_text` says
    what holds without it. Numbers are from `minimum` to `maximum`, both allowed. `choices` are the allowed texts, ()
    for any. An error does not show the value of a `secret` variable that has the wrong type or differs between hosts.
    Every entry of a list `of_texts` must be a text.
    """

    name: str
    type: str
    description: str
    scope: str = FLEET
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
        "list",
        "The IP pools. Each entry has the fields of a Calico v3 IPPool, or is a whole IPPool document. Fields: "
        "`name`, `cidr`, `ipipMode`, `vxlanMode`, `natOutgoing`, `blockSize`, `nodeSelector`, `disabled`, "
        "`disableBGPExport`, `allowedUses`, `assignmentMode`. `ipipMode` and `vxlanMode` are Always, CrossSubnet or "
        "Never, and at most one of them may differ from Never. With Never for both, packets are routed without a "
        "tunnel. IPv6 pools are in the same list; they cannot use IPIP.",
        required=True,
        example="[{name: default-ipv4-ippool, cidr: 10.244.0.0/16, ipipMode: CrossSubnet, natOutgoing: true}]",
    ),
    Variable(
        "calico_node_address",
        "str",
        "IPv4 address of the node on the underlay, with the prefix length. CrossSubnet pools use a tunnel between "
        "nodes whose subnets differ. Required on nodes that IPv4 pools select, and then on route reflectors, too.",
        scope=NODE,
        default_text="none: the node routes only IPv6 and has calico_node_address_ipv6",
        example="10.10.1.11/24",
    ),
    Variable(
        "calico_node_address_ipv6",
        "str",
        "IPv6 address of the node on the underlay, with the prefix length, in addition to `calico_node_address` or "
        "alone. Required on nodes that IPv6 pools select, and then on route reflectors, too.",
        scope=NODE,
        default_text="none: the node routes only IPv4",
        example="fd00:10:10:1::11/64",
    ),
    Variable(
        "calico_node_labels",
        "dict",
        "Labels of the node, for selectors such as the `nodeSelector` of pools and BGPPeers. "
        "`kubernetes.io/hostname` is always the node's name.",
        scope=NODE,
        default={},
        example="{rack: a}",
    ),
    Variable(
        "calico_workloads",
        "list",
        "Workloads of the fleet. Each has `name` and `node`, and may have `namespace`, `labels`, `pool`, `address`, "
        "`pool_ipv6`, `address_ipv6`, `ip_families`, `endpoint`, `profiles` and `ports` (each with `name`, "
        "`protocol` and `port`). A workload gets an IPv4 and an IPv6 address if pools of both select its node. "
        "`ip_families: [IPv4]` or `[IPv6]` leaves one out.",
        default=[],
        example="[{name: web-1, node: node1, labels: {app: web}}]",
    ),
    Variable(
        "calico_node_workloads",
        "list",
        "Workloads of one node, with the fields of `calico_workloads` except `node`. They are added to those of "
        "`calico_workloads`.",
        scope=NODE,
        default=[],
        example="[{name: web-1, labels: {app: web}}]",
    ),
    Variable(
        "calico_policies",
        "list",
        "Policy as Calico v3 resources: GlobalNetworkPolicy, NetworkPolicy, their staged kinds, Profile, Tier, "
        "GlobalNetworkSet, NetworkSet and HostEndpoint. Each entry has a `kind`, and has the resource's fields or is "
        "a whole document. See docs/how-to/policy.md.",
        default=[],
        example="[{kind: NetworkPolicy, name: web, selector: app == 'web', ingress: [{action: Allow, protocol: TCP, "
        "destination: {ports: [80]}}]}]",
    ),
    Variable(
        "calico_node_policies",
        "list",
        "Policy resources of one node, mostly its HostEndpoints. They are added to those of all other lists and files.",
        scope=NODE,
        default=[],
        example="[{kind: HostEndpoint, interfaceName: eth0, labels: {role: gateway}}]",
    ),
    Variable(
        "calico_policies_<group>",
        "list",
        "Policy resources of a group of nodes. A HostEndpoint is created for each node of the group: leave out its "
        "`node`. You can leave out its `name`, too; it is then node1-eth0, for example. Any other resource is "
        "created once and counts for the whole fleet.",
        scope=GROUP,
        default=[],
        example="calico_policies_gateways: [{kind: HostEndpoint, interfaceName: eth0, labels: {role: gateway}}]",
    ),
    Variable(
        "calico_resource_files",
        "list",
        "Files, folders (with those in them) or patterns of files with Calico v3 resources of any kind, as calicoctl "
        "prints them. They are YAML with any number of documents, or JSON. They stand beside the variables, and "
        "each resource in one place. Paths are relative to the inventory's folder. Keep the files outside of it, or "
        "in a folder there whose name begins with a dot: Ansible reads other files there as inventory. See "
        "docs/how-to/resource-files.md.",
        default=[],
        example="[../resources]",
        of_texts=True,
    ),
    Variable(
        "calico_policy_files",
        "list",
        "Files, folders (with those in them) or patterns of files with policy resources, as in "
        "`calico_resource_files`. Other kinds are refused there.",
        default=[],
        example="[../policy/*.yml]",
        of_texts=True,
    ),
    Variable(
        "calico_policy_enabled",
        "bool",
        "Whether policy is enforced. If false, lists and files are only checked.",
        default_text="true if the lists and files have any resource, else false",
    ),
    Variable(
        "calico_staged_policies",
        "list",
        "Names of policies that are only staged: they decide nothing, and packets that they would deny are logged. "
        "Write a NetworkPolicy with its namespace.",
        default=[],
        example="[default/web, no-telnet]",
        of_texts=True,
    ),
    Variable(
        "calico_node_policy_audit",
        "bool",
        "Whether this node only logs packets that policy would drop, and lets them through.",
        scope=NODE,
        default=False,
    ),
    Variable(
        "calico_workload_profiles",
        "list",
        "Profiles of workloads that have none of their own. Profiles decide if no policy applies to a workload. "
        "`projectcalico-default-allow` allows everything; with an empty list, nothing is allowed.",
        default=["projectcalico-default-allow"],
        of_texts=True,
    ),
    Variable(
        "calico_default_endpoint_to_host_action",
        "str",
        "Action for packets from a workload to its own host that the workload's policy allows. Return leaves them to "
        "the host's own rules.",
        default="Drop",
        choices=("Drop", "Return", "Accept"),
    ),
    Variable(
        "calico_disable_conntrack_invalid_check",
        "bool",
        "Whether policy also decides on packets that connection tracking finds invalid, for example if replies take "
        "another path. If false, they are dropped.",
        default=False,
    ),
    Variable(
        "calico_allow_vxlan_packets_from_workloads",
        "bool",
        "Whether workloads may send VXLAN packets. Policy does not apply to the packets inside them.",
        default=False,
    ),
    Variable(
        "calico_allow_ipip_packets_from_workloads",
        "bool",
        "Whether workloads may send IPIP packets. Policy does not apply to the packets inside them.",
        default=False,
    ),
    Variable(
        "calico_allow_etcd_from_workloads",
        "bool",
        "Whether workloads may connect to ports 2378 to 2380 of the hosts in the group `calico_etcd`: to gates, with "
        "the address of their node, if their pool has natOutgoing and `calico_nat_outgoing_exclusions` does not "
        "exclude the host. If false, nodes drop these packets.",
        default=False,
    ),
    Variable(
        "calico_nat_outgoing_exclusions",
        "str",
        "Destinations for which `natOutgoing` keeps the source address of workloads. IPPoolsOnly: addresses of pools. "
        "IPPoolsAndHostIPs: those, and the nodes' addresses, so that policy on a published port sees workloads of "
        "other nodes. docs/how-to/ports.md says what the underlay must permit for that.",
        default="IPPoolsOnly",
        choices=("IPPoolsOnly", "IPPoolsAndHostIPs"),
    ),
    Variable(
        "calico_workload_source_spoofing",
        "bool",
        "Whether workloads of this node may send from addresses that are not theirs. Set it for guests that route, "
        "such as a VPN gateway. True requires `net.ipv4.conf.all.rp_filter` to be 0. If false, such packets are "
        "dropped at the workload's interface.",
        scope=NODE,
        default=False,
    ),
    Variable(
        "calico_iptables_filter_allow_action",
        "str",
        "Action for packets that policy allows. Return leaves them to the host's own rules.",
        default="Accept",
        choices=("Accept", "Return"),
    ),
    Variable(
        "calico_iptables_filter_deny_action",
        "str",
        "Action for packets that policy denies. With Reject the sender gets an error message.",
        default="Drop",
        choices=("Drop", "Reject"),
    ),
    Variable(
        "calico_failsafe_inbound_host_ports",
        "list",
        "Ports of the hosts that policy never closes. Each has `protocol` and `port`, and may have `net` to open it "
        "for one network only. The port by which Ansible reaches a host is always added, unless the list has it. If "
        "the list has it with `net`, it is open to that network only. With an empty list, policy can close all "
        "ports, also SSH.",
        default_text="SSH (tcp 22), BGP (tcp, the ports of all sessions), etcd (tcp 2378 to 2380), BFD (udp 3784, "
        "3785; 4784 where any session has it), DHCP (udp 68)",
        example="[{protocol: tcp, port: 22}, {protocol: tcp, port: 179, net: 10.10.0.0/16}]",
    ),
    Variable(
        "calico_failsafe_outbound_host_ports",
        "list",
        "Ports of other hosts that the fleet's hosts can always reach, whatever policy says.",
        default_text="BGP, etcd and BFD as above, DNS (udp and tcp 53), DHCP (udp 67), NTP (udp 123)",
        example="[{protocol: udp, port: 53}, {protocol: tcp, port: 179}]",
    ),
    Variable(
        "calico_policy_log_group",
        "int",
        "NFLOG group for dropped packets and packets of the action Log. 0 logs nothing.",
        default=179,
        minimum=0,
        maximum=65535,
    ),
    Variable(
        "calico_policy_cut_denied_flows",
        "bool",
        "Whether a new policy ends existing connections that it denies. If false, connections that were allowed when "
        "they began continue.",
        default=False,
    ),
    Variable(
        "calico_live_policy",
        "bool",
        "Whether policy documents that operators write into the datastore are in force beside those of the inventory. "
        "It needs `calico_policy_enabled`, or any policy resource in the inventory, and a datastore with gates, or an "
        "etcd without CVE-2026-33343: 3.4.42, 3.5.28, 3.6.9 or later.",
        default=False,
    ),
    Variable(
        "calico_iptables_mark_mask",
        "int",
        "Bits of the packet mark that policy may use; at least five.",
        default=0xFFFF0000,
        minimum=1,
        maximum=0xFFFFFFFF,
    ),
    Variable(
        "calico_bgp_enabled",
        "bool",
        "Whether nodes use BGP (BIRD) to advertise their blocks. If false, runs write all routes, and every pool "
        "must use VXLAN.",
        default=True,
    ),
    Variable(
        "calico_bgp_as_number",
        "int",
        "AS number of all nodes without `calico_node_bgp_as_number`.",
        default=64512,
        minimum=1,
        maximum=4294967295,
    ),
    Variable(
        "calico_bgp_node_to_node_mesh",
        "bool",
        "Whether every node peers with every other node. Route reflectors are not part of the mesh.",
        default_text="false if the fleet has route reflectors, else true",
    ),
    Variable(
        "calico_bgp_listen_port",
        "int",
        "TCP port on which nodes accept BGP sessions.",
        default=179,
        minimum=1,
        maximum=65535,
    ),
    Variable(
        "calico_bgp_log_severity",
        "str",
        "The least severity that BIRD logs, as in Calico's BGPConfiguration.",
        default="Info",
        choices=("Debug", "Info", "Warning", "Error", "Fatal", "None"),
    ),
    Variable(
        "calico_bgp_graceful_restart_time",
        "int",
        "Seconds for which peers keep a node's routes while its BIRD restarts.",
        default=120,
        minimum=1,
        maximum=4095,
    ),
    Variable(
        "calico_bgp_peers",
        "list",
        "BGPPeers, with the fields of Calico v3 or as whole documents: routers outside of the fleet (`peerIP`, "
        "`asNumber`), and sessions between nodes (`peerSelector`). `node` or `nodeSelector` selects the nodes with "
        "this peer; without them, all nodes have it. docs/reference/bgp.md has all fields.",
        default=[],
        example="[{name: tor-a, peerIP: 10.10.1.1, asNumber: 65000, nodeSelector: rack == 'a'}]",
    ),
    Variable(
        "calico_bgp_peers_<group>",
        "list",
        "BGPPeers of the nodes of a group.",
        scope=GROUP,
        default=[],
        example="calico_bgp_peers_rack_a: [{name: tor-a, peerIP: 10.10.1.1, asNumber: 65001}]",
    ),
    Variable(
        "calico_node_bgp_peers",
        "list",
        "BGPPeers of one node. They are added to those of the fleet and of groups.",
        scope=NODE,
        default=[],
        example="[{name: tor-b, peerIP: 10.20.1.1, asNumber: 65001, sourceAddress: 10.20.1.11/24}]",
    ),
    Variable(
        "calico_bgp_mesh_password",
        "dict",
        "Password of sessions without a BGPPeer: those of the mesh, and those with reflectors of the group "
        "`calico_rr`. It refers to `calico_bgp_secrets`.",
        default_text="none",
        example="{secretKeyRef: {name: mesh, key: password}}",
        secret=True,  # a password may stand there by mistake
    ),
    Variable(
        "calico_bgp_mesh_max_restart_time",
        "int",
        "`calico_bgp_graceful_restart_time` for sessions without a BGPPeer: those of the mesh, and those with "
        "reflectors of the group `calico_rr`.",
        default_text="calico_bgp_graceful_restart_time",
        example="60",
        minimum=1,
        maximum=4095,
    ),
    Variable(
        "calico_bgp_bfd",
        "bool or dict",
        "BFD for sessions without a BGPPeer (mesh, reflectors of the group `calico_rr`): true, false, or its "
        "intervals in milliseconds (`minRx`, `minTx`, `multiplier`). A dead node is detected within `minTx` times "
        "`multiplier`. A BGPPeer has its own field `bfd`.",
        default=False,
        example="{minRx: 100, minTx: 100, multiplier: 5}",
    ),
    Variable(
        "calico_bgp_hold_time",
        "int",
        "Seconds without a message from a peer after which a session ends (RFC 4271). A BGPPeer may have its own "
        "`holdTime`.",
        default=90,
        minimum=3,
        maximum=65535,
    ),
    Variable(
        "calico_bgp_keepalive_time",
        "int",
        "Seconds between two keepalive messages. A BGPPeer may have its own `keepaliveTime`.",
        default=30,
        minimum=1,
        maximum=65535,
    ),
    Variable(
        "calico_bgp_long_lived_stale_time",
        "int",
        "Seconds for which routes of a peer that does not return are kept as a last resort, after the graceful "
        "restart time (RFC 9494). A BGPPeer may have its own `longLivedStaleTime`.",
        default_text="none: they are removed after the graceful restart time",
        example="3600",
        minimum=1,
        maximum=16777215,
    ),
    Variable(
        "calico_node_bgp_as_number",
        "int",
        "AS number of this node. Set it in `group_vars` of a rack to give the rack its own.",
        scope=NODE,
        default_text="calico_bgp_as_number",
        example="64601",
        minimum=1,
        maximum=4294967295,
    ),
    Variable(
        "calico_node_router_id",
        "str",
        "BGP router id of this node: an IPv4 address, or `hash` for an id that is derived from the node's name.",
        scope=NODE,
        default_text="calico_node_address; hash if there is none",
        example="hash",
    ),
    Variable(
        "calico_bgp_bind_mode",
        "str",
        "Addresses on which BIRD accepts sessions: None for all addresses of the node, NodeIP for "
        "`calico_node_address` only. As in Calico's BGPConfiguration.",
        default="None",
        choices=("None", "NodeIP"),
    ),
    Variable(
        "calico_bgp_merge_paths",
        "bool",
        "Use all equally good paths to a destination, for example by both switches of a rack. With false, or with "
        "fewer than two sessions that may bring them, BIRD uses one path.",
        default=True,
    ),
    Variable(
        "calico_node_bgp_listen_port",
        "int",
        "TCP port on which this node accepts BGP sessions.",
        scope=NODE,
        default_text="calico_bgp_listen_port",
        example="1179",
        minimum=1,
        maximum=65535,
    ),
    Variable(
        "calico_node_route_reflector_cluster_id",
        "str",
        "Cluster id of this route reflector, written as an IPv4 address. A node outside of the group `calico_rr` "
        "becomes a reflector by it, as in Calico: it leaves the mesh, and its clients are those that BGPPeers give "
        "it.",
        scope=NODE,
        default_text="calico_rr_cluster_id in the group calico_rr, else none",
        example="244.0.0.2",
    ),
    Variable(
        "calico_node_route_reflector_clients",
        "str",
        "Selector of the clients of a reflector of the group `calico_rr`, for example the nodes of its rack.",
        scope=NODE,
        default="all()",
        example="rack == 'a'",
    ),
    Variable(
        "calico_bgp_secrets",
        "dict",
        "Passwords of BGP sessions, by name and key. A `secretKeyRef` refers to them. Encrypt them with "
        "ansible-vault. At most 80 bytes each, without double quotes. See docs/reference/bgp.md.",
        default={},
        example="{tor-a: {password: ...}}",
        secret=True,
    ),
    Variable(
        "calico_bgp_filters",
        "list",
        "BGPFilters, with the fields of Calico v3 or as whole documents. They decide which routes the BGPPeers that "
        "name them advertise and accept.",
        default=[],
        example="[{name: from-tor, importV4: [{action: Accept, matchOperator: Equal, cidr: 0.0.0.0/0}]}]",
    ),
    Variable(
        "calico_bgp_communities",
        "list",
        "Names for BGP communities, for use in prefix advertisements.",
        default=[],
        example="[{name: workloads, value: '64512:100'}]",
    ),
    Variable(
        "calico_bgp_prefix_advertisements",
        "list",
        "BGP communities, by name or value, that nodes add to the routes of a range that they advertise.",
        default=[],
        example="[{cidr: 10.244.0.0/16, communities: [workloads, '64512:1:2']}]",
    ),
    Variable(
        "calico_node_bgp_prefix_advertisements",
        "list",
        "Prefix advertisements of this node, instead of `calico_bgp_prefix_advertisements`. In `group_vars`, of all "
        "hosts of the group.",
        scope=NODE,
        default_text="calico_bgp_prefix_advertisements",
        example="[{cidr: 10.244.0.0/16, communities: ['64512:101']}]",
    ),
    Variable(
        "calico_bgp_ignored_interfaces",
        "list",
        "Patterns of interfaces whose subnets BIRD ignores.",
        default=[],
        example="[docker*, cni0]",
    ),
    Variable(
        "calico_node_bird_include_dir",
        "str",
        "Folder on the node. BIRD reads its *.conf files at the end of bird.cfg; see docs/reference/bgp.md. If "
        "empty, BIRD reads none.",
        scope=NODE,
        default="/etc/calico/bird.d",
    ),
    Variable(
        "calico_rr_cluster_id",
        "str",
        "Cluster id of the reflectors of the group `calico_rr`, written as an IPv4 address.",
        default="244.0.0.1",
    ),
    Variable(
        "calico_underlay_mtu",
        "int",
        "MTU in bytes of the network between the nodes. Tunnels and workloads get 20 less with IPIP, 50 less with "
        "VXLAN, and 70 less with VXLAN of an IPv6 pool. A workload with both IP versions gets the smaller MTU.",
        default=1500,
        minimum=1280,
        maximum=65535,
    ),
    Variable(
        "calico_vxlan_vni",
        "int",
        "VXLAN network identifier of vxlan.calico and vxlan-v6.calico.",
        default=4096,
        minimum=1,
        maximum=16777215,
    ),
    Variable(
        "calico_vxlan_port",
        "int",
        "UDP port of VXLAN (vxlan.calico and vxlan-v6.calico).",
        default=VXLAN_PORT,
        minimum=1,
        maximum=65535,
    ),
    Variable(
        "calico_spare_blocks",
        "int",
        "Number of blocks of each pool that a node gets in advance. Its agent opens them between runs when the "
        "others are full.",
        default=1,
        minimum=0,
        maximum=64,
    ),
    Variable(
        "calico_ip_reservations",
        "list",
        "Ranges inside the pools from which no address is chosen automatically, like the `reservedCIDRs` of Calico's "
        "IPReservation. A workload that requests such an address gets it, and an address in use stays in use.",
        default=[],
        example="[10.244.0.0/28, 10.244.3.7/32]",
    ),
    Variable(
        "calico_pools_known_to_routers",
        "list",
        "Names of pools without a tunnel whose blocks routers know without BGP sessions to nodes, for example by "
        "static routes. playbooks/validate.yml then does not warn that they drop packets between the nodes' subnets, "
        "and no run needs approval when nodes lose their sessions with routers.",
        default=[],
        example="[racks]",
        of_texts=True,
    ),
    Variable(
        "calico_unprobed_pools",
        "list or *",
        "Names of pools in which no node has a probe endpoint, or the text `*` for all pools. A probe endpoint takes "
        "one address of each pool on each node, from which runs and agents prove that the pool's packets arrive. "
        "Name a pool here if its addresses are scarce. Runs then list its paths as not tried.",
        default=[],
        example="[public]",
        of_texts=True,
    ),
    Variable(
        "calico_release_blocks",
        "list",
        "Names of removed nodes, or blocks, to release from quarantine in this run. They may then be granted again.",
        default=[],
        example="[node7, 10.244.9.64/26]",
        of_texts=True,
    ),
    Variable(
        "calico_rebuild_lockfile",
        "bool",
        "Whether to plan without the lockfile although some nodes did not report their copies, or have no copy of a "
        "block that another node claims. Set it for one run, and only if you know that these nodes hold no blocks.",
        default=False,
    ),
    Variable(
        "calico_etcd_endpoints",
        "list",
        "Members of the etcd cluster that carries workloads between nodes, as https URLs. With an empty list the "
        "fleet has no datastore, even if the group `calico_etcd` has hosts.",
        default_text="the hosts of the group calico_etcd: port 2379 for runs, port 2378 (the gate) for nodes. Without "
        "the group, no datastore",
        example="[https://10.10.1.11:2379, https://10.10.1.12:2379, https://10.10.2.13:2379]",
        of_texts=True,
    ),
    Variable(
        "calico_etcd_ca",
        "str",
        "File on the controller with the CA certificates of the members (PEM), relative to the inventory's folder.",
        default_text=".calico.etcd/ca.pem in the inventory's folder",
        example="../pki/etcd-ca.pem",
    ),
    Variable(
        "calico_etcd_cert",
        "str",
        "File on the controller with the certificate by which nodes and the controller connect to the members (PEM). "
        "It must have no CN: members refuse users with a password whose certificate has one.",
        default_text=".calico.etcd/client.pem in the inventory's folder; none if calico_etcd_endpoints is set and the "
        "file does not exist",
        example="../pki/etcd-client.pem",
    ),
    Variable(
        "calico_etcd_key",
        "str",
        "File on the controller with the private key of `calico_etcd_cert` (PEM, without a passphrase).",
        default_text=".calico.etcd/client.key in the inventory's folder, with calico_etcd_cert",
        example="../pki/etcd-client.key",
    ),
    Variable(
        "calico_etcd_username",
        "str",
        "Etcd user for runs of Ansible. It needs the role root, because it creates a user for each node.",
        default_text="from .calico.etcd/secrets.json, or root with calico_etcd_password",
        example="host-routing",
    ),
    Variable(
        "calico_etcd_password",
        "str",
        "Password of `calico_etcd_username`. Encrypt it with ansible-vault.",
        default_text="from .calico.etcd/secrets.json",
        secret=True,
    ),
    Variable(
        "calico_etcd_node_secret",
        "str",
        "Secret from which the passwords of the nodes' users derive: at least 32 hexadecimal digits. Encrypt it with "
        "ansible-vault. If you change it, all nodes get new passwords.",
        default_text="from .calico.etcd/secrets.json",
        secret=True,
    ),
    Variable(
        "calico_etcd_operators",
        "list",
        "Users of etcd who write live documents. Each has a `name`, which no node has. It may have `addresses`, from "
        "which it reaches the members of the group `calico_etcd`. With another number as its `rotation` it gets "
        "another password. A run of site.yml makes the user, and writes its calicoctl.cfg to .calico.etcd/operators/ "
        "in the inventory's folder.",
        default=[],
        example="[{name: ada, addresses: [192.0.2.5, 198.51.100.0/24]}]",
    ),
    Variable(
        "calico_etcd_progress_interval",
        "int",
        "Seconds between two progress messages of a member on a quiet watch "
        "(`--experimental-watch-progress-notify-interval`). 0 means unknown: nodes then ask their member every 5 "
        "seconds.",
        default_text="2 for group calico_etcd, 0 for calico_etcd_endpoints",
        minimum=0,
        maximum=3600,
    ),
    Variable(
        "calico_lint_ignore",
        "list",
        "Rules of playbooks/validate.yml whose findings you accept in this inventory. docs/reference/validate.md "
        "lists them.",
        default=[],
        example="[single-reflector]",
        of_texts=True,
    ),
    Variable(
        "calico_lockfile",
        "str",
        "File with the plan of blocks, relative to the inventory's folder. Commit it with the inventory.",
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
    "list or *": (list, tuple),
}
_WHOLE_NUMBER = re.compile(r"-?[0-9]{1,20}")
_WORDS = {
    "str": "text",
    "int": "a whole number",
    "bool": "true or false",
    "dict": "a dictionary",
    "list": "a list",
    "bool or dict": "true, false or a dictionary",
    "list or *": "a list or the text *",
}


def of_fleet(hosts: t.Iterable[Host], name: str) -> t.Any:
    """Return the value of a variable for the controller, by `check`, from the first host that has it, or None."""
    found = next((host.variables[name] for host in hosts if name in host.variables), None)
    return None if found is None else check(name, found)


def of_host(host: Host, name: str) -> t.Any:
    """Return the value of a node's variable, by `check`, or None if the host has none or null."""
    value = host.variables.get(name)
    return None if value is None else check(name, value, host.name)


def of_groups(
    hosts: t.Sequence[Host], prefix: str, entries: str
) -> t.Iterator[tuple[Host, str, t.Union[list[t.Any], tuple[t.Any, ...]]]]:
    """Yield (host, variable, its list) for each list with this prefix that belongs to a group of the host.

    In a variable's name a group has "_" for "-" and ".". Raise FleetError if a variable is not a list, or is for a
    group that no host is in; `entries` names what to write there.
    """
    own = {host.name: {re.sub(r"[-.]", "_", group) for group in host.groups} for host in hosts}
    known = {group for groups in own.values() for group in groups}
    for host in hosts:
        for variable in sorted(name for name in host.variables if name.startswith(prefix)):
            group, value = variable[len(prefix) :], host.variables[variable]
            if group not in known:
                remedy = did_you_mean(group, known or {"all"}, f"Name it {prefix} and one of")
                raise FleetError(variable, None, f"is for the group {group}, which no node is in.", remedy)
            if group not in own[host.name]:
                continue
            if not isinstance(value, (list, tuple)):
                raise FleetError(variable, value, "is not a list.", f"Write {entries} there, as in {prefix[:-1]}.")
            yield host, variable, value


def check(name: str, value: t.Any, where: str = "") -> t.Any:
    """Return `value` for variable `name`, converted from text if an int or bool variable has a text that fits.

    That is a whole number of at most 20 digits, or true, false, yes or no in any mixture of cases. `where` is the node
    for node variables, for the error. Raise FleetError if the type, the range, the choice or an entry of a list of
    texts is wrong, KeyError if there is no such variable.
    """
    variable = BY_NAME[name]
    label = f"{name} of {where}" if where else name
    if variable.type == "int" and isinstance(value, str) and _WHOLE_NUMBER.fullmatch(value.strip()):
        value = int(value)
    if variable.type == "bool" and isinstance(value, str) and value.lower() in ("true", "false", "yes", "no"):
        value = value.lower() in ("true", "yes")
    if variable.type == "list or *" and value == "*":
        value = ["*"]
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
    """Raise FleetError with `remedy`, a sentence, if one of `values`, a list that errors name `label`, is no text."""
    for index, value in enumerate(values):
        if not isinstance(value, str):
            shown = "null" if value is None else value
            raise FleetError(within(label, index), shown, "is not a text.", remedy)


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
    """Yield (name, variable probably meant) for each name in `names`, sorted, that nearly is a calico_ variable.

    Other unknown names are permitted: Kubespray's variables may be in the same inventory.
    """
    for name in sorted(names):
        if name in BY_NAME or name in _OF_ROLES or name.startswith(GROUP_LISTS):
            continue
        if name.startswith("calico_"):
            near = difflib.get_close_matches(name, BY_NAME, n=1, cutoff=0.9)
            if near:
                yield name, near[0]
