# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The kinds of policy resources that `get` knows, made from this node's part of the fleet's policy.

The code that reads resources is imported by the functions that need it: the table of kinds is read by every `get`.
A node has selectors in canonical form, and only those network sets and other nodes' HostEndpoints that a rule selects.
"""

from __future__ import annotations

import typing as t

from .kind import Cell, Document, HasAsNumber, Kind, View, name_of, namespace_of, spec_field, spec_list

if t.TYPE_CHECKING:
    from ...policy.model import PolicySet
    from ...resources.api import Resource

_WHERE = "calico_policies or calico_policy_files (group_vars), calico_policies_<group> or calico_node_policies"
_V = t.TypeVar("_V")


def _documents(values: t.Iterable[_V], to_resource: t.Callable[[_V], Resource]) -> list[Document]:
    """Return the documents of `values`, sorted by namespace and name."""
    found = [to_resource(value).to_document() for value in values]
    return sorted(found, key=lambda document: (document["metadata"].get("namespace", ""), name_of(document)))


def _policy_set(view: View) -> PolicySet:
    from ...policy.model import PolicySet

    policy = view.state().policy
    return policy.policy_set if policy else PolicySet()


def _policies(kind: str, staged: bool) -> t.Callable[[View], list[Document]]:
    def documents(view: View) -> list[Document]:
        from ...policy.documents import to_resources

        chosen = (one for one in _policy_set(view).policies if (one.kind, one.staged) == (kind, staged))
        return _documents(chosen, to_resources.policy)

    return documents


def _network_sets(namespaced: bool) -> t.Callable[[View], list[Document]]:
    def documents(view: View) -> list[Document]:
        from ...policy.documents import to_resources

        chosen = (one for one in _policy_set(view).network_sets if bool(one.namespace) is namespaced)
        return _documents(chosen, to_resources.network_set)

    return documents


def _host_endpoints(view: View) -> list[Document]:
    from ...policy.documents import to_resources
    from ...policy.model import HOST_ENDPOINT

    policy = view.state().policy
    endpoints = policy.endpoints if policy else ()
    return _documents((one for one in endpoints if one.kind == HOST_ENDPOINT), to_resources.host_endpoint)


def _tiers(view: View) -> list[Document]:
    from ...policy.documents import to_resources

    return [document for tier in _policy_set(view).tiers for document in _documents([tier], to_resources.tier)]


def _profiles(view: View) -> list[Document]:
    from ...policy.documents import to_resources

    return _documents(_policy_set(view).profiles, to_resources.profile)


def _order(document: Document, dummy: HasAsNumber) -> str:
    """Return the order as Go prints a float64 with all its digits: 100, 1e+06, 1.000001e+06; "" for none."""
    order = document["spec"].get("order")
    if order is None:
        return ""
    import decimal  # few commands show an order

    number = decimal.Decimal(repr(float(order))).normalize()
    power = number.adjusted()
    if not number or -5 < power < 6:
        return f"{number:f}"
    return f"{number.scaleb(-power):f}e{power:+03d}"


def _labels(document: Document, dummy: HasAsNumber) -> str:
    labels = document["spec"].get("labelsToApply", {})
    return ",".join(f"{key}={value}" for key, value in sorted(labels.items()))


_OF_POLICIES: t.Mapping[str, Cell] = {
    "NAME": name_of,
    "TIER": spec_field("tier"),
    "ORDER": _order,
    "SELECTOR": spec_field("selector"),
}


_ONLY_CUSTOM = ("NAMESPACE",)


def _namespaced(columns: t.Mapping[str, Cell]) -> t.Mapping[str, Cell]:
    return {**columns, "NAMESPACE": namespace_of}


def _policy_kind(kind: str, names: tuple[str, ...], namespaced: bool, staged: bool) -> Kind:
    name = f"Staged{kind}" if staged else kind
    where = f"{_WHERE}; calico_staged_policies" if staged else _WHERE
    columns, custom = (_namespaced(_OF_POLICIES), _ONLY_CUSTOM) if namespaced else (_OF_POLICIES, ())
    return Kind(name, names, columns, ("NAME", "TIER"), _policies(kind, staged), where, namespaced, custom)


POLICY_KINDS = (
    _policy_kind(
        "GlobalNetworkPolicy",
        ("globalnetworkpolicies", "globalnetworkpolicy", "gnp", "gnps"),
        namespaced=False,
        staged=False,
    ),
    _policy_kind(
        "NetworkPolicy",
        ("networkpolicies", "networkpolicy", "np", "nps", "policy", "policies", "pol", "pols"),
        namespaced=True,
        staged=False,
    ),
    _policy_kind(
        "GlobalNetworkPolicy",
        ("stagedglobalnetworkpolicies", "stagedglobalnetworkpolicy", "sgnp", "sgnps"),
        namespaced=False,
        staged=True,
    ),
    _policy_kind(
        "NetworkPolicy",
        (
            "stagednetworkpolicies",
            "stagednetworkpolicy",
            "snp",
            "snps",
            "stagedpolicy",
            "stagedpolicies",
            "spol",
            "spols",
        ),
        namespaced=True,
        staged=True,
    ),
    Kind("Tier", ("tiers", "tier"), {"NAME": name_of, "ORDER": _order}, ("NAME", "ORDER"), _tiers, _WHERE),
    Kind(
        "Profile",
        ("profiles", "profile", "pro", "pros"),
        {"NAME": name_of, "LABELS": _labels},
        ("NAME",),
        _profiles,
        _WHERE,
    ),
    Kind(
        "GlobalNetworkSet",
        ("globalnetworksets", "globalnetworkset", "gnetset", "gnetsets"),
        {"NAME": name_of, "NETS": spec_list("nets")},
        ("NAME",),
        _network_sets(False),
        _WHERE,
    ),
    Kind(
        "NetworkSet",
        ("networksets", "networkset", "netset", "netsets"),
        _namespaced({"NAME": name_of, "NETS": spec_list("nets")}),
        ("NAME",),
        _network_sets(True),
        _WHERE,
        namespaced=True,
        custom=_ONLY_CUSTOM,
    ),
    Kind(
        "HostEndpoint",
        ("hostendpoints", "hostendpoint", "hep", "heps"),
        {
            "NAME": name_of,
            "NODE": spec_field("node"),
            "INTERFACE": spec_field("interfaceName"),
            "IPS": spec_list("expectedIPs"),
            "PROFILES": spec_list("profiles"),
        },
        ("NAME", "NODE"),
        _host_endpoints,
        _WHERE,
    ),
)
