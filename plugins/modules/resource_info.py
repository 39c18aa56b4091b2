# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The documentation of the action resource_info, which runs on the controller; its code is in plugins/action."""

from __future__ import annotations

DOCUMENTATION = r"""
module: resource_info
short_description: Read resources of an inventory, or policy of the datastore
version_added: 0.2.0
description:
  - Returns the resources of an inventory as Calico's documents, from its variables and its files, as
    C(calicoctl -i INVENTORY get -o json) does.
  - Each document has a C(metadata.resourceVersion). The module M(baremetal.host_routing.resource) refuses a document
    with one if the resource changed since.
  - With O(datastore), returns the policies, tiers and network sets that are in force by live documents or by the
    inventory. The annotation C(baremetal.host-routing/source) says by which. It may stay in a document that is applied.
  - Runs on the controller and connects to no host.
author:
  - baremetal.host_routing contributors (@baremetal-host-routing)
extends_documentation_fragment:
  - baremetal.host_routing.inventory
  - baremetal.host_routing.attributes.controller
  - baremetal.host_routing.attributes
  - baremetal.host_routing.attributes.actiongroup_host_routing
  - baremetal.host_routing.attributes.info_module
options:
  kind:
    description:
      - The kind, as C(calicoctl get) takes it, such as V(IPPool) or V(gnp).
    type: str
    required: true
  name:
    description:
      - The name of the only resource to return.
    type: str
  namespace:
    description:
      - The namespace of the resources to return. All namespaces if it is missing.
    type: str
seealso:
  - module: baremetal.host_routing.resource
"""

EXAMPLES = r"""
- name: Read the pools
  baremetal.host_routing.resource_info:
    inventory: inventories/prod
    kind: IPPool
  delegate_to: localhost
  run_once: true
  register: pools
"""

RETURN = r"""
resources:
  description: The documents. There are none if no resource has the name.
  returned: success
  type: list
  elements: dict
"""
