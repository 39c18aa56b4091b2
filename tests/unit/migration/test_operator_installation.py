# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An Installation of the operator beside the pools that it asks for: each pool is one, and the rest is taken."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.inventory.documents.installation import (
    installation,
)

from tests.unit.migration.test_conversion import imported, node, remarks

CIDR = "192.168.0.0/16"
ASKED = {"cidr": CIDR, "encapsulation": "VXLANCrossSubnet", "natOutgoing": "Enabled", "nodeSelector": "all()"}
#: What the operator has made of it, as `calicoctl get ippool -o yaml` prints it.
POOL: dict[str, t.Any] = {
    "apiVersion": "projectcalico.org/v3",
    "kind": "IPPool",
    "metadata": {"name": "default-ipv4-ippool", "uid": "0f", "resourceVersion": "7"},
    "spec": {
        "allowedUses": ["Workload", "Tunnel"], "blockSize": 26, "cidr": CIDR, "ipipMode": "Never",
        "natOutgoing": True, "nodeSelector": "all()", "vxlanMode": "CrossSubnet", "assignmentMode": "Automatic",
    },
}  # fmt: skip
FELIX = {"apiVersion": "projectcalico.org/v3", "kind": "FelixConfiguration", "metadata": {"name": "default"}}


def operator(**network: t.Any) -> dict[str, t.Any]:
    return {
        "apiVersion": "operator.tigera.io/v1",
        "kind": "Installation",
        "metadata": {"name": "default"},
        "spec": {"calicoNetwork": network},
    }


def taken(*documents: t.Any) -> dict[str, dict[str, t.Any]]:
    """Return the specs of the documents that an import takes, by kind and name, without nodes."""
    found = imported(node("n"), *documents).documents
    return {f"{one['kind']} {one['metadata']['name']}": one.get("spec") or {} for one in found if one["kind"] != "Node"}


def said(*documents: t.Any) -> list[str]:
    return [one for one in remarks(imported(node("n"), *documents)) if one.startswith("Installation")]


@pytest.mark.parametrize("order", [1, -1])
def test_a_pool_that_stands_in_both_is_one_pool(order: int) -> None:
    both = [POOL, operator(ipPools=[ASKED], bgp="Disabled", linuxDataplane="Iptables")][::order]
    assert taken(*both) == {
        "IPPool default-ipv4-ippool": POOL["spec"],
        "Installation default": {"calicoNetwork": {"bgp": "Disabled", "linuxDataplane": "Iptables"}},
    }
    assert said(*both) == []


def test_a_pool_that_differs_is_named_and_taken_as_it_is() -> None:
    asked = {**ASKED, "natOutgoing": "Disabled", "blockSize": 24, "name": "other"}
    found = said(POOL, operator(ipPools=[asked], bgp="Enabled"))
    assert found == [
        "Installation default asks for the pool default-ipv4-ippool with blockSize 24 (there 26), natOutgoing false "
        "(there true): the IPPool is taken as it is. (x.yml:1)"
    ]
    assert taken(POOL, operator(ipPools=[asked]))["IPPool default-ipv4-ippool"] == POOL["spec"]


def test_a_pool_that_no_document_has_stays_with_its_name() -> None:
    """The operator would make it. Its name depends on the pools beside it in the Installation."""
    more = {"cidr": "10.7.0.0/16", "disableNewAllocations": True}
    documents = [POOL, operator(ipPools=[ASKED, {"cidr": "10.8.0.0/16"}, more])]
    kept = taken(*documents)["Installation default"]["calicoNetwork"]["ipPools"]
    assert [(one["name"], one["cidr"]) for one in kept] == [
        ("10.8.0.0-16", "10.8.0.0/16"), ("10.7.0.0-16", "10.7.0.0/16"),
    ]  # fmt: skip
    assert kept[1]["disableNewAllocations"] is True
    assert said(*documents)[0].startswith("Installation default asks for the pool 10.8.0.0-16, which no other document")
    assert [pool.name for pool in installation(operator(ipPools=kept)).pools] == ["10.8.0.0-16", "10.7.0.0-16"]


def test_the_mtu_becomes_that_of_the_tunnel() -> None:
    """Without the pools beside it, the MTU of an Installation would mean another one of the underlay."""
    whole = operator(ipPools=[ASKED], mtu=1450)
    assert installation(whole).values["calico_underlay_mtu"][1] == 1500
    assert taken(POOL, whole) == {
        "IPPool default-ipv4-ippool": POOL["spec"], "FelixConfiguration default": {"vxlanMTU": 1450},
    }  # fmt: skip
    assert said(POOL, whole) == [
        "Installation default has the MTU 1450, which is FelixConfiguration default's vxlanMTU now. (x.yml:1)"
    ]
    felix = {**FELIX, "spec": {"ipv6Support": True}}
    assert taken(POOL, felix, whole)["FelixConfiguration default"] == {"ipv6Support": True, "vxlanMTU": 1450}
    direct = {**POOL, "spec": {**POOL["spec"], "vxlanMode": "Never"}}
    assert taken(direct, operator(ipPools=[{**ASKED, "encapsulation": "None"}], mtu=1500)) == {
        "IPPool default-ipv4-ippool": direct["spec"],
        "Installation default": {"calicoNetwork": {"mtu": 1500}},
    }


@pytest.mark.parametrize(("there", "differs"), [(1450, False), (1400, True)])
def test_an_mtu_that_stands_in_two_places(there: int, differs: bool) -> None:
    documents = [POOL, {**FELIX, "spec": {"vxlanMTU": there}}, operator(ipPools=[ASKED], mtu=1450)]
    assert taken(*documents)["FelixConfiguration default"] == {"vxlanMTU": there}
    text = "has the MTU 1450, but FelixConfiguration default has vxlanMTU 1400, which is taken."
    assert any(text in one for one in said(*documents)) == differs


def test_without_pools_the_installation_is_taken_whole() -> None:
    whole = operator(ipPools=[ASKED], mtu=1450, bgp="Disabled")
    assert taken(whole) == {"Installation default": whole["spec"]}


@pytest.mark.parametrize(
    ("network", "text"),
    [
        ({"ipPools": "x"}, "is left out: spec.calicoNetwork.ipPools 'x' is not a list."),
        ({"ipPools": [7]}, "is left out: spec.calicoNetwork.ipPools[0] 7 is not a mapping."),
        ({"ipPools": [{"evil": 1}]}, "is left out: spec.calicoNetwork.ipPools[0].evil is not a field here."),
        ({"ipPools": [{"cidr": "x"}]}, "asks for a pool that is left out: "),
        ({"ipPools": [ASKED], "mtu": 10**9}, "has the MTU 1000000000, which no device has"),
        ({"ipPools": [{**ASKED, "name": "{{ x }}"}] * 3, "bgp": "Disabled"}, "asks for a pool that is left out: "),
    ],
)
def test_what_cannot_be_read_is_said(network: dict[str, t.Any], text: str) -> None:
    assert any(one.startswith(f"Installation default {text}") for one in said(POOL, operator(**network))), said(
        POOL, operator(**network)
    )
    assert taken(POOL, operator(**network))["IPPool default-ipv4-ippool"] == POOL["spec"]


def test_a_spec_that_is_no_mapping() -> None:
    for spec in ("x", [1], {"calicoNetwork": [1]}):
        documents = [POOL, {**operator(), "spec": spec}]
        assert list(taken(*documents)) == ["IPPool default-ipv4-ippool"] and len(said(*documents)) == 1
