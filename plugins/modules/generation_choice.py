# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The documentation of the action generation_choice, which runs on the controller; its code is in plugins/action."""

from __future__ import annotations

DOCUMENTATION = r"""
module: generation_choice
short_description: Choose the stored generation for a rollback
version_added: 0.1.0
description:
  - Runs on the controller. Without a plan it fails and prints the generations that the host can return to.
author:
  - baremetal.host_routing contributors (@baremetal-host-routing)
extends_documentation_fragment:
  - baremetal.host_routing.attributes.controller
  - baremetal.host_routing.attributes
  - baremetal.host_routing.attributes.actiongroup_host_routing
  - baremetal.host_routing.fleet.observed
  - baremetal.host_routing.internal
options:
  observed:
    required: true
  plan:
    description:
      - V(previous), or the beginning of a plan's hash.
    type: str
    default: ""
"""

EXAMPLES = r"""
- name: Choose the previous generation
  baremetal.host_routing.generation_choice:
    observed: calico_node_observed
    plan: previous
  register: calico_node_choice
"""

RETURN = r"""
generation:
  description: Number of the generation on this host.
  returned: success
  type: int
plan:
  description: Hash of the plan that it was compiled from.
  returned: success
  type: str
"""
