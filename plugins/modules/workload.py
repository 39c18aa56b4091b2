# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: workload
short_description: Attach a workload between runs, or detach it
version_added: 0.2.0
description:
  - Attaches a network namespace to the fleet's network, or detaches it, through the agent of the node. The agent
    chooses the address, records it, and repairs changes that other programs make.
  - Inventory workloads (C(calico_workloads), C(calico_node_workloads)) cannot be changed with this module.
author:
  - baremetal.host_routing contributors (@baremetal-host-routing)
extends_documentation_fragment:
  - baremetal.host_routing.attributes
  - baremetal.host_routing.attributes.actiongroup_host_routing
  - baremetal.host_routing.attributes.changing
options:
  name:
    description:
      - Name of the workload.
    type: str
    required: true
  namespace:
    description:
      - Calico's namespace. Together with O(name) it identifies the workload.
    type: str
    default: default
  netns:
    description:
      - Network namespace. A name as in C(ip netns) is created if it is missing, and then deleted with the workload. An
        absolute path is a namespace that the collection never deletes.
      - By default the name of the workload.
    type: str
  pid:
    description:
      - Use the network namespace of this process, for instance of a container.
    type: int
  peer_interface:
    description:
      - Name of the interface inside.
    type: str
    default: eth0
  address:
    description:
      - IPv4 address of the workload, which has to lie in a block of the node. By default the agent chooses.
    type: str
  address6:
    description:
      - IPv6 address of the workload, which has to lie in a block of the node. By default the agent chooses.
    type: str
  families:
    description:
      - IP versions of its addresses.
      - By default those of O(pools), or without O(pools) those of the node's blocks.
    type: list
    elements: int
    choices: [4, 6]
    default: []
  pools:
    description:
      - Names or CIDRs of the IP pools, of both IP versions, from which the agent may choose. By default all pools in
        which the node has blocks.
    type: list
    elements: str
    default: []
  labels:
    description:
      - Labels of the workload. Values are strings.
    type: dict
    default: {}
  mac:
    description:
      - MAC address of the interface inside. By default any.
    type: str
  mtu:
    description:
      - MTU of both ends, if smaller than the pool's.
    type: int
  state:
    description:
      - Whether the workload shall exist.
      - A workload with other settings is detached and attached again; it keeps its address if that fits.
    type: str
    choices: [present, absent]
    default: present
seealso:
  - module: baremetal.host_routing.workload_info
  - module: baremetal.host_routing.workload_endpoint
    description: Attaches a network namespace without the agent.
"""

EXAMPLES = r"""
- name: A network namespace with an address that others reach
  baremetal.host_routing.workload:
    name: web-1
    labels: {app: web}
  register: web

- name: A running container, at a given address
  baremetal.host_routing.workload:
    name: db
    pid: "{{ container.State.Pid }}"
    address: 10.244.3.9

- name: Detach it and release its address
  baremetal.host_routing.workload:
    name: web-1
    state: absent
"""

RETURN = r"""
code:
  description: The code of the error in the agent's API.
  returned: when the agent refuses, or does not answer
  type: str
  sample: not_found
plan:
  description: What differed, one line each.
  returned: always
  type: list
  elements: str
  sample: ["+ workload default/web-1  eth0 in web-1  labels app=web"]
workload:
  description: The workload as the agent has it. Missing when it is absent, or would be created in check mode.
  returned: when there is one
  type: dict
  contains:
    id: {description: What it is known by., type: str, sample: default/web-1}
    name: {description: Its name., type: str, sample: web-1}
    namespace: {description: Calico's namespace., type: str, sample: default}
    addresses: {description: Its addresses., type: list, elements: str, sample: [10.244.3.2]}
    pool: {description: The IP pool of its address., type: str, sample: default-ipv4-ippool}
    interface: {description: The host end., type: str, sample: cali1f2e3d4c5b6}
    netns: {description: Its network namespace., type: str, sample: web-1}
    netns_owned: {description: Whether the namespace goes with the workload., type: bool}
    peer_interface: {description: The end inside., type: str, sample: eth0}
    labels: {description: Its labels., type: dict, sample: {app: web}}
    since: {description: "Time of its attachment, UTC.", type: str, sample: "2026-11-21T07:00:00Z"}
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.baremetal.host_routing.plugins.module_utils.modules import archive_start
from ansible_collections.baremetal.host_routing.plugins.module_utils.modules.nodes import workload

main = archive_start.main_of(workload, AnsibleModule)

if __name__ == "__main__":
    main()
