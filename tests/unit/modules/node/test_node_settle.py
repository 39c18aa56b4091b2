# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the module node finds at its end: sessions, routes and, on a host that needed no change, paths."""

from __future__ import annotations

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.bgp.bird_state import Bird, BirdPeer, BirdRoute
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.kernel.port import KernelError
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.probe import convergence, probing
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_state import NodeState
from ansible_collections.baremetal.host_routing.plugins.modules import node

from tests.unit.modules.node.test_node import PARAMS

ASKED = {**PARAMS, "settle": True, "targets": [("10.244.7.1", 1450, "node2", "default", "10.244.3.63")]}
CONVERGED = convergence.Convergence(2, 2, 3, 3, ())
NONE_SENT = {"paths": 0, "sent": 0, "lost": 0, "targets": []}
FOUND = {"converged": True, "sessions": {"expected": 2, "established": 2, "external_established": 0}}


@pytest.fixture
def probed(monkeypatch):
    """The addresses that were probed; none of them loses a probe, and the node has all sessions and routes."""
    seen = []

    def probe(targets, count, *dummy):
        seen.extend(target.address for target in targets)
        return [
            probing.ProbeResult(target.name, target.address, 84, count, count, 0.1, 0.2, 0.0, "") for target in targets
        ]

    monkeypatch.setattr(probing, "probe", probe)
    monkeypatch.setattr(convergence, "observe", lambda *dummy: CONVERGED)
    return seen


def test_a_host_that_changes_finds_nothing_out(host, probed):
    """A host that changes, or would change, probes nothing: others may be changing as well."""
    for check in (True, False):
        answer = host.run(node, check=check, **ASKED)
        assert answer["changed"] and "settled" not in answer
    assert probed == []


def test_a_host_that_needs_no_change_looks_and_probes(host, probed):
    host.run(node, **PARAMS)
    assert "settled" not in host.run(node, **PARAMS)
    assert "settled" not in host.run(node, check=True, **ASKED)
    settled = host.run(node, **ASKED)["settled"]
    assert {name: settled[name] for name in FOUND} == FOUND
    assert (settled["paths"], settled["sent"], settled["lost"]) == (1, 3, 0)
    assert probed == ["10.244.7.1"]


def test_a_host_that_changes_looks_if_it_is_asked_to(host, probed):
    """With `look` a changed host counts its sessions and routes after the change, and probes the paths of the call.

    In check mode it does neither.
    """
    assert "settled" not in host.run(node, check=True, **PARAMS, look=True)
    answer = host.run(node, **PARAMS, look=True)
    assert answer["changed"] is True
    assert answer["settled"] == {**FOUND, **NONE_SENT}
    assert probed == []
    settled = host.run(node, **PARAMS, look=True, targets=ASKED["targets"])["settled"]
    assert (settled["converged"], settled["paths"], settled["sent"], settled["lost"]) == (True, 1, 3, 0)
    assert probed == ["10.244.7.1"]


def test_a_missing_session_is_reported_without_waiting(host, probed, monkeypatch):
    looks = []
    missing = convergence.Convergence(2, 1, 3, 3, ("session",))
    monkeypatch.setattr(convergence, "observe", lambda *dummy: looks.append(dummy) or missing)
    host.run(node, **PARAMS)
    settled = host.run(node, **ASKED)["settled"]
    sessions = {"expected": 2, "established": 1, "external_established": 0}
    assert settled == {"converged": False, "sessions": sessions, **NONE_SENT}
    assert len(looks) == 1 and probed == []


@pytest.mark.parametrize("error", [KernelError(1, "no"), probing.ProbeError("no")])
def test_a_node_that_cannot_be_looked_at_is_in_its_state_all_the_same(host, probed, monkeypatch, error):
    def fail(*dummy):
        raise error

    monkeypatch.setattr(convergence, "observe", fail)
    host.run(node, **PARAMS)
    answer = host.run(node, **ASKED)
    assert answer["changed"] is False and "settled" not in answer and "failed" not in answer


def test_nodes_that_do_not_take_part_are_not_waited_for():
    peers = tuple(BirdPeer(f"p{n}", f"10.10.1.1{n}", 64512, "mesh", node=node) for n, node in enumerate(("a", "b", "")))
    routes = tuple(BirdRoute(f"10.244.{n}.0/26", "", "", False, node) for n, node in enumerate(("a", "b", "c")))
    state = NodeState(
        "me", "10.10.1.10/24", bird=Bird("1.1.1.1", "1.1.1.1", 64512, "10.10.1.0/24", peers=peers), bird_routes=routes
    )
    absent = convergence.absent(state, {"me", "a"})
    assert absent == ["b", "c"]
    left = convergence.without(state, absent)
    assert [peer.node for peer in left.bird.peers] == ["a", ""]
    assert [route.node for route in left.bird_routes] == ["a"]
