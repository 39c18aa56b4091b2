# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The documentation of the action etcd_status, which runs on the controller; its code is in plugins/action."""

from __future__ import annotations

DOCUMENTATION = r"""
module: etcd_status
short_description: Print the members of the etcd cluster
version_added: 0.2.0
description:
  - Looks at what all hosts registered for M(baremetal.host_routing.etcd_member_info), and prints one table or JSON.
author:
  - baremetal.host_routing contributors (@baremetal-host-routing)
extends_documentation_fragment:
  - baremetal.host_routing.attributes.controller
  - baremetal.host_routing.attributes
  - baremetal.host_routing.attributes.actiongroup_host_routing
  - baremetal.host_routing.internal
options:
  seen:
    description:
      - Name of the variable that each host registered.
    type: str
    required: true
  days_left:
    description:
      - Days for which each certificate is valid, by its file.
    type: dict
    required: true
  output:
    description:
      - V(text) is a table, V(json) is for other programs.
    type: str
    choices: [text, json]
    default: text
  strict:
    description:
      - Whether the task fails if something is wrong.
    type: bool
    default: false
"""

EXAMPLES = r"""
- name: Show the members
  baremetal.host_routing.etcd_status:
    seen: calico_etcd_seen
    days_left: "{{ calico_etcd_files.days_left }}"
  run_once: true
"""

RETURN = r"""
good:
  description: Whether nothing is wrong.
  returned: always
  type: bool
problems:
  description: Sentences about what is wrong.
  returned: always
  type: list
  elements: str
"""
