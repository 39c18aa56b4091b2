# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a run publishes of an inventory with live policy, and what it says about live documents."""

from __future__ import annotations

import dataclasses
import json
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore import keys
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.keys import DocumentKey
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.live import live_documents
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.publication import live_policy
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.publication.live_policy import (
    NO_REVIEW,
    InventoryPolicy,
    LiveReview,
    OversizedDocument,
    TierInUse,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy import model
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.model import (
    Failsafe,
    Policy,
    PolicyNetworkSet,
    PolicyTier,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.policy_state import PolicySettings

SECURITY = PolicyTier("security", 100)
WEB = Policy("default/web", kind="NetworkPolicy", tier="security")
OFFICES = PolicyNetworkSet("offices", nets=("192.0.2.0/24",))
SETTINGS = PolicySettings(live=True, failsafe_inbound=(Failsafe("tcp", 22, "10.0.0.0/8"),), failsafe_outbound=())
LIVE_WEB = DocumentKey("NetworkPolicy", "default", "web")
LIVE_TIER = DocumentKey("Tier", "", "security")


def inventory(
    tiers: t.Sequence[PolicyTier] = (), policies: t.Sequence[Policy] = (), sets: t.Sequence[PolicyNetworkSet] = ()
) -> InventoryPolicy:
    return live_policy.of_inventory(model.policy_set(tiers, policies, (), sets), SETTINGS)


WHOLE = inventory([SECURITY], [WEB], [OFFICES])
EMPTY = inventory()


def document(key: DocumentKey, **spec: t.Any) -> dict[DocumentKey, bytes]:
    metadata = {"name": key.name, **({"namespace": key.namespace} if key.namespace else {})}
    body = {"apiVersion": "projectcalico.org/v3", "kind": key.kind, "metadata": metadata, "spec": spec}
    return {key: live_documents.encode(body)}


def lines(review: LiveReview) -> list[str]:
    return [change.line() for change in review.changes]


def test_the_inventorys_documents_are_published_in_the_form_of_live_ones() -> None:
    assert sorted(WHOLE.values) == [
        "/host-routing/v1/inventory/globalnetworksets/offices",
        "/host-routing/v1/inventory/networkpolicies/default/web",
        "/host-routing/v1/inventory/tiers/default",
        "/host-routing/v1/inventory/tiers/security",
        "/host-routing/v1/settings/fleet",
    ]
    for text, value in WHOLE.values.items():
        key = keys.parse_inventory_key(text)
        if key is not None:
            resource = live_documents.decode(key, value)
            assert live_documents.encode(resource.to_document()) == value
    settings = json.loads(WHOLE.values[keys.FLEET_SETTINGS])
    assert settings == {
        "policy": True,
        "live": True,
        "failsafe_inbound": [{"protocol": "tcp", "port": 22, "net": "10.0.0.0/8"}],
        "failsafe_outbound": [],
        "release": "0.2.0",
    }


def test_a_document_that_is_too_large_is_named() -> None:
    """Readers refuse live documents of that size, so nothing could be compared with it."""
    nets = tuple(f"10.{one}.{two}.0/24" for one in range(64) for two in range(256))
    with pytest.raises(OversizedDocument) as error:
        inventory(sets=[PolicyNetworkSet("all", nets=nets)])
    assert (error.value.name, error.value.size > 256 << 10) == ("GlobalNetworkSet all", True)


def test_nothing_is_said_where_nothing_changes() -> None:
    live = {**document(LIVE_WEB, tier="security"), **document(LIVE_TIER, order=1)}
    assert live_policy.review({}, None, live) == NO_REVIEW
    assert live_policy.review({}, WHOLE, {}) == NO_REVIEW
    assert live_policy.review(WHOLE.values, WHOLE, live) == NO_REVIEW
    assert live_policy.review(EMPTY.values, EMPTY, live) == NO_REVIEW


def test_documents_come_into_force_or_lose_their_effect_by_the_inventory() -> None:
    live = {
        **document(LIVE_WEB, tier="security"),
        **document(LIVE_TIER, order=1),
        **document(DocumentKey("GlobalNetworkSet", "", "offices"), nets=[]),
        **document(DocumentKey("StagedNetworkPolicy", "default", "web"), tier="security"),
        **document(DocumentKey("GlobalNetworkPolicy", "", "other")),
        **document(DocumentKey("Tier", "", "default"), order=5),
    }
    assert lines(live_policy.review(WHOLE.values, EMPTY, live)) == [
        f"~ live     {name}    comes into force: the inventory has none of this name any more"
        for name in ("NetworkPolicy default/web", "Tier security", "GlobalNetworkSet offices")
    ]
    assert lines(live_policy.review(EMPTY.values, WHOLE, live)) == [
        f"~ live     {name}    has no effect any more: the inventory's is in force in its place"
        for name in ("NetworkPolicy default/web", "Tier security", "GlobalNetworkSet offices")
    ]


def test_live_policy_is_switched_on_and_off() -> None:
    live = {**document(LIVE_TIER), **document(DocumentKey("Tier", "", "b"))}
    assert lines(live_policy.review({}, EMPTY, live)) == ["+ live     2 live documents    come into force"]
    assert lines(live_policy.review(EMPTY.values, None, document(LIVE_TIER))) == [
        "- live     1 live document    has no effect any more"
    ]


def test_a_tier_that_live_documents_use_stays_in_the_inventory() -> None:
    users = {}
    for number in range(10):
        users.update(document(DocumentKey("GlobalNetworkPolicy", "", f"p{number}"), tier="security"))
    with pytest.raises(TierInUse) as error:
        live_policy.review(WHOLE.values, EMPTY, {**users, **document(LIVE_WEB, tier="security")})
    assert str(error.value) == (
        "The inventory no longer has the Tier security, and live documents are in it: "
        f"{', '.join(f'GlobalNetworkPolicy p{number}' for number in range(8))} and 3 more. Keep it, move them to "
        "another tier or delete them (calicoctl apply, calicoctl delete), or write a live Tier security first."
    )
    with_tier = live_policy.review(WHOLE.values, EMPTY, {**users, **document(LIVE_TIER)})
    assert lines(with_tier) == [
        "~ live     Tier security    comes into force: the inventory has none of this name any more"
    ]


BAD = PolicyNetworkSet("bad", nets=("192.0.2.0/24",), labels=(("role", "bad"),))
BLOCK = DocumentKey("GlobalNetworkPolicy", "", "block")
DENY_BAD = {"action": "Deny", "source": {"selector": "role == 'bad'"}}
WITHOUT_BAD = (
    "Rules of live documents select no network set any more: GlobalNetworkPolicy block. The inventory no longer has "
    "bad, or with other labels. Keep it, or write a live network set with these labels first (calicoctl apply)."
)


def test_live_rules_that_select_no_network_set_any_more_are_named() -> None:
    live = {**document(BLOCK, ingress=[DENY_BAD]), **document(LIVE_WEB, ingress=[{"action": "Allow"}])}
    had, other = inventory(sets=[BAD, OFFICES]), dataclasses.replace(BAD, labels=(("role", "good"),))
    assert live_policy.review(had.values, inventory(sets=[BAD]), live) == NO_REVIEW
    for without in (inventory(sets=[OFFICES]), EMPTY, inventory(sets=[other])):
        assert live_policy.review(had.values, without, live) == LiveReview((), (WITHOUT_BAD,))
    assert live_policy.review(had.values, EMPTY, live, stored=True).notices == (
        WITHOUT_BAD.replace("inventory no longer has", "generation does not have"),
    )
    for rule in (
        {"action": "Allow", "destination": {"notSelector": "role == 'bad'"}},
        {"action": "Allow", "protocol": "TCP", "destination": {"selector": "has(role)", "ports": ["http"]}},
    ):
        excluding = document(BLOCK, types=["Egress"], egress=[rule])
        assert live_policy.review(had.values, EMPTY, excluding).notices == (WITHOUT_BAD,)


def test_live_rules_that_still_select_a_network_set_are_not_named() -> None:
    """Another set of the inventory or a live one has the label, or the policy has no effect."""
    live, had = document(BLOCK, ingress=[DENY_BAD]), inventory(sets=[BAD])
    assert live_policy.review(had.values, inventory(sets=[dataclasses.replace(BAD, name="worse")]), live) == NO_REVIEW
    key = DocumentKey("GlobalNetworkSet", "", "worse")
    body = json.loads(document(key, nets=["192.0.2.0/24"])[key])
    body["metadata"]["labels"] = {"role": "bad"}
    assert live_policy.review(had.values, EMPTY, {**live, key: json.dumps(body).encode()}) == NO_REVIEW
    hiding = inventory(policies=[Policy("block")])
    assert live_policy.review({**had.values, **hiding.values}, hiding, live) == NO_REVIEW
    own = document(DocumentKey("NetworkPolicy", "default", "a"), ingress=[DENY_BAD])
    assert live_policy.review(had.values, EMPTY, own) == NO_REVIEW
    odd = f"{keys.INVENTORY}networksets/x"
    for value in (b"", b"{", b'{"spec": {"ingress": [{"source": {"selector": "(("}}]}}'):
        assert live_policy.review({**had.values, odd: value}, EMPTY, {BLOCK: value}) == NO_REVIEW


def test_documents_that_were_wrong_before_the_run_stop_none() -> None:
    """A person wrote them by hand; nodes keep what they had."""
    live = document(LIVE_WEB, tier="nowhere")
    assert live_policy.review(WHOLE.values, WHOLE, live) == LiveReview(
        (), ("Live documents are in tiers that do not exist (nowhere): NetworkPolicy default/web.",)
    )
    for value in (b"", b"{", b"[]", b'{"spec": 1}', b'{"spec": {"tier": 7}}', b"\xff", b"[" * 100_000):
        assert live_policy.review(WHOLE.values, WHOLE, {LIVE_WEB: value}) == NO_REVIEW
