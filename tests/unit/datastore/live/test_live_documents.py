# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Live documents: what is read from their keys, and the reason for what is not."""

from __future__ import annotations

import json
from typing import Any

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.documents import RefusedDocument
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.keys import DocumentKey
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.live import live_documents
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy import model

POLICY = DocumentKey("GlobalNetworkPolicy", "", "web")
API = "projectcalico.org/v3"


def document(kind: str = "GlobalNetworkPolicy", name: str = "web", **spec: Any) -> dict[str, Any]:
    return {"apiVersion": API, "kind": kind, "metadata": {"name": name}, "spec": spec}


def read(key: DocumentKey, body: dict[str, Any]) -> live_documents.LiveValue:
    return live_documents.value_of(live_documents.decode(key, live_documents.encode(body)))


def test_each_live_kind_is_what_policy_has_for_it() -> None:
    rule = {"action": "Allow", "source": {"selector": "role == 'db'"}}
    policy = read(POLICY, document(selector="role == 'web'", ingress=[rule]))
    assert isinstance(policy, model.Policy)
    assert (policy.name, policy.tier, policy.selector, policy.staged) == ("web", "default", 'role == "web"', False)
    body = document("NetworkPolicy", ingress=[rule])
    body["metadata"]["namespace"] = "blue"
    namespaced = read(DocumentKey("NetworkPolicy", "blue", "web"), body)
    assert isinstance(namespaced, model.Policy) and namespaced.name == "blue/web"
    staged = read(DocumentKey("StagedGlobalNetworkPolicy", "", "web"), document("StagedGlobalNetworkPolicy"))
    assert isinstance(staged, model.Policy) and staged.staged and staged.name == "staged:web"
    tier = read(DocumentKey("Tier", "", "web"), document("Tier", order=7))
    assert tier == model.PolicyTier("web", 7.0)
    nets = read(DocumentKey("GlobalNetworkSet", "", "web"), document("GlobalNetworkSet", nets=["10.0.0.0/8"]))
    assert nets == model.PolicyNetworkSet("web", nets=("10.0.0.0/8",))


def test_a_staged_deletion_is_nothing_for_policy() -> None:
    body = document("StagedGlobalNetworkPolicy", stagedAction="Delete")
    assert read(DocumentKey("StagedGlobalNetworkPolicy", "", "web"), body) is None


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b"[" * 100_000, "it is nested deeper than 32 levels."),
        (b"{", "it is not JSON."),
        (b"[]", "it is no JSON object."),
        (b"\xff\xfe", "it is not UTF-8."),
        (b'"' + b"x" * (256 << 10) + b'"', "it has more than 262144 bytes."),
        (b"[" + b"0," * 70_000 + b"0]", "it has more than 60,000 values"),
        (json.dumps(document("Pod")).encode(), "it is not valid: "),
        (json.dumps(document(name="other")).encode(), "it is GlobalNetworkPolicy other, and its key is that of Gl"),
        (json.dumps(document("Tier")).encode(), "it is Tier web, and its key is that of GlobalNetworkPolicy web."),
        (json.dumps(document(selector="a ==")).encode(), "it is not valid: "),
        (json.dumps(document(ingress=[{"action": "Explode"}])).encode(), "it is not valid: "),
        (json.dumps(document(order=float("nan"))).encode(), "it has NaN, which JSON has not."),
        (b'{"kind": "Tier", "kind": "GlobalNetworkPolicy"}', "it has key kind twice."),
        (json.dumps({**document(), "metadata": {"name": "web", "labels": {"a": 1}}}).encode(), "it is not valid: "),
    ],
    ids=lambda value: str(value)[:30],
)
def test_a_document_that_cannot_be_understood_is_refused_with_the_reason(value: bytes, reason: str) -> None:
    with pytest.raises(RefusedDocument) as refused:
        live_documents.decode(POLICY, value)
    assert reason in str(refused.value)


def test_fields_that_cannot_be_applied_here_are_refused() -> None:
    body = document(ingress=[{"action": "Allow", "http": {"methods": ["GET"]}}])
    with pytest.raises(RefusedDocument, match="it is not valid"):
        live_documents.decode(POLICY, live_documents.encode(body))
