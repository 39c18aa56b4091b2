# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of passwords of BGP sessions in the node module: they get into one file, and nowhere else."""

from __future__ import annotations

import dataclasses
import json

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.bgp import passwords
from ansible_collections.baremetal.host_routing.plugins.module_utils.bgp.bird_state import Bird, BirdPeer
from ansible_collections.baremetal.host_routing.plugins.module_utils.bird import secrets_file
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.change import auto_revert, boot, confirmation
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_state import NodeState
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.phase import Phase
from ansible_collections.baremetal.host_routing.plugins.modules import node, node_info, teardown

from tests.unit.node.systemctl import Systemctl

TOR, MESH = "tor-a:password", "mesh:password"
HUNTER = "hunter2-" + "x" * 20
PEERS = (
    BirdPeer("Global_10_10_1_1", "10.10.1.1", 65001, "external", password=TOR),
    BirdPeer("Mesh_10_10_1_12", "10.10.1.12", 64512, "mesh", node="node2", password=MESH),
    BirdPeer("Mesh_10_10_1_13", "10.10.1.13", 64512, "mesh", node="node3"),
)
CONFIG = "router id 10.10.1.11;\n"


def state(*peers: BirdPeer, **changes: object) -> NodeState:
    names = tuple(sorted({peer.password for peer in peers if peer.password}))
    bird = Bird("10.10.1.11", "10.10.1.11", 64512, "10.10.1.0/24", peers=peers, secrets=names)
    return dataclasses.replace(NodeState("node1", "10.10.1.11/24", plan="p1", bird=bird), **changes)


def params(*peers: BirdPeer, given: object = None, config: str = CONFIG, **changes: object) -> dict[str, object]:
    packed = passwords.pack(given) if given else None
    return {"state": state(*peers, **changes).to_dict(), "bird_config": config, "bgp_passwords": packed}


BOTH = {TOR: HUNTER, MESH: "mesh-password"}


def shown(answer: dict[str, object]) -> list[str]:
    return [" ".join(line.split()) for line in answer["plan"] if line[2:].startswith(("bird", "session"))]


def file_of(host):
    return host.folder / "bird.secrets.conf"


def test_check_do_check_do(host):
    planned, dummy = host.four_times(node, **params(*PEERS, given=BOTH))
    assert f"+ bird {file_of(host)} 2 passwords" in shown(planned)
    assert secrets_file.current(host.machine.bird_config) == BOTH
    assert file_of(host).stat().st_mode & 0o777 == 0o640


def test_nothing_but_the_file_holds_them(host):
    answers = [
        host.run(node, check=True, diff=True, **params(*PEERS, given=BOTH)),
        host.run(node, diff=True, **params(*PEERS, given=BOTH)),
        host.run(node, diff=True, **params(*PEERS, given={**BOTH, TOR: HUNTER[::-1]})),
        host.run(node_info),
        host.run(node_info, gather=["generation"], generation=1),
    ]
    packed = passwords.pack(BOTH)
    for secret in (HUNTER, HUNTER[::-1], "mesh-password", packed):
        assert secret not in json.dumps(answers)
        for path in host.folder.rglob("*"):
            if path.is_file() and path != file_of(host):
                assert secret.encode() not in path.read_bytes(), path


def test_a_password_that_is_a_word_takes_no_word_from_the_answer(host):
    answer = host.run(node, diff=True, **params(*PEERS[:1], given={TOR: "bird"}))
    assert f"+ bird {file_of(host)} 1 password" in shown(answer)


def test_the_plan_of_a_changed_password_names_its_peer(host):
    host.run(node, **params(*PEERS, given=BOTH))
    other = {TOR: "another", MESH: "mesh-password"}
    planned, done = host.four_times(node, **params(*PEERS, given=other))
    assert shown(planned) == shown(done)
    assert shown(done) == [
        "! session Global_10_10_1_1 restarts: password",
        "~ bird password of 10.10.1.1 tor-a:password is another one",
    ]
    assert (planned["sessions_reset"], done["sessions_reset"]) == (1, 1)
    assert 'another"' not in json.dumps(done["diff"])
    assert secrets_file.current(host.machine.bird_config) == other


def test_many_peers_are_counted(host):
    mesh = [BirdPeer(f"Mesh_{n}", f"10.10.1.{n}", 64512, "mesh", node=f"n{n}", password=MESH) for n in range(20, 24)]
    host.run(node, **params(*mesh, given=BOTH))
    answer = host.run(node, check=True, **params(*mesh, given={MESH: "another"}))
    assert shown(answer)[-1] == "~ bird password of 4 peers mesh:password is another one"
    assert answer["sessions_reset"] == 4
    two = host.run(node, check=True, **params(*mesh[:2], given={MESH: "another"}))
    two = host.run(node, check=True, **params(*mesh[:2], given={MESH: "another"}))
    line = "~ bird password of n20 (10.10.1.20), n21 (10.10.1.21) mesh:password is another one"
    assert line in shown(two)


def test_passwords_that_no_session_needs_are_removed(host):
    host.run(node, **params(*PEERS, given=BOTH))
    planned, dummy = host.four_times(node, **params(*PEERS[:1], given=BOTH))
    assert f"~ bird {file_of(host)} 2 passwords -> 1 password mesh:password goes" in shown(planned)
    assert secrets_file.current(host.machine.bird_config) == {TOR: HUNTER}
    planned, dummy = host.four_times(node, **params(PEERS[2]))
    assert f"- bird {file_of(host)} 1 password" in shown(planned)
    assert not file_of(host).exists()


def test_without_bgp_there_are_none(host):
    host.run(node, **params(*PEERS, given=BOTH))
    host.four_times(node, state=NodeState("node1", "10.10.1.11/24", plan="p2").to_dict())
    assert not file_of(host).exists()


def test_a_file_that_others_can_read_is_closed(host):
    host.run(node, **params(*PEERS, given=BOTH))
    file_of(host).chmod(0o644)
    for check in (True, False):
        answer = host.run(node, check=check, **params(*PEERS, given=BOTH))
        assert shown(answer) == [f"~ bird {file_of(host)} mode 0644 -> mode 0640 others could read it"]
    assert file_of(host).stat().st_mode & 0o777 == 0o640
    assert host.run(node, **params(*PEERS, given=BOTH))["changed"] is False


@pytest.mark.parametrize("check", [True, False])
def test_a_missing_password_is_named(host, check):
    answer = host.run(node, check=check, **params(*PEERS, given={MESH: "x"}))
    assert answer["failed"] is True
    assert answer["msg"] == (
        f"BIRD's sessions need the password tor-a:password, and neither calico_bgp_secrets nor {file_of(host)} of this "
        "node has it. Nothing was changed for BIRD. Put it into calico_bgp_secrets, then run again."
    )
    assert not (host.folder / "bird.cfg").exists() and not file_of(host).exists()


def test_a_stored_generation_takes_the_passwords_of_now(host):
    host.run(node, **params(*PEERS, given=BOTH))
    now = {**BOTH, TOR: "another"}
    host.run(node, **params(PEERS[0], given=now, plan="p2"))
    old = host.run(node_info, gather=["generation"], generation=1)["generation"]
    answer = host.run(node, state=old["state"], bird_config=old["bird_config"], bgp_passwords=passwords.pack(now))
    assert answer["generation"] == 3
    assert secrets_file.current(host.machine.bird_config) == now


def test_passwords_stored_on_the_node_need_not_be_given_again(host):
    host.run(node, **params(*PEERS, given=BOTH))
    answer = host.run(node, **params(*PEERS))
    assert answer["changed"] is False


@pytest.mark.parametrize("phase", ["prepare", "links"])
def test_while_sessions_are_held_known_passwords_stay(host, phase):
    host.run(node, **params(PEERS[0], given={TOR: HUNTER}))
    other = {TOR: "another", MESH: "mesh-password"}
    answer = host.run(node, **params(*PEERS, given=other, phase=phase))
    assert answer["sessions_reset"] == 0
    assert secrets_file.current(host.machine.bird_config) == {TOR: HUNTER, MESH: "mesh-password"}
    answer = host.run(node, **params(*PEERS, given=other, phase=Phase.FLIP))
    assert answer["sessions_reset"] == 1
    assert secrets_file.current(host.machine.bird_config) == other


def test_between_the_phases_of_a_change_none_goes(host):
    host.run(node, **params(*PEERS, given=BOTH))
    for phase in ("prepare", "flip"):
        host.run(node, **params(PEERS[2], phase=phase))
        assert secrets_file.current(host.machine.bird_config) == BOTH
    # The fleet returns to the former state, and the inventory no longer has the passwords.
    assert "failed" not in host.run(node, **params(*PEERS, phase=Phase.FLIP))
    host.run(node, **params(PEERS[2], phase=Phase.RETIRE))
    assert not file_of(host).exists()


def test_former_passwords_are_kept_until_the_change_is_confirmed(host):
    host.run(node, **params(*PEERS, given=BOTH))
    host.has_engine()
    new = params(PEERS[2], plan="p2", config="router id 10.10.1.99;\n")
    host.run(node, confirm_timeout=60, change="1st", **new)
    assert secrets_file.current(host.machine.bird_config) == BOTH
    again = host.run(node, check=True, confirm_timeout=60, **new)
    assert again["plan"] == []
    confirmation.confirm(host.machine, "1st")
    assert not file_of(host).exists()


def test_a_reverted_node_has_its_former_passwords(host):
    host.run(node, **params(*PEERS, given=BOTH))
    host.has_engine()
    new = params(PEERS[2], plan="p2", config="router id 10.10.1.99;\n")
    host.run(node, confirm_timeout=60, change="1st", **new)
    host.uptime = host.uptime._replace(seconds=host.uptime.seconds + 61)
    auto_revert.wait(host.machine, "1st")
    assert (host.folder / "bird.cfg").read_text() == CONFIG
    assert secrets_file.current(host.machine.bird_config) == BOTH


def test_at_boot_the_file_is_not_needed_where_bird_cfg_is_there(host):
    host.run(node, **params(*PEERS, given=BOTH))
    assert boot.restore(host.machine) is not None
    assert secrets_file.current(host.machine.bird_config) == BOTH


def test_node_info_says_which_ones_are_new_to_the_node(host):
    assert host.run(node_info, gather=["state"], bgp_passwords=passwords.pack(BOTH))["passwords_changed"] == []
    host.run(node, **params(*PEERS, given=BOTH))
    other = {**BOTH, TOR: "another", "third:x": "y"}
    answer = host.run(node_info, gather=["state"], bgp_passwords=passwords.pack(other))
    assert answer["passwords_changed"] == [TOR]
    assert host.run(node_info, gather=["state"])["passwords_changed"] == []
    failed = host.run(node_info, gather=["state"], bgp_passwords=HUNTER)
    assert failed["msg"] == "the passwords that arrived cannot be read. They are filled in by the module's action."


def test_a_teardown_takes_them_along(host):
    host.run(node, **params(*PEERS, given=BOTH))
    host.machine.systemctl = str(Systemctl(host.folder / "systemd").program)
    assert f"- file     {file_of(host)}" in "\n".join(host.run(teardown, check=True)["plan"])
    host.run(teardown)
    assert not file_of(host).exists()
