# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The documentation of the action etcd_files, which runs on the controller; its code is in plugins/action."""

from __future__ import annotations

DOCUMENTATION = r"""
module: etcd_files
short_description: Keep the authorities, certificates and passwords of the etcd cluster beside the inventory
version_added: 0.2.0
description:
  - Makes what is missing in the folder C(.calico.etcd) beside the inventory, and renews certificates of whose validity
    less than a third is left.
author:
  - baremetal.host_routing contributors (@baremetal-host-routing)
extends_documentation_fragment:
  - baremetal.host_routing.attributes.controller
  - baremetal.host_routing.attributes
  - baremetal.host_routing.attributes.actiongroup_host_routing
  - baremetal.host_routing.internal
options:
  ca_cert:
    description:
      - File with the certificate of an authority of yours, empty for our own.
    type: str
    default: ""
  ca_key:
    description:
      - File with its key.
    type: str
    default: ""
  ca_days:
    description:
      - Days for which a new authority of our own is valid.
    type: int
    default: 3650
  days:
    description:
      - Days for which a new certificate is valid.
    type: int
    default: 365
  renew:
    description:
      - Whether all certificates are made anew.
    type: bool
    default: false
  show:
    description:
      - Whether the files that are written are named.
    type: bool
    default: true
  target:
    description:
      - File on the controller that is made empty, for its owner alone. Nothing else is done then.
    type: str
    default: ""
  revoke:
    description:
      - Node or operator whose certificates are put on the list that gates refuse. Nothing else is done then.
    type: str
    default: ""
  forget:
    description:
      - Operators who left, and whom the cluster has shut out. Their certificates are removed, and nothing else is
        done.
    type: list
    elements: str
    default: []
  succession:
    description:
      - V(begin) makes the authorities' successors, which are trusted and do not sign. V(finish) lets them sign.
    type: str
    choices: ["", begin, finish]
    default: ""
"""

EXAMPLES = r"""
- name: Keep keys and certificates
  baremetal.host_routing.etcd_files:
  run_once: true
  register: calico_etcd_files
"""

RETURN = r"""
folder:
  description: The folder.
  returned: success
  type: str
members:
  description: Address, URLs and the folder of files of each member, by its name.
  returned: success
  type: dict
files:
  description: The files that were written or removed.
  returned: success
  type: list
  elements: str
operators_left:
  description: Operators who are not in C(calico_etcd_operators) any more, and whose certificates were revoked.
  returned: success
  type: list
  elements: str
users_left:
  description: Those of them whose users are to be deleted. The name of another one is that of a node.
  returned: success
  type: list
  elements: str
gate:
  description: The digest of the gate's program, and the path of its archive on the controller.
  returned: success
  type: dict
days_left:
  description: Days for which each certificate is valid, by its file.
  returned: success
  type: dict
"""
