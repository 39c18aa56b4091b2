# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The values of YAML documents are those of PyYAML, built once and with the lines of errors."""

from __future__ import annotations

import typing as t

import pytest
import yaml
from ansible_collections.baremetal.host_routing.plugins.module_utils.base.document_limits import BeyondLimits
from ansible_collections.baremetal.host_routing.plugins.module_utils.cli.render import yaml_values
from ansible_collections.baremetal.host_routing.plugins.module_utils.cli.render.document_text import documents_of
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.sources import resource_files
from hypothesis import example, given
from hypothesis import strategies as st

LOADERS = [yaml.SafeLoader, *([yaml.CSafeLoader] if hasattr(yaml, "CSafeLoader") else [])]
each_loader = pytest.mark.parametrize("loader", LOADERS)
# Parts of YAML. Many sequences of them are YAML, and many are not.
PARTS = (
    *("a", "b", "1", "0x1", "1.0", "true", "~", "'1'", '"a"', "20.5", "2026-11-30", "=", "<<", "x y"),
    *(": ", "- ", "? ", ", ", "\n", "\n  ", "\n    ", "{", "}", "[", "]", "&x ", "&y ", "*x", "*y", "---\n", "...\n"),
    *("!!str ", "!!int ", "!!binary ", "!!map ", "!!seq ", "!!set ", "!own ", "! ", "|\n  ", "# c\n"),
    *("a: {b: 1}\n", "c: &z {d: 1, e: 2}\n", "<<: *z\n", "f: {<<: *z, d: 3}\n", "g: {<<: [*z, {d: 4, h: 5}]}\n"),
)


def values(text: str, loader: t.Any) -> list[t.Any]:
    return [value for value, dummy in yaml_values.documents(text, loader)]


def of_pyyaml(text: str, loader: t.Any) -> t.Any:
    """Return PyYAML's values of all documents, or None if it refuses the text."""
    try:
        return list(yaml.load_all(text, loader))
    except (yaml.YAMLError, ValueError, ArithmeticError, AttributeError, LookupError, TypeError):
        return None


@each_loader
@given(text=st.lists(st.sampled_from(PARTS), max_size=25).map("".join))
@example(text="a: &x {b: 1}\nc: {<<: *x, d: 2}\n")
@example(text="c: &z {d: 1}\ng: {d: 9, <<: [*z, {d: 4, h: 5}], <<: {h: 6}}\n")
@example(text="a: &x [1, 2]\nb: [*x, *x]\n---\n&x c\n")
@example(text="'<<': 1\n? '='\n: 2\n")
def test_the_values_are_those_of_pyyaml(loader: t.Any, text: str) -> None:
    """A text that is read has PyYAML's values. One that PyYAML reads is refused for a key or a tag alone."""
    expected = of_pyyaml(text, loader)
    try:
        found = values(text, loader)
    except BeyondLimits as refused:
        assert "twice" in str(refused) or "inside of what it stands for" in str(refused)
        return
    except (yaml.YAMLError, ValueError, ArithmeticError, AttributeError, LookupError, TypeError) as error:
        assert expected is None or "!!set" in text or "&x <<" in text, error
        return
    if expected is None:
        assert "=" in text  # PyYAML has no value for it
    else:
        assert repr(found) == repr(expected)


@each_loader
@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a: !!set {b, c}\n", "could not determine a constructor for the tag 'tag:yaml.org,2002:set'"),
        ("a: !own [b]\n", "could not determine a constructor for the tag '!own'"),
        ("a: !!seq {b: c}\n", "could not determine a constructor for the tag 'tag:yaml.org,2002:seq'"),
        ("a: !own b\n", "could not determine a constructor for the tag '!own'"),
        ("a: !!map b\n", "expected a mapping node, but found scalar"),
        ("a: <<\n", "could not determine a constructor for the tag 'tag:yaml.org,2002:merge'"),
        ("<<: 1\n", "expected a mapping or list of mappings for merging"),
        ("<<: [{a: 1}, 2]\n", "expected a mapping or list of mappings for merging"),
        ("? [a]\n: 1\n", "found unhashable key"),
        ("a: &x 1\nb: &x 2\n", "found duplicate anchor 'x'"),
        ("a: *x\n", "found undefined alias 'x'"),
        ("a: &x 1\n---\nb: *x\n", "found undefined alias 'x'"),
    ],
)
def test_what_is_refused_has_a_problem_and_a_line(loader: t.Any, text: str, problem: str) -> None:
    with pytest.raises(yaml.MarkedYAMLError) as refused:
        values(text, loader)
    assert refused.value.problem == problem
    assert refused.value.problem_mark is not None


@each_loader
@pytest.mark.parametrize("keys", ["a: 1\na: 2\n", "1: a\n0x1: b\n", "&x a: 1\n*x : 2\n", "a: {b: 1, b: 2}\n"])
def test_equal_keys_are_refused(loader: t.Any, keys: str) -> None:
    with pytest.raises(BeyondLimits, match=r"^has key \w+ twice\. Remove one of them\.$"):
        values(keys, loader)


@each_loader
def test_a_number_with_a_colon_is_a_text(loader: t.Any) -> None:
    assert values("[20:30, 1:2.5, 80, '80', 1.5]", loader) == [["20:30", "1:2.5", 80, "80", 1.5]]


def test_each_document_has_its_first_line_and_those_of_its_fields() -> None:
    text = "kind: Tier\n# c\n---\n\nkind: Tier\nspec:\n  order: 1\n---\n- kind: Tier\n- {kind: Tier,\n  spec: {}}\n"
    found = [lines for dummy, lines in documents_of(text, "tiers.yml")]
    assert [lines("") for lines in found] == [1, 5, 9, 10]
    assert [lines("spec.order") for lines in found] == [1, 7, 9, 11]


def test_a_file_is_parsed_once(tmp_path) -> None:
    """A change reads all files twice, and the resources in them three times: the documents are the same objects."""
    path = tmp_path / "tier.yml"
    path.write_text("{kind: Tier, metadata: {name: a}, spec: {order: 1}}\n")
    names, task_vars = {"calico_resource_files": [str(path)]}, {"inventory_dir": str(tmp_path)}
    (first,) = resource_files.documents(names, task_vars)["calico_resource_files"]
    (second,) = resource_files.readable(names, task_vars).documents["calico_resource_files"]
    assert first is second
    assert first.resource is second.resource
    path.write_text("{kind: Tier, metadata: {name: b}, spec: {order: 1}}\n")
    (third,) = resource_files.documents(names, task_vars)["calico_resource_files"]
    assert third.resource.name == "b"
