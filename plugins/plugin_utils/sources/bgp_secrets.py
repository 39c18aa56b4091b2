# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The packed passwords for a module's parameter, from the host's calico_bgp_secrets.

Passwords leave the inventory here only. The module node gets those that the host's sessions need, and node_info all
that the host has, to compare them.
"""

from __future__ import annotations

import typing as t

from ansible_collections.baremetal.host_routing.plugins.module_utils.bgp import passwords
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.inventory.bgp_checks import bgp_secrets

from . import inventory_source


def packed(task_vars: t.Mapping[str, t.Any], names: t.Optional[t.Collection[str]] = None) -> t.Optional[str]:
    """Return the packed passwords of this task's host, or None if there are none. See bgp/passwords.py.

    `names` limits them to these secrets, as far as there are; None means all. Raise FleetError if calico_bgp_secrets is
    invalid, too large or cannot be evaluated. For no names it is not read.
    """
    if names is not None and not names:
        return None
    host = task_vars["inventory_hostname"]
    own = task_vars["hostvars"][host]
    if bgp_secrets.VARIABLE not in own:
        return None
    value = inventory_source.evaluated(own, host, bgp_secrets.VARIABLE)
    if not value:
        return None
    have = bgp_secrets.read(inventory_source.plain_variable(value, host, bgp_secrets.VARIABLE))
    found = {name: have[name] for name in have if names is None or name in names}
    return passwords.pack(found) if found else None


def named(states: t.Iterable[t.Mapping[str, t.Any]]) -> set[str]:
    """Return the names of the secrets that the sessions of these NodeStates (as dicts) use."""
    return {str(name) for state in states for name in (state.get("bird") or {}).get("secrets", ())}
