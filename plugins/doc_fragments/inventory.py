# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations


class ModuleDocFragment:
    """The options of modules about the resources of an inventory, which may be another one than the play's."""

    DOCUMENTATION = r"""
options:
  inventory:
    description:
      - The file or folder of the inventory. It need not be the one of the play.
      - A relative path is relative to the current folder.
      - One of O(inventory) and O(datastore) is required.
    type: path
  datastore:
    description:
      - The C(calicoctl.cfg) of an operator, with the way to the fleet's datastore. Live policy is meant then, instead
        of an inventory.
    type: path
  vault_password_file:
    description:
      - The file with the password of the inventory's encrypted files.
    type: path
"""
