# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: node_info
short_description: Read the state of a node
version_added: 0.1.0
description:
  - Returns facts on the host, its stored state, and the objects in its kernel and its BIRD.
  - Changes nothing and needs only Python on the host, so it works before anything is installed.
author:
  - baremetal.host_routing contributors (@baremetal-host-routing)
extends_documentation_fragment:
  - baremetal.host_routing.attributes
  - baremetal.host_routing.attributes.actiongroup_host_routing
  - baremetal.host_routing.attributes.info_module
options:
  gather:
    description:
      - What to return, see the return values of these names. V(generation) is returned if O(generation) is given.
    type: list
    elements: str
    choices:
      - preflight
      - packages
      - state
      - engine
      - generations
      - generation
      - blocks
      - ipam
      - devices
      - routes
      - workloads
      - bgp
    default:
      - state
      - engine
      - generations
      - blocks
      - ipam
      - devices
      - routes
      - workloads
      - bgp
  generation:
    description:
      - Number of the stored generation to return.
    type: int
  policy:
    description:
      - Whether RV(state) includes the node's policy, as one packed text. It may be large, and planning the next run
        does not need it.
    type: bool
    default: true
  bgp_passwords:
    description:
      - Passwords of BGP sessions, packed, for RV(passwords_changed). Filled in by the action from
        C(calico_bgp_secrets).
    type: str
  cni_conf_dir:
    description:
      - Folder in which container runtimes search for networks, for RV(preflight).
    type: path
    default: /etc/cni/net.d
seealso:
  - module: baremetal.host_routing.node
  - module: baremetal.host_routing.convergence_info
"""

EXAMPLES = r"""
- name: Read all of a node
  baremetal.host_routing.node_info:
  register: node

- name: Read only the node's routes and sessions
  baremetal.host_routing.node_info:
    gather: [routes, bgp]

- name: Read one of its earlier states
  baremetal.host_routing.node_info:
    gather: [generation]
    generation: 12
"""

RETURN = r"""
preflight:
  description: Facts on the host, for M(baremetal.host_routing.preflight) to check.
  returned: when V(preflight) is gathered
  type: dict
  sample: {uid: 0, daemons: {docker: [dockerd]}, link_local_route: eth0}
missing_packages:
  description: Packages of the distribution that a node may need and that are not installed.
  returned: when V(preflight) or V(packages) is gathered
  type: list
  elements: str
  sample: [bird2, python3-pyroute2]
state:
  description: The whole stored NodeState, V(null) on a host that has none. Its policy is one packed text.
  returned: when V(state) is gathered
  type: dict
  sample: {version: 1, node: node1, address: 10.10.1.11/24, phase: converge}
passwords_changed:
  description:
    - Names of the secrets whose values in C(calico_bgp_secrets) differ from the node's. Their sessions will restart.
  returned: when V(state) is gathered
  type: list
  elements: str
  sample: [tor-a:password]
datastore:
  description: Whether the node has /etc/calico/datastore.json, by which it reaches the fleet's datastore.
  returned: when V(state) is gathered
  type: bool
complete:
  description: Whether all of the stored state was applied. V(false) after a run that was cut short.
  returned: when V(state) is gathered
  type: bool
engine_digest:
  description: Digest of the engine that the boot unit runs, V(null) if there is none or if it was altered.
  returned: when V(engine) is gathered
  type: str
  sample: 6cd0c2f4b9f3a1d8
generations:
  description: The stored generations, oldest first.
  returned: when V(generations) is gathered
  type: list
  elements: dict
  contains:
    n: {description: Number of the generation., type: int, sample: 12}
    when: {description: "When it was applied, UTC.", type: str, sample: "2026-11-21T07:00:00Z"}
    who: {description: Who applied it., type: str, sample: ops@control}
    plan: {description: Hash of the fleet that it was compiled from., type: str, sample: 7f3a91}
    phase: {description: V(converge) or V(retire)., type: str, sample: converge}
    digest: {description: Hash of the state., type: str}
generation:
  description: One stored generation with its C(state) and C(bird_config).
  returned: when V(generation) is gathered and O(generation) is given
  type: dict
blocks:
  description: The node's own blocks.
  returned: when V(blocks) is gathered
  type: list
  elements: dict
  sample: [{cidr: 10.244.3.0/26, pool: default-ipv4-ippool, spare: false}]
ipam:
  description: Addresses that the node assigned by itself since its blocks were planned, read from the node's disk.
  returned: when V(ipam) is gathered
  type: dict
  contains:
    allocated:
      description: Addresses of workloads that came between runs, each with the handle that holds it.
      type: dict
      sample: {10.244.3.9: podman.3f2a}
    opened:
      description: Formerly spare blocks from which such addresses are assigned.
      type: list
      elements: str
      sample: [10.244.9.64/26]
devices:
  description: Tunnel devices and host sides of workloads.
  returned: when V(devices) is gathered
  type: list
  elements: dict
  sample: [{name: tunl0, kind: ipip, mtu: 1480, up: true, addresses: [10.244.3.0/32]}]
routes:
  description: Routes of the collection and of BIRD in the main table.
  returned: when V(routes) is gathered
  type: list
  elements: dict
  sample: [{destination: 10.244.7.0/26, gateway: 10.10.1.12, device: tunl0, onlink: true, protocol: bird}]
workloads:
  description: The workloads of the stored state, and whether their interfaces are up.
  returned: when V(workloads) is gathered
  type: list
  elements: dict
  sample: [{name: web-1, address: 10.244.3.1, address6: '', interface: cali1f2e3d4c5b6, netns: web-1, up: true}]
bgp:
  description: The BIRD of the node and its sessions.
  returned: when V(bgp) is gathered
  type: dict
  sample: {running: true, version: 2.0.12, sessions: [{name: Mesh_10_10_1_12, bgp_state: Established}]}
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.baremetal.host_routing.plugins.module_utils.modules import archive_start
from ansible_collections.baremetal.host_routing.plugins.module_utils.modules.nodes import node_info

main = archive_start.main_of(node_info, AnsibleModule)

if __name__ == "__main__":
    main()
