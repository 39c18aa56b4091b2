# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The documentation of the action run_check, which runs on the controller; its code is in plugins/action."""

from __future__ import annotations

DOCUMENTATION = r"""
module: run_check
short_description: Check what a run is asked before it contacts a host
version_added: 0.2.0
description:
  - Checks the variables of the roles in the play and on all its hosts, as C(meta/argument_specs.yml) describes them,
    and the ranges of numbers. An error is one message for the whole fleet, whereas Ansible itself fails on each host.
  - If there are several errors, all are printed before the message, and those of the inventory that a run refuses among
    them. At most 20 of a kind are printed, and the others are counted.
  - The role P(baremetal.host_routing.calico_node#role) does this by itself, before Ansible checks its arguments.
  - Connects to no host and changes nothing.
author:
  - baremetal.host_routing contributors (@baremetal-host-routing)
extends_documentation_fragment:
  - baremetal.host_routing.attributes.controller
  - baremetal.host_routing.attributes
  - baremetal.host_routing.attributes.actiongroup_host_routing
  - baremetal.host_routing.internal
options:
  pool:
    description:
      - Name of a pool that the inventory must have.
    type: str
  mode:
    description:
      - A mode that a pool can have.
    type: str
  report:
    description:
      - File on the controller that the run is to write a report to, V("") for none. Its folder has to exist.
    type: str
    default: ""
"""

EXAMPLES = r"""
- name: Check the request
  baremetal.host_routing.run_check:
    pool: default-ipv4-ippool
    mode: direct
  run_once: true
"""

RETURN = r"""#"""
