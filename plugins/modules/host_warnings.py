# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The documentation of the action host_warnings, which runs on the controller; its code is in plugins/action."""

from __future__ import annotations

DOCUMENTATION = r"""
module: host_warnings
short_description: Warn once of what is true of several hosts
version_added: 0.2.0
description:
  - Looks at what all hosts of the play registered for M(baremetal.host_routing.node) or
    M(baremetal.host_routing.preflight), and prints each of their remarks once, as a warning that names the hosts.
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
- name: Print warnings about hosts
  baremetal.host_routing.host_warnings:
    results: calico_node_result
  run_once: true
"""

RETURN = r"""
warnings:
  description: The warnings.
  returned: success
  type: list
  elements: str
  sample: ["node1, node2: IPv4 forwarding is off"]
"""
