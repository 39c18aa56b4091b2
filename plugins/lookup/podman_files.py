# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lookup podman_files: what the role writes for calico_node_podman_networks."""

from __future__ import annotations

DOCUMENTATION = r"""
name: podman_files
short_description: Return the files of networks of podman
version_added: 0.2.0
description:
  - Returns the files that give podman networks of the node, in the form of the option C(files) of
    M(baremetal.host_routing.node).
  - Fails if a network is wrong, or has an option that the agent would refuse.
author:
  - baremetal.host_routing contributors (@baremetal-host-routing)
options:
  _terms:
    description:
      - The networks, as in C(calico_node_podman_networks).
    type: list
    elements: dict
    required: true
"""

EXAMPLES = r"""
- name: Show the files of a network
  ansible.builtin.debug:
    msg: "{{ query('baremetal.host_routing.podman_files', [{'name': 'calico'}]) }}"
"""

RETURN = r"""
_raw:
  description: The files, with the keys C(path), C(content), C(mode) and C(last).
  type: list
  elements: dict
"""

import typing as t

from ansible.errors import AnsibleError
from ansible.plugins.lookup import LookupBase
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.errors import FleetError
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.nodes import podman_networks


class LookupModule(LookupBase):
    """The lookup podman_files."""

    def run(self, terms: t.Sequence[t.Any], variables: t.Any = None, **options: t.Any) -> list[dict[str, t.Any]]:
        """Return the files; raise AnsibleError if a network is wrong."""
        # Ansible hands a list over as it is, or inside a list of terms.
        networks = list(terms[0]) if len(terms) == 1 and isinstance(terms[0], (list, tuple)) else list(terms)
        try:
            return podman_networks.files(podman_networks.read(networks))
        except FleetError as error:
            raise AnsibleError(str(error)) from error
