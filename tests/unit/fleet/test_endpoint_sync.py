# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What each node is sent about the workloads of others, from answers that may be malformed."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet import endpoint_sync
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.model import Endpoint
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.plain_data import to_plain
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.remote_endpoints import Collected

WHEN = "2026-11-22T06:00:00Z"
WEB = Endpoint("WorkloadEndpoint", "default/web", "node1", "caliweb", ("10.244.1.2",), (), (), (), "default")


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ({"node": "node1", "endpoints": []}, ""),
        ({"node": "node1", "endpoints": ()}, ""),
        ({"node": "", "endpoints": []}, ""),  # a node that was never configured
        ({"node": "", "endpoints": to_plain((WEB,))}, "it says that it is ''"),
        ({"node": "node2", "endpoints": []}, "it says that it is node2"),
        ({"endpoints": []}, "it says that it is None"),
        ({"node": "node1"}, "it answered no list of its workloads, but None"),
        ({"node": "node1", "endpoints": {}}, "it answered no list of its workloads, but a table"),
    ],
)
def test_an_answer_that_is_unusable_as_a_whole(answer: dict[str, t.Any], why: str) -> None:
    """An answer is refused, in words, unless it has a list of workloads and the host's name, or [] and the name ""."""
    assert endpoint_sync.refusal("node1", answer) == why


def known(value: t.Any) -> t.Mapping[str, str]:
    """Return the digests that are read from this value of `known`.

    Raise AssertionError if a part of the answer is left out.
    """
    found, left_out = endpoint_sync.teller("node1", {"node": "node1", "endpoints": [], "known": value}, [])
    assert left_out == ()
    return found.known


@pytest.mark.parametrize("value", [None, [], "x", {"node2": None}, {"node2": {}}, {"node2": {"digest": 7}}])
def test_digests_that_cannot_be_read_are_none(value: t.Any) -> None:
    """An entry without a text as its digest is left out, and so are all if they are no table; nothing fails.

    The node then receives more than it needs.
    """
    assert known(value) == {}


def test_a_table_with_too_many_digests_is_left_out() -> None:
    """A table of up to 131,072 digests is read, and a larger one is left out as a whole.

    An entry whose name is no text is left out, but counts.
    """
    table: dict[t.Any, t.Any] = {f"n{number}": {"digest": "d"} for number in range(131_071)}
    assert known({**table, 7: {"digest": "d"}}) == dict.fromkeys(table, "d")
    assert known({**table, 7: {"digest": "d"}, "more": {"digest": "d"}}) == {}


def test_a_node_is_sent_only_what_it_does_not_know() -> None:
    """A node gets the workloads of each other node that answered, without those that it has already."""
    digest = Collected("", (WEB,)).digest
    tellers = {
        "node1": endpoint_sync.Teller((WEB,), ("10.244.1.0/26",)),
        "node2": endpoint_sync.Teller((), (), {"node1": digest}),
        "node3": endpoint_sync.Teller((), (), {"node1": "another"}),
    }
    found = endpoint_sync.parts(tellers, ["node4", "node3", "node2", "node1"], WHEN)
    same = {"collected": WHEN, "blocks": ["10.244.1.0/26"]}
    empty = {"collected": WHEN, "blocks": [], "endpoints": []}
    names = ["node1", "node2", "node3", "node4"]
    assert found == {
        "node1": {"nodes": names, "told": {"node2": empty, "node3": empty}},
        "node2": {"nodes": names, "told": {"node1": same, "node3": empty}},
        "node3": {"nodes": names, "told": {"node1": {**same, "endpoints": to_plain((WEB,))}, "node2": empty}},
    }
