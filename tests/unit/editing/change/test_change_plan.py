# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What create, apply, replace, delete, patch and label change, and what they refuse, in Calico's words."""

from __future__ import annotations

import copy
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.editing.change.change_plan import (
    AskedDocument,
    ChangeRefused,
    PlannedChange,
    PresentResource,
    ResourcePlan,
    VariableField,
    difference,
    plan_delete,
    plan_documents,
    plan_label,
    plan_patch,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.editing.change.resource_key import (
    ResourceKey,
    key_of,
    version_of,
    with_version,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.editing.change.variable_texts import (
    WHOLE,
    VariableEntry,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.editing.patches import labels
from ansible_collections.baremetal.host_routing.plugins.module_utils.editing.patches.merge_patches import merge
from ansible_collections.baremetal.host_routing.plugins.module_utils.resources import api as resources
from hypothesis import given
from hypothesis import strategies as st


def document(kind: str, name: str, spec: t.Any, **metadata: t.Any) -> dict[str, t.Any]:
    return {"apiVersion": "projectcalico.org/v3", "kind": kind, "metadata": {"name": name, **metadata}, "spec": spec}


def in_force(written: dict[str, t.Any]) -> dict[str, t.Any]:
    return resources.parse(written).to_document()


POOL = document("IPPool", "rack-a", {"cidr": "10.244.0.0/16"})
LISTED = document("IPPool", "listed", {"cidr": "10.245.0.0/16"})
POLICY = document("NetworkPolicy", "web", {"selector": "all()"}, namespace="prod")
NODE = document("Node", "node1", {"bgp": {"ipv4Address": "10.0.0.1/24"}}, labels={"rack": "a"})
SETTINGS = document("BGPConfiguration", "default", {"asNumber": 64512})
SETTINGS_IN_FORCE = document(
    "BGPConfiguration", "default", {"asNumber": 64512, "listenPort": 179, "nodeToNodeMeshEnabled": True}
)
ENTRY = VariableEntry("calico_ip_pools", 0, {"name": "listed", "cidr": "10.245.0.0/16"}, "group_vars/all.yml", 3)
PRESENT = {
    key_of(resources.parse(found.document)): found
    for found in (
        PresentResource(in_force(POOL), "files/pools.yml", POOL),
        PresentResource(in_force(LISTED), variable="calico_ip_pools[0] (group_vars/all.yml:3)", entries=(ENTRY,)),
        PresentResource(in_force(POLICY), "files/web.yml", POLICY),
        PresentResource(in_force(NODE), variable="the hosts"),
        PresentResource(SETTINGS_IN_FORCE, "files/bgp.yml", SETTINGS),
        PresentResource(in_force(document("Tier", "default", {"order": 1_000_000}))),
    )
}
KEY = ResourceKey("IPPool", "", "rack-a")


def plan(verb: str, *contents: t.Any, **named: t.Any) -> ResourcePlan:
    asked = [AskedDocument(content, f"net.yml:{index}") for index, content in enumerate(contents, 1)]
    return plan_documents(verb, PRESENT, asked, **named)


def changed(found: ResourcePlan) -> list[t.Any]:
    return [(str(one.key), one.file, one.document) for one in found.changes if not one.unchanged]


NEW = document("IPPool", "new", {"cidr": "10.246.0.0/16"})
OTHER = document("IPPool", "rack-a", {"cidr": "10.244.0.0/16", "natOutgoing": True})


@pytest.mark.parametrize(
    ("verb", "content", "change", "said"),
    [
        ("create", NEW, ("IPPool(new)", "", NEW), "Successfully created 1 'IPPool' resource(s)"),
        ("apply", NEW, ("IPPool(new)", "", NEW), "Successfully applied 1 'IPPool' resource(s)"),
        ("apply", OTHER, ("IPPool(rack-a)", "files/pools.yml", OTHER), "Successfully applied 1 'IPPool' resource(s)"),
        ("replace", OTHER, ("IPPool(rack-a)", "files/pools.yml", OTHER),
         "Successfully replaced 1 'IPPool' resource(s)"),
        ("delete", OTHER, ("IPPool(rack-a)", "files/pools.yml", None), "Successfully deleted 1 'IPPool' resource(s)"),
        ("apply", LISTED, None, "Successfully applied 1 'IPPool' resource(s)"),
        ("replace", in_force(LISTED), None, "Successfully replaced 1 'IPPool' resource(s)"),
        ("apply", SETTINGS_IN_FORCE, None, "Successfully applied 1 'BGPConfiguration' resource(s)"),
    ],
)  # fmt: skip
def test_a_document_is_created_changed_deleted_or_there_already(
    verb: str, content: t.Any, change: t.Any, said: str
) -> None:
    found = plan(verb, content)
    assert (changed(found), found.said) == ([change] if change else [], said)


@pytest.mark.parametrize("found", PRESENT.values(), ids=map(str, PRESENT))
def test_what_get_prints_changes_nothing_wherever_it_is_written(found: PresentResource) -> None:
    for content in (found.document, found.written or found.document):
        for verb in ("apply", "replace"):
            assert changed(plan(verb, content)) == []


@pytest.mark.parametrize(
    ("verb", "contents", "why"),
    [
        ("create", [OTHER], "failed to create 'IPPool' resource: [resource already exists: IPPool(rack-a)]"),
        ("create", [NEW, OTHER, LISTED], "failed to create any 'IPPool' resources: "
         "[resource already exists: IPPool(rack-a); resource already exists: IPPool(listed)]"),
        ("create", [OTHER, POLICY], "failed to create any resources: "
         "[resource already exists: IPPool(rack-a); resource already exists: NetworkPolicy(prod/web)]"),
        ("create", [SETTINGS], "failed to create 'BGPConfiguration' resource: "
         "[resource already exists: BGPConfiguration(default)]"),
        ("replace", [NEW], "failed to replace 'IPPool' resource: [resource does not exist: IPPool(new)]"),
        ("delete", [NEW, OTHER], "Failed to delete 'IPPool' resource: resource does not exist: IPPool(new)"),
        ("delete", [LISTED], "Failed to delete 'IPPool' resource: IPPool(listed) stands in "
         "calico_ip_pools[0] (group_vars/all.yml:3). Delete it there, or add --adopt"),
        ("delete", [NODE], "Failed to delete 'Node' resource: Node(node1) is a host of the inventory. "
         "playbooks/remove_node.yml says how to remove it"),
        ("delete", [document("Tier", "default", {})], "Failed to delete 'Tier' resource: Tier(default) stands in no "
         "file: it is there by default"),
        ("apply", [document("IPPool", "listed", {"cidr": "10.245.0.0/16", "disabled": True})],
         "failed to apply 'IPPool' resource: [IPPool(listed) stands in calico_ip_pools[0] (group_vars/all.yml:3). "
         "Change it there, or add --adopt to move it into a file]"),
        ("apply", [document("Node", "node2", {})], "failed to apply 'Node' resource: "
         "[Node(node2) is no host of the inventory. Add it there to calico_nodes or calico_rr]"),
        ("apply", [NEW, POOL, NEW], "IPPool(new) stands in net.yml:1 and in net.yml:3. Keep one of the two."),
        ("apply", [document("IPPool", "a", {})],
         "net.yml:1: IPPool a: spec.cidr is missing. Write the pool's range, for example 10.244.0.0/16."),
        ("apply", [{"kind": "IPPool"}],
         "net.yml:1: a document has no metadata.name. Write kind, metadata and spec."),
        ("apply", [{"kind": "IPPool", "metadata": {"name": False}}],
         "net.yml:1: IPPool: metadata.name false is not a text. Write it in quotes."),
        ("delete", ["a text"], "net.yml:1: a document has no metadata.name. Write kind, metadata and spec."),
    ],
)  # fmt: skip
def test_a_change_is_refused_in_calico_s_words(verb: str, contents: list[t.Any], why: str) -> None:
    with pytest.raises(ChangeRefused) as raised:
        plan(verb, *contents)
    assert str(raised.value) == why


def test_what_get_shows_of_a_policy_changes_nothing() -> None:
    """`get` shows selectors in one form and no labels of policies; a label or another action is a change."""
    rule = {"action": "Allow", "source": {"selector": "a == 'b'"}}
    web = document("NetworkPolicy", "a", {"selector": "app == 'web'", "ingress": [rule]}, labels={"x": "y"})
    shown = in_force(document("NetworkPolicy", "a", {
        "selector": 'app == "web"', "ingress": [{"action": "Allow", "source": {"selector": 'a == "b"'}}]
    }))  # fmt: skip
    key = ResourceKey("NetworkPolicy", "default", "a")
    labelled = {**shown, "metadata": {**shown["metadata"], "labels": {"x": "z"}}}
    for found in (PresentResource(shown, "f.yml", web), PresentResource(in_force(web), "f.yml", web)):
        for content, changes in ((shown, 0), (web, 0), (labelled, 1)):
            asked = [AskedDocument(content, "net.yml:1")]
            assert len(changed(plan_documents("apply", {key: found}, asked))) == changes
    staged = document("StagedGlobalNetworkPolicy", "a", {"selector": "all()"})
    deletion = document("StagedGlobalNetworkPolicy", "a", {"selector": "all()", "stagedAction": "Delete"})
    key = ResourceKey("StagedGlobalNetworkPolicy", "", "a")
    found = PresentResource(in_force(staged), "f.yml", staged)
    assert len(changed(plan_documents("apply", {key: found}, [AskedDocument(deletion, "net.yml:1")]))) == 1


def test_what_exists_or_does_not_is_passed_over_if_that_is_asked() -> None:
    found = plan("create", NEW, OTHER, skip=True)
    assert (changed(found), found.said) == (
        [("IPPool(new)", "", NEW)], "Successfully created 2 'IPPool' resource(s)"
    )  # fmt: skip
    assert [str(key) for key, *_rest in changed(plan("delete", NEW, OTHER, skip=True))] == ["IPPool(rack-a)"]


def test_resources_are_deleted_by_name() -> None:
    gone = ResourceKey("IPPool", "", "gone")
    assert changed(plan_delete(PRESENT, [KEY, KEY])) == [("IPPool(rack-a)", "files/pools.yml", None)]
    assert changed(plan_delete(PRESENT, [gone], skip=True)) == []
    with pytest.raises(ChangeRefused) as raised:
        plan_delete(PRESENT, [KEY, gone])
    assert str(raised.value) == "Failed to delete 'IPPool' resource: resource does not exist: IPPool(gone)"


def test_a_document_is_deleted_whatever_else_it_says() -> None:
    assert changed(plan("delete", document("IPPool", "rack-a", {"cidr": 5}))) == [
        ("IPPool(rack-a)", "files/pools.yml", None)
    ]


def test_what_servers_write_is_not_written() -> None:
    of_a_server = document(
        "IPPool", "new", NEW["spec"], uid="1-2", creationTimestamp="2026-01-01T00:00:00Z", resourceVersion="1234"
    )
    assert changed(plan("apply", of_a_server)) == [("IPPool(new)", "", NEW)]


def test_a_document_that_was_made_from_an_older_one_is_refused() -> None:
    """Another version's document may be applied only where the resource has that version yet."""
    latest = version_of(in_force(POOL))
    fresh = {**OTHER, "metadata": {"name": "rack-a", "resourceVersion": latest}}
    assert changed(plan("apply", fresh)) == [("IPPool(rack-a)", "files/pools.yml", OTHER)]
    assert changed(plan("delete", fresh)) == [("IPPool(rack-a)", "files/pools.yml", None)]
    stale = {**OTHER, "metadata": {"name": "rack-a", "resourceVersion": version_of(NEW)}}
    why = (
        f"update conflict: IPPool(rack-a) with error: resource version '{version_of(NEW)}' is out of date "
        f"(latest: {latest}). Update the resource YAML/JSON in order to make changes"
    )
    for verb, words in (
        ("apply", f"failed to apply 'IPPool' resource: [{why}]"),
        ("replace", f"failed to replace 'IPPool' resource: [{why}]"),
        ("delete", f"Failed to delete 'IPPool' resource: {why}"),
    ):
        with pytest.raises(ChangeRefused) as raised:
            plan(verb, stale)
        assert str(raised.value) == words
    patch = {"metadata": {"resourceVersion": version_of(NEW)}, "spec": {"disabled": True}}
    with pytest.raises(ChangeRefused, match="update conflict"):
        plan_patch(PRESENT, ResourceKey("IPPool", "", "rack-a"), patch, "merge")


def test_an_equal_document_of_another_version_is_refused_as_calico_refuses_it() -> None:
    same = {**POOL, "metadata": {"name": "rack-a", "resourceVersion": version_of(NEW)}}
    with pytest.raises(ChangeRefused, match="update conflict"):
        plan("apply", same)


def test_the_version_of_a_policy_is_that_of_the_form_that_get_prints() -> None:
    key = ResourceKey("NetworkPolicy", "prod", "web")
    written = document("NetworkPolicy", "web", {"selector": "a=='b'"}, namespace="prod")
    printed = in_force(document("NetworkPolicy", "web", {"selector": 'a == "b"'}, namespace="prod"))
    present = {key: PresentResource(in_force(written), "files/web.yml", written)}
    asked = [AskedDocument(with_version(printed), "net.yml:1")]
    assert plan_documents("apply", present, asked).changes[0].unchanged


def test_what_a_run_assigns_to_a_node_is_no_part_of_its_version() -> None:
    bgp = {"ipv4Address": "10.0.0.1/24"}
    other = document(
        "Node", "node1", {"bgp": {**bgp, "ipv4IPIPTunnelAddr": "10.244.0.1"}, "ipv4VXLANTunnelAddr": "10.244.0.2"}
    )
    assert version_of(other) == version_of(document("Node", "node1", {"bgp": bgp}))
    assert version_of(other) != version_of(document("Node", "node1", {"bgp": {}}))
    assert version_of(document("Node", "node1", {"bgp": None})) != version_of(document("Node", "node1", None))


def test_namespaces_are_those_of_the_document_or_of_the_option() -> None:
    web = document("NetworkPolicy", "web", {"selector": "all()"})
    assert changed(plan("apply", web, namespace="prod")) == []
    assert changed(plan("create", web))[0][0] == "NetworkPolicy(default/web)"
    for content, why in (
        (POLICY, "net.yml:1: resource namespace does not match client namespace. prod != test"),
        (POOL, "net.yml:1: IPPool is not namespaced"),
    ):
        with pytest.raises(ChangeRefused) as raised:
            plan("apply", content, namespace="test")
        assert str(raised.value) == why


def test_of_settings_only_what_changes_is_written() -> None:
    """Other fields may stand in variables, so that a document with all fields would set them twice."""
    asked = document("BGPConfiguration", "default", {**SETTINGS_IN_FORCE["spec"], "listenPort": 1790})
    wanted = document("BGPConfiguration", "default", {"asNumber": 64512, "listenPort": 1790})
    assert changed(plan("apply", asked)) == [("BGPConfiguration(default)", "files/bgp.yml", wanted)]
    node = document("Node", "node1", NODE["spec"], labels={"rack": "b"})
    assert changed(plan("apply", node)) == [
        ("Node(node1)", "", document("Node", "node1", {}, labels={"rack": "b"}))
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("key", "patch", "form", "wanted"),
    [
        (KEY, {"spec": {"natOutgoing": True}}, "strategic", OTHER),
        (KEY, {"spec": {"natOutgoing": True}}, "merge", OTHER),
        (KEY, [{"op": "add", "path": "/spec/natOutgoing", "value": True}], "json", OTHER),
        (KEY, {"spec": {"natOutgoing": False}}, "strategic", None),
        (ResourceKey("BGPConfiguration", "", "default"), {"spec": {"listenPort": 1790}}, "merge",
         document("BGPConfiguration", "default", {"asNumber": 64512, "listenPort": 1790})),
    ],
)  # fmt: skip
def test_a_patch_changes_the_document_as_it_is_written(
    key: ResourceKey, patch: t.Any, form: str, wanted: t.Any
) -> None:
    found = plan_patch(PRESENT, key, patch, form)
    assert [one[2] for one in changed(found)] == ([wanted] if wanted else [])
    assert found.said == f"Successfully patched 1 '{key.kind}' resource"


@pytest.mark.parametrize(
    ("key", "patch", "why"),
    [
        (KEY._replace(name="gone"), {}, "resource does not exist: IPPool(gone)"),
        (KEY, {"metadata": {"name": "b"}}, "the patch changes the kind or the name of IPPool(rack-a). "
         "Create another resource instead"),
        (KEY, {"$patch": "drop"}, "$patch of the patch is 'drop'. Write replace, delete or merge."),
        (KEY._replace(name="listed"), {"spec": {"disabled": True}}, "IPPool(listed) stands in "
         "calico_ip_pools[0] (group_vars/all.yml:3). Change it there, or add --adopt to move it into a file"),
    ],
)  # fmt: skip
def test_a_patch_is_refused_in_calico_s_words(key: ResourceKey, patch: t.Any, why: str) -> None:
    with pytest.raises(ChangeRefused) as raised:
        plan_patch(PRESENT, key, patch, "strategic")
    assert str(raised.value) == f"Failed to patch 'IPPool' resource: {why}"


def test_a_patch_that_makes_an_invalid_resource_is_refused() -> None:
    with pytest.raises(ChangeRefused, match=r"the patch: IPPool rack-a: spec.cidr x is not"):
        plan_patch(PRESENT, KEY, {"spec": {"cidr": "x"}}, "strategic")


def test_a_label_is_written_where_the_resource_is() -> None:
    node = ResourceKey("Node", "", "node1")
    found = plan_label(PRESENT, node, labels.read("rack=b", False, True), "nodes node1")
    assert (changed(found), found.said) == (
        [("Node(node1)", "", document("Node", "node1", {}, labels={"rack": "b"}))],
        "Successfully updated label rack on nodes node1",
    )
    assert changed(plan_label(PRESENT, node, labels.read("rack=a", False, False), "nodes node1")) == []
    for key, word, why in (
        (node._replace(name="node2"), "a=b", "nodes node2 not found"),
        (node, "rack=b", "failed to update label of nodes node1, key rack is already present. "
         "please use '--overwrite' to set a new value"),
    ):  # fmt: skip
        with pytest.raises(ChangeRefused) as raised:
            plan_label(PRESENT, key, labels.read(word, False, False), f"nodes {key.name}")
        assert str(raised.value) == why


TREES = st.dictionaries(
    st.sampled_from("abc"),
    st.recursive(
        st.integers(0, 2) | st.lists(st.integers(0, 1), max_size=2),
        lambda inner: st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
        max_leaves=5,
    ),
)


@given(TREES, TREES)
def test_the_difference_of_two_documents_makes_one_of_the_other(before: t.Any, after: t.Any) -> None:
    assert merge(copy.deepcopy(before), difference(before, after)) == after


def test_a_resource_is_adopted_with_the_entry_that_it_had() -> None:
    key = ResourceKey("IPPool", "", "listed")
    asked = [AskedDocument(LISTED, "net.yml:1")]
    assert plan_documents("apply", PRESENT, asked, adopt=True).changes == (
        PlannedChange(key, LISTED, entries=(ENTRY,), as_is=in_force(LISTED)),
    )
    assert plan_delete(PRESENT, [key], adopt=True).changes == (PlannedChange(key, entries=(ENTRY,)),)
    (change,) = plan_patch(PRESENT, key, {"spec": {"disabled": True}}, "merge", adopt=True).changes
    assert change.document is not None and change.document["spec"]["disabled"] and change.entries == (ENTRY,)
    label = labels.read("a=b", False, False)
    (change,) = plan_label(PRESENT, key, label, "pools listed", adopt=True).changes
    assert change.document is not None and change.document["metadata"]["labels"] == {"a": "b"}


def test_what_stands_in_a_file_or_by_default_is_not_adopted() -> None:
    for content in (POOL, SETTINGS, document("Tier", "default", {"order": 1_000_000})):
        (change,) = plan_documents("apply", PRESENT, [AskedDocument(content, "x.yml:1")], adopt=True).changes
        assert change.unchanged and not change.entries


def test_a_resource_that_cannot_be_moved_is_refused_with_the_reason() -> None:
    pinned = PRESENT[ResourceKey("IPPool", "", "listed")]._replace(pinned="it is a template. Write it by hand")
    with pytest.raises(ChangeRefused) as raised:
        plan_documents(
            "apply", {ResourceKey("IPPool", "", "listed"): pinned}, [AskedDocument(LISTED, "x:1")], adopt=True
        )
    assert str(raised.value) == (
        "failed to apply 'IPPool' resource: [IPPool(listed) stands in calico_ip_pools[0] (group_vars/all.yml:3), and "
        "--adopt does not move it: it is a template. Write it by hand]"
    )


def test_fields_of_settings_are_adopted_as_far_as_they_change() -> None:
    key = ResourceKey("Node", "", "node1")
    found = PRESENT[key]
    entry = VariableEntry("calico_node_labels", WHOLE, {"rack": "a", "x": "y"}, "hosts.yml", 3)
    address = VariableEntry("calico_node_address", WHOLE, "10.0.0.1/24", "hosts.yml", 2)
    fields = (
        VariableField("metadata.labels", {"rack": "a", "x": "y"}, entry, "calico_node_labels (hosts.yml:3)"),
        VariableField(
            "spec.bgp.ipv4Address", "10.0.0.1/24", address, "calico_node_address (hosts.yml:2)", "is a template"
        ),
    )
    in_force_ = document("Node", "node1", {"bgp": {"ipv4Address": "10.0.0.1/24"}}, labels={"rack": "a", "x": "y"})
    present = {key: found._replace(document=in_force_, variable="", fields=fields)}
    label = labels.read("rack=b", False, True)
    (change,) = plan_label(present, key, label, "nodes node1", adopt=True).changes
    assert change == PlannedChange(
        key,
        document("Node", "node1", {}, labels={"rack": "b", "x": "y"}),
        entries=(entry,),
        as_is=document("Node", "node1", {}, labels={"rack": "a", "x": "y"}),
    )
    (change,) = plan_label(present, key, label, "nodes node1").changes
    assert change == PlannedChange(key, document("Node", "node1", {}, labels={"rack": "b"}))
    with pytest.raises(ChangeRefused) as raised:
        plan_patch(present, key, {"spec": {"bgp": {"ipv4Address": "10.0.0.2/24"}}}, "merge", adopt=True)
    assert str(raised.value) == (
        "Failed to patch 'Node' resource: spec.bgp.ipv4Address of Node(node1) stands in calico_node_address "
        "(hosts.yml:2), and --adopt does not move it: is a template"
    )
