# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The documentation of the action phase_gate, which runs on the controller; its code is in plugins/action."""

from __future__ import annotations

DOCUMENTATION = r"""
module: phase_gate
short_description: Hold the fleet at a barrier between two phases
version_added: 0.1.0
description:
  - Checks what all hosts of the play registered for a phase, prints it in one line and returns whether the next phase
    may begin.
  - The last gate of a change writes the fleet's new modes to the lockfile.
author:
  - baremetal.host_routing contributors (@baremetal-host-routing)
extends_documentation_fragment:
  - baremetal.host_routing.attributes.controller
  - baremetal.host_routing.attributes
  - baremetal.host_routing.attributes.actiongroup_host_routing
  - baremetal.host_routing.fleet.folder
  - baremetal.host_routing.internal
options:
  fleet:
    required: true
  phase:
    description:
      - Name of the phase. V(return) ends a change that failed, and fails with the reasons.
    type: str
    required: true
  results:
    description:
      - Name of the variable that each host registered.
    type: str
    required: true
  failed:
    description:
      - For V(return), names of the variables that may hold the reasons.
    type: list
    elements: str
    default: []
  problems:
    description:
      - For V(return), the problems that the gates before it returned.
    type: list
    elements: str
    default: []
  reachability:
    description:
      - For V(return), name of the variable in which M(baremetal.host_routing.probe) was registered after it. The text
        then ends with whether all paths answer, or which ones do not.
    type: str
  without:
    description:
      - Hosts of the play to ignore.
    type: list
    elements: str
    default: []
  max_lost_probes:
    description:
      - For V(soak), the number of lost probes of all hosts together up to which the gate opens. For V(return), the
        number up to which paths with losses are not named.
    type: int
    default: 0
"""

EXAMPLES = r"""
- name: Gate after the phase prepare
  baremetal.host_routing.phase_gate:
    fleet: "{{ calico_node_fleet.path }}"
    phase: prepare
    results: calico_node_prepare
  register: calico_node_prepare_gate
  run_once: true
"""

RETURN = r"""
ok:
  description: Whether the phase succeeded on all hosts.
  returned: success
  type: bool
line:
  description: What was printed.
  returned: success
  type: str
settled:
  description:
    - Whether all hosts looked at their sessions and routes after the phase, found all of them, lost no probe, and have
      a BIRD that read no other configuration in it.
  returned: success
  type: bool
at:
  description: When the gate was passed or not, in seconds since the epoch.
  returned: success
  type: float
problems:
  description: One entry for each host or path that failed.
  returned: success
  type: list
  elements: str
"""
