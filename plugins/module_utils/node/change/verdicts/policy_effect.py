# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The effect of another policy on a node: what changes in its policy, rules and sets, its own ways and connections.

It takes seconds on a large node, so that it comes in parts. Each is a table for JSON with some fields of ChangeEffect;
`held_back` says which of the node's own ways would be cut. Nothing here changes anything.
"""

from __future__ import annotations

import typing as t

from ....dataplane.kernel.port import Connection, Kernel
from ....datastore.live.change_effect import MOST_FLOWS, MOST_OBJECTS, ChangedObject, ChangeEffect, DeniedFlow
from ....policy.index import policy_change
from ....policy.index.policy_change import Concerned
from ....state.node_policy_tables import all_endpoints
from ....state.node_state import IptablesTable, NodeState
from ....state.other_endpoints import OtherEndpoints
from . import denied_flows

Json = dict[str, t.Any]


def parts(
    kernel: Kernel,
    before: NodeState,
    after: NodeState,
    compile: t.Callable[[NodeState], NodeState],
    others: OtherEndpoints,
    cut_by: t.Callable[[NodeState], str],
) -> t.Iterator[Json]:
    """Yield what the policy of `after` changes on a node that has that of `before`. Both have all of its workloads.

    `compile` returns a state with the rules and sets of its policy. `cut_by` says which of the node's own ways a state
    would cut, "" for none. Raise KernelError, SelectorError, or what `compile` raises.
    """
    yield _objects(before, after)
    cut = cut_by(after)
    if cut:
        yield {"held_back": cut}
    chains, members = rule_changes(compile(before), compile(after))
    yield {"chains": chains, "members": members}
    yield _flows(kernel, before, after, others)


def effect_of(found: t.Iterable[Json], problem: str) -> tuple[ChangeEffect, str]:
    """Return the effect that parts make, and which own ways would be cut. `problem` is why some may be missing."""
    together: Json = {}
    for part in found:
        together.update(part)
    cut = str(together.pop("held_back", ""))
    together["objects"] = tuple(ChangedObject(*one) for one in together.get("objects", ()))
    together["flows"] = tuple(DeniedFlow(*one) for one in together.get("flows", ()))
    return ChangeEffect(**together, unknown=problem), cut


def rule_changes(before: NodeState, after: NodeState) -> tuple[int, int]:
    """Return how many chains of iptables, and how many members of IP sets, differ between two compiled states."""
    was, will = _chains(before.iptables), _chains(after.iptables)
    chains = sum(was.get(key) != will.get(key) for key in was.keys() | will.keys())
    old, new = ({one.name: one for one in state.ipsets} for state in (before, after))
    members = 0
    for name in old.keys() | new.keys():
        one, other = old.get(name), new.get(name)
        if one is not other and one != other:
            members += len(set(one.members if one else ()) ^ set(other.members if other else ()))
    return chains, members


def _chains(tables: t.Iterable[IptablesTable]) -> dict[tuple[int, str, str], tuple[str, ...]]:
    return {(table.family, table.name, name): rules for table in tables for name, rules in table.chains.items()}


def _objects(before: NodeState, after: NodeState) -> Json:
    """Return which objects change, and the endpoints of this node that they concern."""
    if before.policy is None or after.policy is None:
        return {}
    own = [one for one in all_endpoints(after, after.policy) if one.node == after.node]
    concerned: set[Concerned] = set()
    count = 0
    objects: list[list[t.Any]] = []
    for change in policy_change.changes(before.policy.policy_set, after.policy.policy_set, own):
        count += 1
        concerned |= change.endpoints
        if len(objects) < MOST_OBJECTS:
            objects.append([change.kind, change.name, change.action, len(change.endpoints)])
    return {"objects": objects, "count_objects": count, "endpoints": len(concerned)}


def _flows(kernel: Kernel, before: NodeState, after: NodeState, others: OtherEndpoints) -> Json:
    """Return how many connections would be denied that are not yet, and the first of them."""
    count = 0
    flows: list[list[t.Any]] = []
    known = others.endpoints(after.node)
    for connection, by in denied_flows.newly_denied(kernel, before, after, known, others.live):
        count += 1
        if len(flows) < MOST_FLOWS:
            flows.append(list(_flow(connection, by)))
    cut = after.policy is not None and after.policy.settings.cut_denied_flows
    return {"denied": count, "cut": cut, "flows": flows}


def _flow(connection: Connection, by: str) -> DeniedFlow:
    flow = connection.flow
    return DeniedFlow(flow.protocol, flow.source, flow.source_port, flow.destination, flow.destination_port, by)
