# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where resources of policy come from: the inventory, or live policy. The column SOURCE shows it."""

from __future__ import annotations

import dataclasses
import typing as t

from ..render.kind import Cell, Document, HasAsNumber, Kind, View, name_of, namespace_of
from ..sources import Sources

LIVE, INVENTORY, BOTH = "live", "inventory", "inventory, hiding a live one"


def of_node(kind: Kind, sources: Sources) -> t.Optional[Cell]:
    """Return the cell that says where a resource of this node is from; None where live policy is not allowed.

    Raise CommandError if the node has no state.
    """
    from ...policy.model import PolicySet

    state, live = sources.policy_parts()
    if state.policy is None or live is None:
        return None
    values = PolicySet(tiers=live.tiers, policies=live.policies, network_sets=live.network_sets)
    live_state = dataclasses.replace(state, policy=dataclasses.replace(state.policy, policy_set=values))
    own = {*map(_key, kind.documents(View(lambda: state)))}
    others = {*map(_key, kind.documents(View(lambda: live_state)))}

    def cell(document: Document, dummy: HasAsNumber) -> str:
        key = _key(document)
        if key not in own:
            return LIVE
        return BOTH if key in others else INVENTORY

    return cell


def _key(document: Document) -> tuple[str, str]:
    return namespace_of(document), name_of(document)
