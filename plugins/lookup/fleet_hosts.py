# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lookup fleet_hosts: the value of `hosts` in all playbooks of the collection."""

from __future__ import annotations

DOCUMENTATION = r"""
name: fleet_hosts
short_description: Name the groups of the fleet for hosts of a play, or fail
version_added: 0.2.0
description:
  - Returns patterns for C(hosts) of a play.
  - Fails if a source of the inventory does not exist, if the inventory has no host of the fleet's groups, or if
    C(--limit) leaves none. Ansible itself skips such a play and ends with exit status 0.
  - C(--syntax-check), C(--list-tasks) and C(--list-tags) need no inventory, so nothing is checked then.
author:
  - baremetal.host_routing contributors (@baremetal-host-routing)
options:
  _terms:
    description:
      - The groups that the play is for. Without any, C(calico_nodes) and C(calico_rr).
      - V(all) stands for all hosts of the inventory, for a play that reads the inventory on the controller and contacts
        no host. The inventory needs a host of C(calico_nodes) or C(calico_rr) even so.
    type: list
    elements: str
"""

EXAMPLES = r"""
- name: Read a route of each node
  hosts: "{{ query('baremetal.host_routing.fleet_hosts') }}"
  gather_facts: false
  tasks:
    - name: Read it
      baremetal.host_routing.route_info:
"""

RETURN = r"""
_raw:
  description: The groups that exist in the inventory, or V(all).
  type: list
  elements: str
"""

import typing as t

from ansible import context
from ansible.errors import AnsibleError
from ansible.plugins.lookup import LookupBase
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.errors import FleetError
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.sources import given_inventory, inventory_source

_GROUPS = (inventory_source.NODES_GROUP, inventory_source.REFLECTORS_GROUP)
#: The options of ansible-playbook that need no inventory, as Ansible calls them.
_LISTING = ("syntax", "listtasks", "listtags")


class LookupModule(LookupBase):
    """The lookup fleet_hosts."""

    def run(
        self, terms: t.Sequence[t.Any], variables: t.Optional[t.Mapping[str, t.Any]] = None, **kwargs: t.Any
    ) -> list[str]:
        """Return the patterns. Raise AnsibleError if the inventory or --limit has no host for them."""
        known = variables or {}
        names = [str(term) for term in terms] or list(_GROUPS)
        anywhere = "all" in names
        groups = list(_GROUPS) if anywhere else names
        if not any(context.CLIARGS.get(option) for option in _LISTING):
            try:
                given_inventory.check_hosts(known, groups)
                if not anywhere:
                    given_inventory.check_limit(known, groups)
                given_inventory.check_variables(self._loader, known)
            except FleetError as error:
                raise AnsibleError(str(error)) from None
        return names if anywhere else [name for name in names if name in (known.get("groups") or {})] or names
