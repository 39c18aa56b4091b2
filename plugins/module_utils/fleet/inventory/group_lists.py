# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lists of groups in an inventory: variables with a prefix (`variables.GROUP_LISTS`) and the name of a group."""

from __future__ import annotations

import re
import typing as t

from ...state.errors import FleetError, did_you_mean
from ..host import Host


def read(
    hosts: t.Sequence[Host], prefix: str, entries: str
) -> t.Iterator[tuple[Host, str, t.Union[list[t.Any], tuple[t.Any, ...]]]]:
    """Yield (host, variable, its list) for each list with this prefix that belongs to a group of the host.

    In a variable's name a group has "_" for "-" and ".". Raise FleetError if a variable is not a list, or is for a
    group that no host is in; `entries` names what to write there.
    """
    own = {host.name: {re.sub(r"[-.]", "_", group) for group in host.groups} for host in hosts}
    known = {group for groups in own.values() for group in groups}
    for host in hosts:
        for variable in sorted(name for name in host.variables if name.startswith(prefix)):
            group, value = variable[len(prefix) :], host.variables[variable]
            if group not in known:
                remedy = did_you_mean(group, known or {"all"}, f"Name it {prefix} and one of")
                raise FleetError(variable, None, f"is for the group {group}, which no node is in.", remedy)
            if group not in own[host.name]:
                continue
            if not isinstance(value, (list, tuple)):
                raise FleetError(variable, value, "is not a list.", f"Write {entries} there, as in {prefix[:-1]}.")
            yield host, variable, value
