# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The documentation of the action fleet_report, which runs on the controller; its code is in plugins/action."""

from __future__ import annotations

DOCUMENTATION = r"""
module: fleet_report
short_description: Report in a few lines what a run has changed in the fleet
version_added: 0.1.0
description:
  - Sums up what all hosts of the play registered; in check mode, what a run would change. Names the hosts that could
    not be reached, and the paths that were not tried.
  - Fails if a path between nodes that took part has answered no probe, or if more probes were lost on other paths
    between them than O(max_lost_probes).
author:
  - baremetal.host_routing contributors (@baremetal-host-routing)
extends_documentation_fragment:
  - baremetal.host_routing.attributes.controller
  - baremetal.host_routing.attributes
  - baremetal.host_routing.attributes.actiongroup_host_routing
  - baremetal.host_routing.fleet.lost_probes
  - baremetal.host_routing.internal
options:
  fleet:
    description:
      - Folder with the targets of the run, by which the task names nodes that took no part.
    type: str
  plan:
    description:
      - Name of the variable in which M(baremetal.host_routing.node) was registered.
    type: str
    required: true
  convergence:
    description:
      - Name of the variable in which M(baremetal.host_routing.convergence_info) was registered.
    type: str
  reachability:
    description:
      - Name of the variable in which M(baremetal.host_routing.probe) was registered.
    type: str
  started:
    description:
      - Start of the run, in seconds since the epoch.
    type: float
"""

EXAMPLES = r"""
- name: Report
  baremetal.host_routing.fleet_report:
    plan: calico_node_result
    convergence: calico_node_convergence
  run_once: true
"""

RETURN = r"""
lines:
  description: What was printed.
  returned: success
  type: list
  elements: str
paths:
  description:
    - At most 100 paths with lost probes, those without any answer first.
    - Each has C(pool), C(from), C(to), C(address), C(sent), C(lost), C(dead) for no answer at all, and why - C(reason),
      C(by) for the address that said so, and C(direction), which is V(there) or V(back) or empty.
  returned: success, not in check mode
  type: list
  elements: dict
not_tried:
  description: The paths that were not tried, each with its pool, the reason, their count and up to six nodes.
  returned: success, not in check mode
  type: list
  elements: dict
"""
