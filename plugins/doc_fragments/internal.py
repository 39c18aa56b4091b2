# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations


class ModuleDocFragment:
    """The note in the documentation of modules that only the roles and playbooks of this collection call."""

    # A note, not a part of the description: Ansible sorts descriptions that it merges.
    DOCUMENTATION = r"""
options: {}
notes:
  - This module is internal. Roles and playbooks of this collection call it, and its options may change in any release.
"""
