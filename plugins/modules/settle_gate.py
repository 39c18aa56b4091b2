# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The documentation of the action settle_gate, which runs on the controller; its code is in plugins/action."""

from __future__ import annotations

DOCUMENTATION = r"""
module: settle_gate
short_description: Find out whether a run is over
version_added: 0.2.0
description:
  - Looks at what all hosts of the batch registered for M(baremetal.host_routing.node). If none of them changed, and
    each has all sessions and routes and lost no probe, nothing is left to do.
author:
  - baremetal.host_routing contributors (@baremetal-host-routing)
extends_documentation_fragment:
  - baremetal.host_routing.attributes.controller
  - baremetal.host_routing.attributes
  - baremetal.host_routing.attributes.actiongroup_host_routing
  - baremetal.host_routing.internal
options:
  results:
    description:
      - Name of the variable that each host registered.
    type: str
    required: true
"""

EXAMPLES = r"""
- name: Check whether all hosts have converged
  baremetal.host_routing.settle_gate:
    results: calico_node_result
  register: calico_node_settled
  run_once: true
"""

RETURN = r"""
ok:
  description: Whether all hosts are have their target states.
  returned: success
  type: bool
"""
