# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The labels that a selector needs at least, so that an index can find candidates without testing every item."""

from __future__ import annotations

import typing as t

from ..base import selectors

#: A label and the value that it must have, or None for any value.
Demand = tuple[str, t.Optional[str]]

#: Alternatives: at least one must be met. The empty set can never be met, and None demands nothing.
Demands = t.Optional[frozenset[Demand]]

# The cost of a demand with any value; one with a given value costs 1. Many items have a label, few with a given value.
_COST_OF_ANY_VALUE = 100


def demands(selector: selectors.Selector) -> Demands:
    """Return (label, value) pairs such that every set of labels that `selector` matches has at least one of them.

    A value of None is any value. The empty set means that the selector can never match, None that no such pairs are
    known. The function is not recursive, so that deep selectors do not exhaust the stack.
    """
    # As in a stack machine, results of operands are pushed before the node that consumes them is processed.
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
            # A negated "and" needs only one operand that does not match, a negated "or" needs that none matches.
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
