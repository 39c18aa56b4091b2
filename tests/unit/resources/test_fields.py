# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Types of fields: their bounds, and what the schemas of documents require."""

from __future__ import annotations

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.resources import api as resources
from ansible_collections.baremetal.host_routing.plugins.module_utils.resources.errors import Refused
from ansible_collections.baremetal.host_routing.plugins.module_utils.resources.fields import (
    IPV4,
    IPV6,
    NODE_IPV4,
    NODE_IPV6,
    Integer,
    Text,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.resources.metadata import ANNOTATIONS


def test_a_whole_number_is_one_of_go() -> None:
    """A whole number without bounds of its own has those of Go's int64, in which Calico keeps it."""
    for value in (-(2**63), 2**63 - 1):
        assert Integer().read(value) == value
    for value in (-(2**63) - 1, 2**63):
        with pytest.raises(Refused):
            Integer().read(value)


@pytest.mark.parametrize(
    ("field", "schema"),
    [
        (Integer(), {"type": "integer"}),
        (Integer(1), {"type": "integer", "minimum": 1}),
        (Integer(maximum=9), {"type": "integer", "maximum": 9}),
        (Integer(-1, 2**32), {"type": "integer", "minimum": -1, "maximum": 2**32}),
    ],
)
def test_the_schema_of_a_whole_number_has_the_bounds_that_are_its_own(
    field: Integer, schema: dict[str, object]
) -> None:
    """A schema names the bounds of a field, and leaves out those of every integer."""
    assert field.schema() == schema


def test_zero_is_the_default() -> None:
    """0 means that the field is not set, as in Go, if 0 is among the valid numbers."""
    assert Integer(0, 9, 5).read(0) == 5
    with pytest.raises(Refused):
        Integer(1, 9, 5).read(0)


@pytest.mark.parametrize(
    ("field", "accepted", "refused"),
    [
        (IPV4, "10.0.0.1", ("fd00::1", "10.0.0", "10.0.0.1/32", "x")),
        (IPV6, "fd00::1", ("10.0.0.1", "fd00::1/128", "x")),
        (NODE_IPV4, "10.0.0.1/24", ("fd00::1/64", "10.0.0.1/33", "x")),
        (NODE_IPV6, "fd00::1/64", ("10.0.0.1/24", "fd00::1/129", "x")),
    ],
)
def test_an_address_has_the_ip_version_of_its_field(field: Text, accepted: str, refused: tuple[str, ...]) -> None:
    assert field.read(accepted) == accepted
    for text in refused:
        with pytest.raises(Refused) as caught:
            field.read(text)
        assert caught.value.value == text


@pytest.mark.parametrize("kind", sorted(resources.KINDS))
def test_a_document_needs_a_name_and_a_pool_its_range(kind: str) -> None:
    """The schema of every kind requires a name, and that of an IPPool a cidr as well, also in the flat form."""
    pool = kind == "IPPool"
    assert resources.json_schema(kind, flat=True)["required"] == (["name", "cidr"] if pool else ["name"])
    properties = resources.json_schema(kind)["properties"]
    assert properties["metadata"]["required"] == ["name"]
    assert properties["spec"].get("required") == (["cidr"] if pool else None)


def test_annotations_have_a_size() -> None:
    """Annotations have at most 256 KiB in all, keys and values; the error says how many bytes are too many."""
    most = 256 * 1024
    fits = {"a": "x" * (most - 3), "b": "y"}
    assert ANNOTATIONS.read(fits) == fits
    with pytest.raises(Refused) as caught:
        ANNOTATIONS.read({"a": "ä" * (most // 2)})
    assert caught.value.rule == f"have {most + 1} bytes in all, which is 1 too many."
