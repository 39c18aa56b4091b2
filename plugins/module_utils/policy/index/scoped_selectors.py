# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Selectors with namespaces and service accounts folded in, so that one selector over labels is enough.

An endpoint in a namespace has the namespace's name in the label projectcalico.org/namespace. It also has the labels of
the namespace with the prefix "pcns.", and those of its service account with "pcsa." (libcalico-go,
updateprocessors/rules.go). Functions that fold a selector raise SelectorError if it is not valid.
"""

from __future__ import annotations

import dataclasses
import functools
import typing as t

from ...base import selectors
from ...base.naming import NAMESPACE_LABEL, NAMESPACE_PREFIX, SERVICE_ACCOUNT_PREFIX
from ...resources.errors import Refused
from ...resources.policy_selectors import NamespaceSelector
from ...resources.rules import EntityRule, ServiceAccountMatch
from .labels import SERVICE_ACCOUNT_LABEL

_ALL = selectors.All()


def in_namespace(namespace: str) -> selectors.Expression:
    """Return an expression that matches endpoints and sets in this namespace."""
    return selectors.LabelEquals(NAMESPACE_LABEL, namespace)


def of_namespaces(text: str) -> selectors.Expression:
    """Return an expression that matches endpoints and sets in namespaces that the namespaceSelector `text` selects.

    In `text`, all() means any namespace, and global() means without a namespace. Tests that a missing label passes,
    such as !=, not in and !has, also match endpoints and sets without a namespace.
    """

    def replacement(leaf: selectors.Leaf) -> selectors.Expression:
        if isinstance(leaf, selectors.Global):
            return selectors.Not(selectors.Has(NAMESPACE_LABEL))
        return _prefixed(leaf, NAMESPACE_PREFIX, NAMESPACE_LABEL)

    return selectors.replace_leaves(selectors.parse(text).root, replacement)


class _OfOthers(Exception):
    """The signal that a leaf is not about labels of namespaces."""


def namespaces_of(node: selectors.Expression) -> str:
    """Return a canonical namespaceSelector from which `of_namespaces` makes the expression `node`, "" if there is none.

    There is none if `node` also tests other labels, or if a namespaceSelector cannot be the text: the label "pcns." has
    no name behind the prefix, and a value may be "global(".
    """

    def replacement(leaf: selectors.Leaf) -> selectors.Expression:
        label = leaf.label if isinstance(leaf, (selectors.Has, selectors.Comparison, selectors.Membership)) else ""
        if leaf == selectors.Has(NAMESPACE_LABEL):
            return _ALL
        if not label.startswith(NAMESPACE_PREFIX):
            raise _OfOthers
        return dataclasses.replace(leaf, label=label[len(NAMESPACE_PREFIX) :])  # type: ignore[call-arg]

    if node == selectors.Not(selectors.Has(NAMESPACE_LABEL)):
        return "global()"
    try:
        text = selectors.canonical(selectors.replace_leaves(node, replacement))
        return NamespaceSelector().read(text)
    except (_OfOthers, Refused):
        return ""


def of_service_accounts(text: str) -> selectors.Expression:
    """Return an expression that matches endpoints whose service account the selector `text` selects.

    In `text`, all() and global() mean any service account. Tests that a missing label passes, such as !=, not in and
    !has, also match endpoints without a service account.
    """
    return selectors.replace_leaves(
        selectors.parse(text).root, lambda leaf: _prefixed(leaf, SERVICE_ACCOUNT_PREFIX, SERVICE_ACCOUNT_LABEL)
    )


def of_entity(entity: EntityRule, namespace: str) -> str:
    """Return the canonical selector of a rule's source or destination, with namespaces and service accounts folded in.

    `namespace` is that of the policy, "" for none. In a policy with a namespace, an entity with a selector, notSelector
    or service accounts, but without a namespaceSelector, matches only endpoints and sets of that namespace. The
    notSelector itself is not in the result, which is "" if nothing else selects.
    """
    accounts = entity.serviceAccounts or ServiceAccountMatch()
    bound = bool(entity.selector or entity.notSelector or accounts.selector or accounts.names)
    within = namespace if bound and not entity.namespaceSelector else ""
    return _folded(entity.selector, entity.namespaceSelector, within, accounts.selector, accounts.names)


# It is cached as `selectors.parse` is: rules repeat a few selectors.
@functools.lru_cache(maxsize=1024)
def _folded(selector: str, namespaces: str, within: str, accounts: str, names: tuple[str, ...]) -> str:
    """Return a canonical selector of all parts that are not empty, "" if all are. `within` is one namespace."""
    parts = []
    if namespaces:
        parts.append(of_namespaces(namespaces))
    if within:
        parts.append(in_namespace(within))
    if accounts:
        parts.append(of_service_accounts(accounts))
    if names:
        parts.append(selectors.LabelIn(SERVICE_ACCOUNT_LABEL, tuple(sorted(set(names)))))
    if selector:
        parts.append(selectors.parse(selector).root)
    return all_of(parts) if parts else ""


def all_of(parts: t.Sequence[selectors.Expression]) -> str:
    """Return the canonical text of the conjunction of `parts` without those that are all(); "all()" if none is left."""
    needed = [part for part in parts if part != _ALL]
    if not needed:
        return selectors.canonical(_ALL)
    return selectors.canonical(needed[0] if len(needed) == 1 else selectors.And(tuple(needed)))


def _prefixed(leaf: selectors.Leaf, prefix: str, label_of_all: str) -> selectors.Expression:
    if isinstance(leaf, (selectors.Has, selectors.Comparison, selectors.Membership)):
        return dataclasses.replace(leaf, label=prefix + leaf.label)
    return selectors.Has(label_of_all)
