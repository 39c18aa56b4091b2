# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Calico's vectors by `create` and by `apply`: the verdict is that of the same document in a file or a variable."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.cli.render import yaml_text
from ansible_collections.baremetal.host_routing.plugins.module_utils.cli.render.document_text import documents_of
from ansible_collections.baremetal.host_routing.plugins.module_utils.editing.change.change_plan import (
    AskedDocument,
    ChangeRefused,
    Present,
    PresentResource,
    plan_documents,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.editing.change.changed_texts import (
    changed_texts,
    new_file,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.editing.change.resource_key import key_of
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.host import Host
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.inventory.documents.merging import merged
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.inventory.policy_sources import Document
from ansible_collections.baremetal.host_routing.plugins.module_utils.resources import api as resources

from tests.unit.fleet.fleets import pool
from tests.unit.fleet.inventory.test_documents import CASES, said

VECTORS = [case for case in CASES["cases"] if case["kind"] in resources.KINDS and case["kind"] != "WorkloadEndpoint"]
#: A valid spec of each kind, which `apply` replaces.
SPECS: dict[str, t.Any] = {
    "IPPool": {"cidr": "10.99.0.0/16"},
    "BGPPeer": {"peerIP": "10.10.9.9", "asNumber": 65099},
    "HostEndpoint": {"node": "test", "interfaceName": "eth9"},
    "IPReservation": {"reservedCIDRs": ["10.244.9.0/24"]},
}


def hosts_for(document: t.Mapping[str, t.Any]) -> list[Host]:
    """Return the hosts of a fleet; a Node is one of them."""
    variables = {"calico_node_address": "10.10.1.11/24", "calico_ip_pools": [pool()]}
    if document["kind"] != "Node":
        return [Host("test", variables)]
    del variables["calico_node_address"]
    return [Host(document["metadata"]["name"], variables)]


def by_file(document: t.Mapping[str, t.Any]) -> str:
    """Return why a document in a file is refused, "" if it is not."""
    found = merged(hosts_for(document), [Document(document, "r.yml", lambda path: None)])
    return said(found.hosts, found.policies, found.errors)


def by_verb(verb: str, present: Present, texts: dict[str, t.Optional[str]], document: t.Mapping[str, t.Any]) -> str:
    """Return why a verb refuses a document, the check of the inventory with the written text included; "" if not."""
    try:
        plan = plan_documents(verb, present, [AskedDocument(document, "r.yml:1")])
    except ChangeRefused as error:
        return str(error)
    for one in plan.changes:
        if one.is_written:
            texts.setdefault(one.file or new_file("net", one.key), None)
    after = {**texts, **changed_texts(plan.changes, texts, "net")}
    written = [
        Document(content, path, lines)
        for path, text in after.items()
        if text is not None
        for content, lines in documents_of(text, path)
    ]
    found = merged(hosts_for(document), written)
    return said(found.hosts, found.policies, found.errors)


def existing(document: t.Mapping[str, t.Any]) -> t.Optional[tuple[Present, dict[str, t.Optional[str]]]]:
    """Return another resource of that kind and name, and its file; None for a name that none can have."""
    metadata = {name: document["metadata"][name] for name in ("name", "namespace") if name in document["metadata"]}
    other = {"kind": document["kind"], "metadata": metadata, "spec": SPECS.get(document["kind"], {})}
    try:
        resource = resources.parse(other)
    except resources.ResourceError:
        return None
    present = {key_of(resource): PresentResource(resource.to_document(), "net.yml", other)}
    return present, {"net.yml": f"# others\n---\n{yaml_text.dump(other)}"}


@pytest.mark.parametrize("kind", sorted({case["kind"] for case in VECTORS}))
def test_the_vectors_have_the_same_verdict_by_create_and_by_apply_as_by_file(kind: str) -> None:
    differing = {}
    for case in VECTORS:
        if case["kind"] != kind:
            continue
        document = {part: case[part] for part in ("kind", "metadata", "spec", "status") if part in case}
        wanted = by_file(document)
        found = {"apply": by_verb("apply", {}, {}, document)} if kind != "Node" else {}
        if kind != "Node":
            found["create"] = by_verb("create", {}, {}, document)
        other = existing(document)
        if other is not None:
            found["apply to another"] = by_verb("apply", *other, document)
        wrong = {verb: why for verb, why in found.items() if bool(why) != bool(wanted)}
        if wrong:
            differing[case["id"]] = (wanted, wrong)
    assert differing == {}
