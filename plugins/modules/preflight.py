# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The documentation of the action preflight, which runs on the controller; its code is in plugins/action."""

from __future__ import annotations

DOCUMENTATION = r"""
module: preflight
short_description: Check whether a host can be used
version_added: 0.1.0
description:
  - Compares, on the controller, what M(baremetal.host_routing.node_info) found on the host with the state that the host
    shall have.
  - Fails with one sentence for each obstacle, before anything is changed.
author:
  - baremetal.host_routing contributors (@baremetal-host-routing)
extends_documentation_fragment:
  - baremetal.host_routing.attributes.controller
  - baremetal.host_routing.attributes
  - baremetal.host_routing.attributes.actiongroup_host_routing
  - baremetal.host_routing.fleet.folder
  - baremetal.host_routing.fleet.observed
options:
  fleet:
    required: true
  observed:
    required: true
  cni:
    description:
      - Whether the host gets the CNI plugin. Packages that it recommends are required then.
      - Its network must not become the default of containerd or CRI-O on a host with other networks, unless
        O(cni_default) is true.
    type: bool
    default: false
  cni_default:
    description:
      - Whether the CNI plugin's network may become the default of the host's containers.
    type: bool
    default: false
  podman:
    description:
      - Whether the host's podman gets O(podman_networks).
      - With V(auto) it does if it makes networks by plugins of netavark.
    type: str
    choices: ["no", auto, "yes"]
    default: "no"
  podman_networks:
    description:
      - Networks of podman, as in C(calico_node_podman_networks).
    type: list
    elements: dict
    default: []
  install_packages:
    description:
      - Whether a later task installs missing packages. In check mode they are in the diff then.
    type: bool
    default: true
"""

EXAMPLES = r"""
- name: Check preconditions
  baremetal.host_routing.preflight:
    fleet: "{{ calico_node_fleet.path }}"
    observed: calico_node_observed
"""

RETURN = r"""
findings:
  description: All findings, errors and warnings, in words.
  returned: when the host's state can be determined and its answer can be judged
  type: list
  elements: str
remarks:
  description: The warnings among them, for M(baremetal.host_routing.host_warnings).
  returned: success, if there are any
  type: list
  elements: str
missing_packages:
  description: Packages of the distribution that the state needs and the host does not have.
  returned: success
  type: list
  elements: str
  sample: [bird2]
"""
