# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The fields of a peer that Calico does not have: the least and the greatest value, and the result of each."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.bgp import peer_extensions
from ansible_collections.baremetal.host_routing.plugins.module_utils.bgp.bird_state import Bfd
from ansible_collections.baremetal.host_routing.plugins.module_utils.resources.errors import Refused


def read(**fields: t.Any) -> peer_extensions.PeerExtensions:
    return peer_extensions.split({"name": "p", **fields})[1]


@pytest.mark.parametrize(
    ("field", "least", "greatest"),
    [
        ("holdTime", 3, 65535),
        ("keepaliveTime", 1, 65535),
        ("connectRetryTime", 1, 65535),
        ("longLivedStaleTime", 0, 16777215),
        ("listenPort", 0, 65535),
    ],
)
def test_numbers_have_bounds(field: str, least: int, greatest: int) -> None:
    for value in (least, greatest):
        assert getattr(read(**{field: value}), field) == value
    for value in (least - 1, greatest + 1):
        with pytest.raises(Refused):
            read(**{field: value})


@pytest.mark.parametrize(
    ("field", "least", "greatest"), [("minRx", 10, 60000), ("minTx", 10, 60000), ("multiplier", 2, 255)]
)
def test_intervals_of_bfd_have_bounds(field: str, least: int, greatest: int) -> None:
    for value in (least, greatest):
        bfd = read(bfd={field: value}).bfd
        assert bfd is not None
        assert {"minRx": bfd.min_rx, "minTx": bfd.min_tx, "multiplier": bfd.multiplier}[field] == value
    for value in (least - 1, greatest + 1):
        with pytest.raises(Refused):
            read(bfd={field: value})


def test_bfd_is_switched_on_and_off() -> None:
    assert (read(bfd=True).bfd, read(bfd=False).bfd, read().bfd) == (Bfd(), None, None)


@pytest.mark.parametrize("value", [True, "x", 1.5, "1500ms", 10**400, float("inf")])
def test_times_are_whole_seconds(value: t.Any) -> None:
    with pytest.raises(Refused):
        read(holdTime=value)


def test_times_are_written_with_a_unit_too() -> None:
    assert read(holdTime="1m30s").holdTime == 90


@pytest.mark.parametrize(
    ("value", "ours"), [("10.20.1.11/24", True), ("fd00::1/64", True), ("UseNodeIP", False), ("None", False)]
)
def test_an_address_as_source_is_ours_and_words_are_calicos(value: str, ours: bool) -> None:
    theirs, found = peer_extensions.split({"name": "p", "sourceAddress": value})
    assert ("sourceAddress" in theirs, found.sourceAddress) == (not ours, value if ours else "")
    assert found.source == (value.partition("/")[0] if ours else "")


def test_a_document_is_split_like_flat_fields() -> None:
    theirs, found = peer_extensions.split({"kind": "BGPPeer", "spec": {"peerIP": "10.0.0.1", "holdTime": 30}})
    assert (theirs, found.holdTime) == ({"kind": "BGPPeer", "spec": {"peerIP": "10.0.0.1"}}, 30)


@pytest.mark.parametrize("value", [None, 5, ["10.20.1.11"]])
def test_a_source_that_is_no_text_is_left_to_calicos_rules(value: t.Any) -> None:
    theirs, found = peer_extensions.split({"name": "p", "sourceAddress": value})
    assert (theirs["sourceAddress"], found.sourceAddress) == (value, "")
