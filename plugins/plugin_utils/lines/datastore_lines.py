# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lines about the datastore: what a run changes there, and what is left of nodes that went."""

from __future__ import annotations

import typing as t

from ansible_collections.baremetal.host_routing.plugins.module_utils.base.typed_json import shown
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.change import Change, change_lines

from ..datastore.fleet_publication import Publication

#: The most names that a warning has; the others are counted.
_NAMED = 8


def plan(changes: t.Sequence[Change]) -> list[str]:
    """Return one line for each change of users, roles and keys."""
    return change_lines(changes)


def prepared(done: Publication) -> str:
    """Return the changes as text for people, below a heading with their number and etcd's release."""
    count = f"{len(done.changes)} change{'' if len(done.changes) == 1 else 's'}"
    heading = f"{f'datastore  {count}':<58} etcd {shown(done.version)}"
    return "\n".join([heading, *(f"  {line}" for line in plan(done.changes))]) + "\n"


def superusers(names: t.Sequence[str]) -> list[str]:
    """Return one warning about users that may do everything in a cluster of the fleet's own, [] for none."""
    if not names:
        return []
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return [
        f"The datastore has users with the role root that no run made: {', '.join(map(shown, names[:_NAMED]))}{more}. "
        "If you did not make them, look into who did, and remove them (etcdctl user delete)."
    ]


def operators_left(names: t.Sequence[str], own: bool) -> list[str]:
    """Return one warning about operators whose users were deleted, [] for none; `own`: role calico_etcd has members."""
    if not names:
        return []
    how = (
        "Run playbooks/etcd.yml: it restarts the members, which ends"
        if own
        else "Restart the members of your cluster one by one, which ends"
    )
    return [
        f"The users of operators who are not in calico_etcd_operators were deleted: {', '.join(map(shown, names))}. "
        f"{how} watches that are still open."
    ]


def operators_without_certificate(names: t.Sequence[str]) -> list[str]:
    """Return one warning about operators for whom playbooks/etcd.yml has made no certificate yet, [] for none."""
    if not names:
        return []
    return [
        f"Operators have no certificate yet, so they get no files: {', '.join(map(shown, names))}. Run "
        "playbooks/etcd.yml, which makes it and lets their addresses in, then playbooks/site.yml again."
    ]


def left_behind(counts: t.Mapping[str, int]) -> list[str]:
    """Return one warning about keys that nodes wrote which the inventory does not have, [] for none."""
    if not counts:
        return []
    names = [f"{shown(name)} ({count})" for name, count in sorted(counts.items())[:_NAMED]]
    more = f" and {len(counts) - _NAMED} more" if len(counts) > _NAMED else ""
    return [
        f"The datastore has keys of nodes that the inventory does not have: {', '.join(names)}{more}. They count for "
        "nothing, because such a node has no blocks. To remove them, put the node back into the inventory and run "
        "playbooks/remove_node.yml with -e unreachable=true."
    ]
