# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations


class ModuleDocFragment:
    """What each module says of itself under `attributes:`.

    Every module extends `baremetal.host_routing.attributes` and
    `baremetal.host_routing.attributes.actiongroup_host_routing`, and with them one that states `support`: `.changing`
    where it changes the node, `.info_module` where it only looks, and `.controller` where there is an action alone.
    If two fragments have the same attribute, the first one counts. So `.controller` is listed before
    `baremetal.host_routing.attributes`.
    """

    DOCUMENTATION = r"""
options: {}
attributes:
  check_mode:
    description: Can run in C(check_mode) and return changed status prediction without modifying target.
  diff_mode:
    description: Returns details on what has changed, or needs changing in C(check_mode), when in diff mode.
  idempotent:
    description:
      - When run twice in a row outside check mode, with the same arguments, the second invocation indicates no change.
      - This assumes that the system controlled or queried by the module has not changed in a relevant way.
  platform:
    description: Target OS/families that can be operated against.
    support: full
    platforms: debian
"""

    ACTIONGROUP_HOST_ROUTING = r"""
options: {}
attributes:
  action_group:
    description: Use C(group/baremetal.host_routing.host_routing) in C(module_defaults) to set its defaults.
    support: full
    membership:
      - baremetal.host_routing.host_routing
"""

    INFO_MODULE = r"""
options: {}
attributes:
  check_mode:
    support: full
    details:
      - This action does not modify state.
  diff_mode:
    support: N/A
    details:
      - This action does not modify state.
  idempotent:
    support: full
    details:
      - This action does not modify state.
"""

    CHANGING = r"""
options: {}
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
  idempotent:
    support: full
"""

    CONTROLLER = r"""
options: {}
attributes:
  check_mode:
    support: full
  diff_mode:
    support: none
  idempotent:
    support: full
  platform:
    support: full
    platforms: posix
"""
