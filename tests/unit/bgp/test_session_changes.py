# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Sessions that a reconfiguration interrupts; tests/integration/bird shows that BIRD agrees with the table."""

from __future__ import annotations

import dataclasses
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.bgp import session_changes
from ansible_collections.baremetal.host_routing.plugins.module_utils.bgp.bird_state import (
    BackupRoute,
    Bfd,
    Bird,
    BirdPeer,
    BirdPool,
)

CLIENT = BirdPeer("Node_10_0_0_2", "10.0.0.2", 64512, "client", node="node2")
MESH = BirdPeer("Mesh_10_0_0_3", "10.0.0.3", 64512, "mesh", node="node3")
TOR = BirdPeer("Global_10_0_0_1", "10.0.0.1", 65000, "external")
BIRD = Bird(
    router_id="10.0.0.9",
    address="10.0.0.9",
    as_number=64512,
    subnet="10.0.0.0/24",
    peers=(CLIENT, MESH, TOR),
    cluster_id="1.1.1.1",
)

#: {field of BirdPeer: a value that differs from those of the peers above}.
OTHER: dict[str, t.Any] = {
    "name": "Node_10_0_0_22",
    "address": "10.0.0.22",
    "as_number": 64999,
    "kind": "node",
    "passive": True,
    "node": "node22",
    "multihop": False,
    "family": 6,
    "port": 1179,
    "local_port": 1179,
    "local_as": 64999,
    "source_address": "10.0.0.99",
    "cluster_id": "9.9.9.9",
    "password": "another",
    "ttl_security": 1,
    "hold_time": 30,
    "keepalive_time": 10,
    "connect_retry_time": 20,
    "graceful_restart_time": 60,
    "long_lived_stale_time": 600,
    "bfd": Bfd(),
    "next_hop": "self",
    "allow_local_as": 2,
    "reachable_by": "10.0.0.254",
    "filters": ("no-default",),
}


def texts(before: t.Optional[Bird], after: t.Optional[Bird]) -> dict[str, str]:
    return {change.name: change.text for change in session_changes.changes(before, after)}


def with_peers(*peers: BirdPeer, **fields: t.Any) -> Bird:
    return dataclasses.replace(BIRD, peers=peers, **fields)


def test_every_field_of_a_session_is_known_to_restart_it_or_not() -> None:
    fields = {field.name for field in dataclasses.fields(BirdPeer)}
    assert fields == {*session_changes.RESTARTING, *session_changes.QUIET, "node"} == set(OTHER)


@pytest.mark.parametrize("field", sorted(session_changes.RESTARTING))
def test_a_session_restarts_for_each_of_these(field: str) -> None:
    word = session_changes.RESTARTING[field]
    peer = dataclasses.replace(MESH, source_address="10.0.0.9")  # without it, `family` would change the default, too
    before, after = with_peers(peer), with_peers(dataclasses.replace(peer, **{field: OTHER[field]}))
    assert texts(before, after) == texts(after, before) == {MESH.name: f"restarts: {word}"}


@pytest.mark.parametrize("field", sorted(set(session_changes.QUIET) - {"name"}))
def test_a_session_takes_these_over(field: str) -> None:
    assert texts(with_peers(MESH), with_peers(dataclasses.replace(MESH, **{field: OTHER[field]}))) == {}


def test_a_session_with_another_node_at_the_same_address_is_restarted_by_the_node() -> None:
    """Two nodes exchanged their addresses. BIRD itself would keep the session until the hold time is over."""
    before, after = with_peers(MESH, CLIENT), with_peers(dataclasses.replace(MESH, node="node7"), CLIENT)
    assert texts(before, after) == texts(after, before) == {MESH.name: "restarts: partner"}
    assert session_changes.with_other_partners(before, after) == (MESH.name,)
    unknown = with_peers(dataclasses.replace(MESH, node=""), CLIENT)
    assert texts(before, unknown) == texts(unknown, before) == {}
    by_bird = with_peers(dataclasses.replace(MESH, node="node7", hold_time=9), CLIENT)
    assert texts(before, by_bird) == {MESH.name: "restarts: hold time, partner"}
    assert session_changes.with_other_partners(before, by_bird) == ()
    assert session_changes.with_other_partners(None, after) == session_changes.with_other_partners(before, None) == ()


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"router_id": "1.2.3.4"}, dict.fromkeys([CLIENT.name, MESH.name, TOR.name], "restarts: router id")),
        ({"address": "10.0.0.8"}, dict.fromkeys([CLIENT.name, MESH.name, TOR.name], "restarts: source address")),
        ({"listen_port": 1179}, {
            CLIENT.name: "restarts: port, own port",
            MESH.name: "restarts: port, own port",
            TOR.name: "restarts: own port",
        }),
        ({"graceful_restart_time": 4}, dict.fromkeys(
            [CLIENT.name, MESH.name, TOR.name], "restarts: graceful restart time"
        )),
        ({"cluster_id": "2.2.2.2"}, {CLIENT.name: "restarts: cluster id"}),
        ({"cluster_id": None}, {CLIENT.name: "restarts: cluster id"}),
        # The session with the client, in the former AS, becomes eBGP: no routes are reflected, so it has no cluster id.
        ({"as_number": 64600}, {
            CLIENT.name: "restarts: own AS number, cluster id",
            MESH.name: "restarts: own AS number",
            TOR.name: "restarts: own AS number",
        }),
        ({"blocks": ("10.244.0.0/26",)}, {}),
        ({"pools": (BirdPool("10.244.0.0/16"),)}, {}),
        ({"log_severity": "Debug"}, {}),
        ({"backups": (BackupRoute("10.244.0.0/26", "10.0.0.2"),)}, {}),
    ],
)  # fmt: skip
def test_a_changed_option_of_all_sessions_restarts_those_that_use_it(
    changes: dict[str, t.Any], expected: dict[str, str]
) -> None:
    assert texts(BIRD, dataclasses.replace(BIRD, **changes)) == expected


def test_own_options_of_a_session_override_those_of_all() -> None:
    own = dataclasses.replace(MESH, local_as=64600, source_address="", graceful_restart_time=5, port=1, local_port=2)
    before = with_peers(own)
    after = dataclasses.replace(before, as_number=1, address="10.0.0.1", graceful_restart_time=7, listen_port=9)
    assert texts(before, after) == {}


def test_the_same_said_in_another_way_is_no_change() -> None:
    explicit = dataclasses.replace(CLIENT, cluster_id="1.1.1.1", local_as=64512, source_address="10.0.0.9", port=179)
    explicit = dataclasses.replace(explicit, connect_retry_time=5)
    assert texts(with_peers(CLIENT), with_peers(explicit)) == {}
    assert texts(with_peers(explicit), with_peers(CLIENT)) == {}


def test_sessions_come_and_go() -> None:
    renamed = dataclasses.replace(MESH, name="Node_10_0_0_3", kind="reflector")
    assert texts(with_peers(CLIENT, MESH), with_peers(CLIENT, renamed)) == {MESH.name: "ends", renamed.name: "begins"}
    assert texts(None, BIRD) == dict.fromkeys([CLIENT.name, MESH.name, TOR.name], "begins")
    assert texts(BIRD, None) == dict.fromkeys([CLIENT.name, MESH.name, TOR.name], "ends")
    assert [change.name for change in session_changes.resets(BIRD, with_peers(MESH))] == [CLIENT.name, TOR.name]
    assert texts(BIRD, BIRD) == texts(None, None) == {}


def test_ended_and_restarted_sessions_endanger_routes() -> None:
    reflector = dataclasses.replace(CLIENT, kind="reflector")
    (begun,) = session_changes.changes(None, with_peers(MESH))
    assert not session_changes.endangers(begun, {"node3"})
    ended = {peer.kind: session_changes.resets(with_peers(peer), with_peers())[0] for peer in (MESH, reflector, TOR)}
    assert session_changes.endangers(ended["mesh"], {"node3"})
    assert not session_changes.endangers(ended["mesh"], {"node1"})  # node3 leaves the fleet, and its routes with it
    assert session_changes.endangers(ended["reflector"], {"node1"})
    assert session_changes.endangers(ended["external"], set())
    (restarted,) = session_changes.changes(with_peers(MESH), with_peers(dataclasses.replace(MESH, passive=True)))
    assert session_changes.endangers(restarted, set())


def test_a_new_value_of_a_password_restarts_the_sessions_that_use_it() -> None:
    peers = (
        BirdPeer("Global_10_10_1_1", "10.10.1.1", 65001, "external", password="tor-a:password"),
        BirdPeer("Global_10_10_1_2", "10.10.1.2", 65001, "external", password="tor-b:password"),
        BirdPeer("Global_10_10_1_3", "10.10.1.3", 65001, "external"),
    )
    bird = Bird("10.10.1.11", "10.10.1.11", 64512, "10.10.1.0/24", peers=peers)
    assert session_changes.resets(bird, bird) == ()
    (found,) = session_changes.resets(bird, bird, ["tor-a:password", "other:password"])
    assert (found.name, found.text) == ("Global_10_10_1_1", "restarts: password")
    renamed = dataclasses.replace(bird, peers=(dataclasses.replace(peers[0], password="tor-b:password"),))
    texts = [change.text for change in session_changes.resets(bird, renamed, ["tor-b:password"])]
    assert texts == ["restarts: password", "ends", "ends"]
