# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a selector demands of labels at the least, so that an index finds who may match without asking everybody."""

from __future__ import annotations

import typing as t

from ..base import selectors

#: A label with a value, or (None) with any.
Demand = tuple[str, t.Optional[str]]

#: Any of these must be met; the empty set can never be, and None demands nothing.
Demands = t.Optional[frozenset[Demand]]

# Many things have a label, few have it with a given value.
_COST_OF_ANY_VALUE = 100


def demands(selector: selectors.Selector) -> Demands:
    """What holds, one of it at least, wherever `selector` matches. Works without recursion, as selectors do."""
    # Operands stand before what they are part of, as in a stack machine.
    waiting: list[tuple[selectors.Expression, bool, bool]] = [(selector.root, False, False)]
    done: list[Demands] = []
    while waiting:
        node, negated, visited = waiting.pop()
        if isinstance(node, selectors.Not):
            waiting.append((node.operand, not negated, False))
        elif isinstance(node, (selectors.And, selectors.Or)):
            if not visited:
                waiting.append((node, negated, True))
                waiting.extend((operand, negated, False) for operand in node.operands)
                continue
            operands = done[-len(node.operands) :]
            del done[-len(node.operands) :]
            # Of a negated "and" one operand must fail to match (De Morgan).
            all_must_hold = isinstance(node, selectors.And) != negated
            done.append(_cheapest(operands) if all_must_hold else _any(operands))
        elif isinstance(node, selectors.Leaf):
            done.append(_of_leaf(node, negated))
    return done[0]


def _of_leaf(leaf: selectors.Leaf, negated: bool) -> Demands:
    if isinstance(leaf, selectors.LabelNotEquals if negated else selectors.LabelEquals):
        return frozenset({(leaf.label, leaf.value)})
    if isinstance(leaf, selectors.LabelNotIn if negated else selectors.LabelIn):
        return frozenset((leaf.label, value) for value in leaf.values)
    if negated:
        return frozenset() if isinstance(leaf, (selectors.All, selectors.Global)) else None
    if isinstance(leaf, (selectors.Has, selectors.LabelContains, selectors.LabelStartsWith, selectors.LabelEndsWith)):
        return frozenset({(leaf.label, None)})
    return None


def _cheapest(operands: t.Sequence[Demands]) -> Demands:
    known = [operand for operand in operands if operand is not None]
    return min(known, key=_cost) if known else None


def _cost(demanded: frozenset[Demand]) -> int:
    return sum(_COST_OF_ANY_VALUE if value is None else 1 for _label, value in demanded)


def _any(operands: t.Sequence[Demands]) -> Demands:
    together: set[Demand] = set()
    for operand in operands:
        if operand is None:
            return None
        together |= operand
    return frozenset(together)
