# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Entries that go from lists in files of variables: all other characters stay, or the text is refused."""

from __future__ import annotations

import random
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.editing.change.variable_texts import (
    WHOLE,
    CannotRemove,
    VariableEntry,
    without_entries,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.editing.written_variables import WrittenList, written_list

ENTRIES: list[dict[str, t.Any]] = [
    {"name": "p0", "cidr": "10.240.0.0/16", "natOutgoing": True},
    {"metadata": {"name": "p1", "labels": {"a": "b"}}, "spec": {"cidr": "10.241.0.0/16", "allowedUses": ["Workload"]}},
    {"name": "p2", "cidr": "10.242.0.0/16", "allowedUses": ["Workload", "Tunnel"]},
    {"name": "p: 3", "cidr": "fd00::/64", "blockSize": 122},
]


def without(written: WrittenList, going: t.Collection[int]) -> str:
    entries = [
        VariableEntry(written.variable, index, written.entries[index], "f.yml", written.line(index)) for index in going
    ]
    return without_entries(written.text, entries, False)


@settings(max_examples=400, deadline=None)
@given(st.randoms(use_true_random=False), st.sets(st.integers(0, 3), min_size=1), st.integers(1, 4))
def test_entries_go_and_all_other_characters_stay(draw: random.Random, going: set[int], count: int) -> None:
    written = written_list(draw, "calico_ip_pools", ENTRIES[:count])
    going = {index for index in going if index < count} or {0}
    assert without(written, going) == written.without(going)


@settings(max_examples=200, deadline=None)
@given(st.randoms(use_true_random=False), st.integers(1, 4))
def test_a_variable_goes_and_all_other_characters_stay(draw: random.Random, count: int) -> None:
    written = written_list(draw, "calico_ip_pools", ENTRIES[:count])
    written = written._replace(before=f"{written.before}keep: 1\n")
    line = written.before.count("\n") + 1
    if not written.flow:  # Ansible knows a list by its first dash
        line += 1 + written.items[0][0].count("\n")
    entry = VariableEntry(written.variable, WHOLE, written.entries, "f.yml", line)
    wanted = f"{written.before}{written.behind}".replace("\n", written.line_end)
    assert without_entries(written.text, [entry], False) == wanted


@pytest.mark.parametrize(
    ("text", "value", "line", "after"),
    [
        ("a: 1 # why\n", 1, 1, "{}\n"),
        ("---\n# why\na:\n  b: 1\n# behind\n", {"b": 1}, 4, "---\n# why\n{}\n# behind\n"),
        ("x: {a: 1, b: 2}\n", 1, 1, "x: {b: 2}\n"),
        ("x: {b: 2, a: 1}\n", 1, 1, "x: {b: 2}\n"),
        ("x: {a: 1}\n", 1, 1, "x: {}\n"),
        ("hosts:\n  node1: # one\n    a: 1\n  node2: {a: 2}\n", 1, 3, "hosts:\n  node1: {} # one\n  node2: {a: 2}\n"),
        ("- a: 1\n  b: 2\n", 1, 1, "- b: 2\n"),
        ("a: |\n  x\n\n  y\n\nb: 2\n", "x\n\ny\n", 1, "\nb: 2\n"),
        ("b: 2\na: true", True, 2, "b: 2\n"),
    ],
)  # fmt: skip
def test_a_variable_goes_from_its_mapping(text: str, value: t.Any, line: int, after: str) -> None:
    assert without_entries(text, [VariableEntry("a", WHOLE, value, "f.yml", line)], False) == after


def test_a_variable_goes_from_json() -> None:
    entry = VariableEntry("a", WHOLE, 1, "f.json")
    assert without_entries('{\n  "a": 1,\n  "b": 2\n}\n', [entry], True) == '{\n  "b": 2\n}\n'


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("a: 1\nb:\n- {a: 1}\n", "it has no a, or several"),
        ("a: &one 1\nb: *one\n", "it defines the anchor &one, which line 2 uses"),
        ("x: &x {a: 1}\ny:\n  <<: *x\n", "it is not written so that this part of it can be changed alone"),
        ("a: 1\na: 1\n", "it has no a, or several"),
    ],
)
def test_a_variable_that_something_else_uses_stays(text: str, why: str) -> None:
    with pytest.raises(CannotRemove) as raised:
        without_entries(text, [VariableEntry("a", WHOLE, 1, "f.yml")], False)
    assert str(raised.value) == why


@pytest.mark.parametrize(
    ("text", "value", "line", "why"),
    [
        ("calico_ip_pools:\n- {name: a}\n", {"name": "b"}, 2, "line 2 is not what Ansible reads there"),
        ("calico_ip_pools:\n- {name: 1}\n", {"name": "1"}, 2, "line 2 is not what Ansible reads there"),
        ("calico_ip_pools:\n- {name: a}\n", {"name": "a"}, 3, "line 3 of it has no entry 1 of a list calico_ip_pools, "
         "or several"),
        ("calico_ip_pools: [{name: a}]\ncalico_ip_pools: [{name: a}]\n", {"name": "a"}, 1,
         "the list is not written out in it"),
        ("calico_ip_pools:\n- {name: !vault a}\n", {"name": "a"}, 2, "line 2 has the tag !vault"),
        ("calico_ip_pools:\n- name: a\n  cidr: '{{ x }}'\n", {"name": "a", "cidr": "{{ x }}"}, 2,
         "line 3 is a template"),
        ("calico_ip_pools: &p\n- {name: a}\nother: *p\n", {"name": "a"}, 2,
         "it is not written so that this part of it can be changed alone"),
        ("base: &p\n  calico_ip_pools:\n  - {name: a}\nvars:\n  <<: *p\n", {"name": "a"}, 3,
         "it is not written so that this part of it can be changed alone"),
        ("$ANSIBLE_VAULT;1.1;AES256\n3132\n", {"name": "a"}, 2,
         "line 2 of it has no entry 1 of a list calico_ip_pools, or several"),
        ("calico_ip_pools: [\n", {}, 1, "it cannot be read as plain YAML"),
        ("1:\n  calico_ip_pools: [{name: a}]\n", {"name": "a"}, 2, "line 2 is not what Ansible reads there"),
    ],
)  # fmt: skip
def test_what_is_not_plain_text_is_refused(text: str, value: t.Any, line: int, why: str) -> None:
    entry = VariableEntry("calico_ip_pools", 0, value, "f.yml", line)
    with pytest.raises(CannotRemove) as raised:
        without_entries(text, [entry], False)
    assert (str(raised.value), raised.value.entry) == (why, entry)


def test_an_alias_in_an_entry_goes_with_it_and_stays_elsewhere() -> None:
    text = "mode: &mode Always\ncalico_ip_pools:\n- {name: a, ipipMode: *mode}\nother: *mode\n"
    entry = VariableEntry("calico_ip_pools", 0, {"name": "a", "ipipMode": "Always"}, "f.yml", 3)
    assert without_entries(text, [entry], False) == "mode: &mode Always\ncalico_ip_pools: []\nother: *mode\n"
