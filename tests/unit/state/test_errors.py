# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The texts of errors of an inventory: what they contain, and the names that they suggest."""

from __future__ import annotations

import pickle
import string

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.state import errors


def test_an_error_is_one_sentence_of_its_parts() -> None:
    """An error has the file, the variable, its value, the rule and the remedy; what is unknown is omitted."""
    told = errors.FleetError("calico_x[0].cidr", "10.0.0.1/8", "has host bits.", "Write 10.0.0.0/8.", "all.yml:7")
    assert str(told) == "all.yml:7: calico_x[0].cidr 10.0.0.1/8 has host bits. Write 10.0.0.0/8."
    assert told.args == (str(told),)
    bare = errors.FleetError("calico_x", None, "is missing.", "Set it.")
    assert str(bare) == "calico_x is missing. Set it."


def test_an_error_passes_to_another_process_as_it_is() -> None:
    """A pickled error has the same fields and the same text afterwards."""
    told = errors.FleetError("calico_x", False, "is wrong.", "Set it.", "all.yml:7")
    copy = pickle.loads(pickle.dumps(told))
    assert (type(copy), vars(copy), str(copy)) == (type(told), vars(told), str(told))


@pytest.mark.parametrize(
    ("label", "name"),
    [
        ("calico_node_bgp_peers[0] of node1", "calico_node_bgp_peers[0].peerIP of node1"),
        ("calico_bgp_peers[0]", "calico_bgp_peers[0].peerIP"),
    ],
)
def test_a_field_is_named_before_the_owner_of_its_list(label: str, name: str) -> None:
    """The name of a field follows that of its entry, and the host whose variable it is comes last."""
    assert errors.within(label, "peerIP") == name


def test_a_misspelt_name_is_corrected() -> None:
    """The name that resembles the given one most is suggested, whatever else is known."""
    assert errors.did_you_mean("nod1", ["rack", "node1", "spine"], "Known are") == "Did you mean node1?"
    assert errors.did_you_mean("nod1", ["node1"], "Known are") == "Did you mean node1?"


@pytest.mark.parametrize(
    ("count", "listed"),
    [
        (1, "a"),
        (2, "a or b"),
        (3, "a, b or c"),
        (8, "a, b, c, d, e, f, g or h"),
        (9, "a, b, c, d, e, f, g or ..."),
        (12, "a, b, c, d, e, f, g or ..."),
    ],
)
def test_names_are_listed_where_none_resembles(count: int, listed: str) -> None:
    """Without a similar name up to eight are listed in order; of more than eight only the first seven are."""
    known = reversed(string.ascii_lowercase[:count])
    assert errors.did_you_mean("something", known, "Known are") == f"Known are {listed}."
