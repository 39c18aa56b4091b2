# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Planned changes in the texts of files."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.editing.change.change_plan import PlannedChange
from ansible_collections.baremetal.host_routing.plugins.module_utils.editing.change.changed_texts import (
    CannotWrite,
    changed_texts,
    new_file,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.editing.change.resource_key import ResourceKey

A, B = ResourceKey("Tier", "", "a"), ResourceKey("Tier", "", "b")
TIER_A = "kind: Tier\nmetadata:\n  name: a\nspec:\n  order: 1\n"
TIER_B = "kind: Tier\nmetadata:\n  name: b\n"
STREAM = f"# The tiers\n---\n{TIER_A}---\n{TIER_B}"


def tier(name: str, order: int) -> dict[str, t.Any]:
    return {"kind": "Tier", "metadata": {"name": name}, "spec": {"order": order}}


def changed(path: str, text: t.Optional[str], *changes: PlannedChange) -> t.Any:
    found = changed_texts(changes, {path: text}, "net")
    assert set(found) <= {path}
    return found.get(path, "unchanged")


def test_documents_are_changed_and_deleted_where_they_are() -> None:
    assert changed("f.yml", STREAM, PlannedChange(A, tier("a", 2), "f.yml")) == STREAM.replace("order: 1", "order: 2")
    assert changed("f.yml", STREAM, PlannedChange(A, None, "f.yml")) == f"# The tiers\n---\n{TIER_B}"
    both = changed("f.yml", STREAM, PlannedChange(B, tier("b", 5), "f.yml"), PlannedChange(A, None, "f.yml"))
    assert both == f"# The tiers\n---\n{TIER_B}spec:\n  order: 5\n"


def test_a_file_without_a_document_goes_unless_a_comment_is_left() -> None:
    assert changed("f.yml", f"---\n{TIER_A}", PlannedChange(A, None, "f.yml")) is None
    assert changed("f.yml", f"# why\n---\n{TIER_A}", PlannedChange(A, None, "f.yml")) == "# why\n"
    assert changed("f.json", '{"kind": "Tier", "metadata": {"name": "a"}}', PlannedChange(A, None, "f.json")) is None


@pytest.mark.parametrize(
    ("text", "deleted", "replaced"),
    [
        ("kind: List\nitems:\n- kind: Tier\n  metadata: {name: a}\n", None,
         "kind: List\nitems:\n- kind: Tier\n  metadata:\n    name: a\n  spec:\n    order: 2\n"),
        ("- kind: Tier\n  metadata: {name: a}\n- kind: Tier\n  metadata: {name: b}\n",
         "- kind: Tier\n  metadata: {name: b}\n",
         "- kind: Tier\n  metadata:\n    name: a\n  spec:\n    order: 2\n- kind: Tier\n  metadata: {name: b}\n"),
        ("- kind: TierList\n  items:\n  - kind: Tier\n    metadata: {name: a}\n- kind: Tier\n  metadata: {name: b}\n",
         "- kind: Tier\n  metadata: {name: b}\n",
         "- kind: TierList\n  items:\n  - kind: Tier\n    metadata:\n      name: a\n    spec:\n      order: 2\n"
         "- kind: Tier\n  metadata: {name: b}\n"),
        ("- items:\n  - {kind: Tier, metadata: {name: b}}\n  - {kind: Tier, metadata: {name: a}}\n  kind: List\n",
         "- items:\n  - {kind: Tier, metadata: {name: b}}\n  kind: List\n",
         "- items:\n  - {kind: Tier, metadata: {name: b}}\n"
         "  - {kind: Tier, metadata: {name: a}, spec: {order: 2}}\n  kind: List\n"),
        ("- kind: List\n  items:\n  - {kind: Tier, metadata: {name: a}}\n", None,
         "- kind: List\n  items:\n  - {kind: Tier, metadata: {name: a}, spec: {order: 2}}\n"),
    ],
)  # fmt: skip
def test_items_of_lists_are_documents(text: str, deleted: t.Optional[str], replaced: str) -> None:
    assert changed("f.yml", text, PlannedChange(A, None, "f.yml")) == deleted
    assert changed("f.yml", text, PlannedChange(A, tier("a", 2), "f.yml")) == replaced


def test_a_new_document_has_a_file_of_its_own_or_the_end_of_that_one() -> None:
    wanted = "---\nkind: Tier\nmetadata:\n  name: a\nspec:\n  order: 2\n"
    assert changed("net/tier/a.yml", None, PlannedChange(A, tier("a", 2))) == wanted
    assert changed("net/tier/a.yml", TIER_B, PlannedChange(A, tier("a", 2))) == TIER_B + wanted


def test_files_are_named_after_kind_namespace_and_name() -> None:
    assert new_file("net", ResourceKey("IPPool", "", "rack-a.v4")) == "net/ippool/rack-a.v4.yml"
    assert new_file("net", ResourceKey("NetworkPolicy", "default", "web")) == "net/networkpolicy/web.yml"
    assert new_file("net", ResourceKey("NetworkPolicy", "prod", "web")) == "net/networkpolicy/prod.web.yml"
    assert new_file("net", ResourceKey("Tier", "", "../x")) == "net/tier/.._x.yml"
    names = {new_file("net", ResourceKey("Tier", "", "a" * 252 + end)) for end in "bc"}
    assert len(names) == 2 and max(map(len, names)) < 240


def test_nothing_is_written_for_what_is_unchanged() -> None:
    assert changed("f.yml", STREAM, PlannedChange(A, unchanged=True)) == "unchanged"
    assert (
        changed("f.yml", STREAM, PlannedChange(B, {"kind": "Tier", "metadata": {"name": "b"}}, "f.yml")) == "unchanged"
    )


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (TIER_B, "f.yml: Tier(a) cannot be changed: it is not written in it. Edit the file by hand."),
        (f"{TIER_A}---\n{TIER_A}", "f.yml: Tier(a) cannot be changed: it is written in it twice. "
         "Edit the file by hand."),
        ("- &x {kind: Tier, metadata: {name: a}}\n- *x\n", "f.yml: Tier(a) cannot be changed: it is written in it "
         "twice. Edit the file by hand."),
        (TIER_A.replace("1", "!vault x"), "f.yml: Tier(a) cannot be changed: line 5 has the tag !vault. "
         "Edit the file by hand."),
    ],
)  # fmt: skip
def test_a_text_that_cannot_be_changed_is_named(text: str, why: str) -> None:
    with pytest.raises(CannotWrite) as raised:
        changed("f.yml", text, PlannedChange(A, tier("a", 2), "f.yml"))
    assert str(raised.value) == why
