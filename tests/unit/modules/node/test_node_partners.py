# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Sessions that BIRD keeps although another node has the peer's address: the node module restarts them.

A run may be stopped after BIRD has read bird.cfg and before the restart. Only the state on the disk can tell the next
run, because bird.cfg is as it must be and BIRD has read it.
"""

from __future__ import annotations

import dataclasses

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.bgp.bird_state import Bird, BirdPeer
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.change import apply, boot
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.store.store import Store, Stored
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_state import NodeState
from ansible_collections.baremetal.host_routing.plugins.modules import node

from tests.unit.bird.conftest import FakeBird

NAMES = ("Mesh_10_10_1_12", "Mesh_10_10_1_13")


def state(*partners: str) -> NodeState:
    """Return a state with a session to each of these nodes; the first one has 10.10.1.12, the second one 10.10.1.13."""
    peers = tuple(
        BirdPeer(name, f"10.10.1.{last}", 64512, "mesh", node=partner)
        for name, last, partner in zip(NAMES, (12, 13), partners)
    )
    return NodeState(
        "node1", "10.10.1.11/24", bird=Bird("10.10.1.11", "10.10.1.11", 64512, "10.10.1.0/24", peers=peers)
    )


def target(*partners: str) -> Stored:
    return Stored(state(*partners), f"router id 10.10.1.11;\n# {partners}\n", ())


@pytest.fixture
def bird(host):
    """Return the host's BIRD. It has read its configuration, with the sessions to node2 and node3."""
    fake = FakeBird(host.machine.bird_socket)
    fake.answers["show status"] = [
        [b"1000-BIRD 2.0.12\n1011-Last reconfiguration on 2999-01-01 00:00:00.000\n0013 up\n"]
    ]
    fake.answers["configure"] = [[b"0002-Reading configuration\n0003 Reconfigured\n"]]
    fake.answers["restart"] = [[b"0002 restarted\n"]]
    fake.answers["show"] = [[b"0000 \n"]]
    apply.bring_to(host.machine, target("node2", "node3"))
    fake.asked.clear()
    yield fake
    fake.close()


def restarted(bird: FakeBird) -> list[str]:
    found = [command.partition(" ")[2] for command in bird.asked if command.startswith("restart ")]
    bird.asked.clear()
    return found


def killed_before_the_restart(host, monkeypatch, *partners: str) -> None:
    def killed(*_arguments):
        raise KeyboardInterrupt  # like a kill, it is caught nowhere

    with monkeypatch.context() as patch:
        patch.setattr(apply.configuration, "restart_sessions", killed)
        with pytest.raises(KeyboardInterrupt):
            apply.bring_to(host.machine, target(*partners))


def test_only_sessions_with_another_partner_are_restarted(host, bird: FakeBird) -> None:
    apply.bring_to(host.machine, target("node2", "node4"))
    assert restarted(bird) == [NAMES[1]]
    apply.bring_to(host.machine, target("node2", "node4"))
    assert restarted(bird) == []


def test_the_run_after_a_killed_one_restarts_what_that_left(host, bird: FakeBird, monkeypatch) -> None:
    """Check mode says so, and the run after that has nothing to do."""
    killed_before_the_restart(host, monkeypatch, "node3", "node2")
    assert restarted(bird) == []
    wanted = target("node3", "node2")
    given = {"state": wanted.state.to_dict(), "bird_config": wanted.bird_config, "files": []}
    for check in (True, False):
        answer = host.run(node, check=check, **given)
        assert answer.get("changed") is True, answer
        lines = [" ".join(line.split()) for line in answer["plan"] if " session " in line]
        assert lines == [
            f"~ session {NAMES[0]} started anew the peer is node3 now",
            f"~ session {NAMES[1]} started anew the peer is node2 now",
        ]
    assert restarted(bird) == [*NAMES]
    assert host.run(node, **given)["changed"] is False
    assert restarted(bird) == []


def test_the_run_after_a_killed_one_may_have_another_target(host, bird: FakeBird, monkeypatch) -> None:
    """What the killed run left and what this run changes are restarted once each, and no session that is gone."""
    killed_before_the_restart(host, monkeypatch, "node4", "node3")
    apply.bring_to(host.machine, target("node2", "node4"))
    assert restarted(bird) == [*NAMES]
    killed_before_the_restart(host, monkeypatch, "node2", "node3")
    apply.bring_to(host.machine, target("node2"))
    assert restarted(bird) == []


def test_a_boot_restarts_no_session(host, bird: FakeBird, monkeypatch) -> None:
    """BIRD starts after the boot unit, with the new partners."""
    killed_before_the_restart(host, monkeypatch, "node3", "node2")
    boot.restore(host.machine)
    assert Store(host.machine.store).load() == dataclasses.replace(
        target("node3", "node2"), complete=True, when=Store(host.machine.store).load().when
    )
    apply.bring_to(host.machine, target("node3", "node2"))
    assert restarted(bird) == []
