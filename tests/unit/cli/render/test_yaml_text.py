# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""PyYAML reads the YAML that calicoctl writes as the same data."""

from __future__ import annotations

import typing as t

import pytest
import yaml
from ansible_collections.baremetal.host_routing.plugins.module_utils.cli.render import yaml_text
from hypothesis import example, given, settings
from hypothesis import strategies as st

MISLEADING = (
    "yes|No|null|~|1e3|0x1f|1_000|12:30:45|2026-11-21|a: b|a #b|- x|=|<<|.inf|10.244.0.0/16|all()|cali*|rack == 'a'|a:b"
    "|ee:ee:ee:ee:ee:ee|1:2| x|x |@x|%x|!x|*x|&x|1.2|1.2.3.4|?|-|[|{x|a,b|a\tb"
).split("|")
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12) | st.sampled_from(MISLEADING)
SCALARS = st.none() | st.booleans() | st.integers() | TEXTS | st.floats(allow_nan=False)
DATA = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3))


@given(DATA)
@example({"a": [[1, [2]], {"b": {}}, []], "": None})
@example([{"x": [{"y": "z"}]}])
@example("a\u061c\u200b\x85\ufeff\U0001f600\x1b\u2028")
@settings(max_examples=60, deadline=None)
def test_it_is_read_back_as_it_was(value: t.Any) -> None:
    assert yaml.safe_load(yaml_text.dump(value)) == value


def test_yaml_is_written_in_block_style_with_sorted_keys() -> None:
    value = {"spec": {"cidr": "10.244.0.0/16", "natOutgoing": True, "uses": ["Workload", "Tunnel"]}, "items": []}
    assert yaml_text.dump(value) == (
        "items: []\nspec:\n  cidr: 10.244.0.0/16\n  natOutgoing: true\n  uses:\n  - Workload\n  - Tunnel\n"
    )


@pytest.mark.parametrize("value", [{1: 2}, {"a": {1}}, b"x"])
def test_an_unsupported_value_raises_a_type_error(value: t.Any) -> None:
    with pytest.raises(TypeError):
        yaml_text.dump(value)
