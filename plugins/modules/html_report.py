# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The documentation of the action html_report, which runs on the controller; its code is in plugins/action."""

from __future__ import annotations

DOCUMENTATION = r"""
module: html_report
short_description: Write an HTML file about a run
version_added: 0.2.0
description:
  - Writes one HTML file on the controller, which shows what all hosts of the play registered. It is about a plan in
    check mode, otherwise about what was changed, and with O(gates) about a change in phases and what it lost.
  - With O(gates) it also records the loss of the change in C(.calico.switch.json) beside the lockfile, for the report
    of a later status.
  - The file needs nothing else. It has no script and loads nothing. It is replaced as a whole.
author:
  - baremetal.host_routing contributors (@baremetal-host-routing)
extends_documentation_fragment:
  - baremetal.host_routing.attributes.controller
  - baremetal.host_routing.attributes
  - baremetal.host_routing.attributes.actiongroup_host_routing
  - baremetal.host_routing.fleet.lost_probes
  - baremetal.host_routing.internal
options:
  path:
    description:
      - File to write, on the controller, from the current folder. Its folder has to exist. With V("") no page is
        written.
    type: str
    required: true
  run:
    description:
      - Name of the variable in which M(baremetal.host_routing.fleet) was registered.
    type: str
    required: true
  datastore:
    description:
      - Name of the variable in which M(baremetal.host_routing.datastore) was registered, if it was. The page has what
        it said of live documents, and its warnings.
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
      - Name of the variable in which M(baremetal.host_routing.probe) or M(baremetal.host_routing.soak) was registered.
    type: str
  soak:
    description:
      - Name of the variable in which M(baremetal.host_routing.soak) was registered, for the loss of a change in phases.
        By default the loss is that of O(reachability).
    type: str
  phases:
    description:
      - For a change in phases, the names of the variables in which M(baremetal.host_routing.node) was registered, by
        phase.
    type: dict
    default: {}
  gates:
    description:
      - For a change in phases, the names of the variables in which M(baremetal.host_routing.phase_gate) was registered,
        by phase. With them, a file that cannot be written is a warning.
    type: dict
    default: {}
  subject:
    description:
      - What is changed, for the title.
    type: str
    default: ""
  switched:
    description:
      - Whether a change in phases was made.
    type: bool
    default: true
seealso:
  - module: baremetal.host_routing.fleet_report
  - module: baremetal.host_routing.fleet_status
"""

EXAMPLES = r"""
- name: Write a report
  baremetal.host_routing.html_report:
    path: report.html
    run: calico_node_fleet
    plan: calico_node_result
  run_once: true
"""

RETURN = r"""
path:
  description: The file that was written.
  returned: when a file was written
  type: str
"""
