# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: soak
short_description: Wait for a node's sessions and routes after a flip, then count lost packets
version_added: 0.2.0
description:
  - Waits until the node's BGP sessions are Established and BIRD's routes are in the kernel as planned, like
    M(baremetal.host_routing.convergence_info). Then it probes for O(seconds) and collects the watch, like
    M(baremetal.host_routing.probe) with V(collect).
  - One call does both, because a change of mode asks each host once in each phase.
author:
  - baremetal.host_routing contributors (@baremetal-host-routing)
extends_documentation_fragment:
  - baremetal.host_routing.attributes
  - baremetal.host_routing.attributes.actiongroup_host_routing
  - baremetal.host_routing.fleet.folder
  - baremetal.host_routing.fleet.observed
  - baremetal.host_routing.fleet.probes
  - baremetal.host_routing.internal
attributes:
  check_mode:
    support: full
    details:
      - Waits in check mode as well, but neither probes nor ends a watch.
  diff_mode:
    support: N/A
    details:
      - Changes nothing.
  idempotent:
    support: full
options:
  state:
    description:
      - The NodeState whose sessions and routes to wait for. By default the state stored on the node.
      - The action takes it from O(fleet) if that is given.
    type: dict
  targets:
    description:
      - The addresses to probe. If O(fleet) is given, the action fills in all other nodes.
    type: list
    elements: dict
    default: []
    suboptions:
      address:
        description: Address to probe.
        type: str
        required: true
      name:
        description: Name of the target, for the report.
        type: str
        default: ""
      size:
        description: Size of the whole IP packet in bytes, at least 68, or 88 in IPv6.
        type: int
        default: 84
      pool:
        description: Pool of the path, for the report.
        type: str
        default: ""
      source:
        description: Source address of the packets, one of the host's or of its probe endpoint.
        type: str
        default: ""
  sample:
    description:
      - Number of paths of each pool to probe, V(0) for all. Used by the action.
    type: int
    default: 0
  timeout:
    description:
      - Seconds to wait for sessions and routes. If some are missing then, the module fails and probes nothing.
    type: int
    default: 60
  seconds:
    description:
      - Seconds to probe, once all sessions and routes are there.
    type: int
    default: 10
seealso:
  - module: baremetal.host_routing.convergence_info
  - module: baremetal.host_routing.probe
"""

EXAMPLES = r"""
- name: Check sessions and routes, then soak and count lost packets
  baremetal.host_routing.soak:
    fleet: "{{ calico_node_fleet.path }}"
    observed: calico_node_observed
    seconds: 10
"""

RETURN = r"""
converged:
  description: Whether no session and no route is missing.
  returned: always
  type: bool
sessions:
  description:
    - Number of BGP sessions that shall exist, number that are Established, and how many of the latter are with routers
      outside the fleet.
  returned: always
  type: dict
  sample: {expected: 3, established: 3, external_established: 0}
routes:
  description: Number of routes that BIRD shall write, and number that are in the kernel as planned.
  returned: always
  type: dict
  sample: {expected: 3, present: 3}
missing:
  description: Each missing or wrong session or route, in words.
  returned: always
  type: list
  elements: str
  sample: []
targets:
  description: What was counted for each target, as M(baremetal.host_routing.probe) returns it.
  returned: success
  type: list
  elements: dict
sent:
  description: Probes sent to all targets.
  returned: success
  type: int
lost:
  description: Probes without an answer.
  returned: success
  type: int
clock:
  description: When probes were sent, as M(baremetal.host_routing.probe) returns it.
  returned: success
  type: dict
watch:
  description: The state of the watch, as M(baremetal.host_routing.probe) returns it.
  returned: if there are targets, outside of check mode
  type: dict
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.baremetal.host_routing.plugins.module_utils.modules import archive_start
from ansible_collections.baremetal.host_routing.plugins.module_utils.modules.nodes import soak

main = archive_start.main_of(soak, AnsibleModule)

if __name__ == "__main__":
    main()
