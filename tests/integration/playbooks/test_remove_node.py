# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""playbooks/remove_node.yml as users run it, up to the change of the other nodes.

Its "hosts" are this machine with folders, a network and a systemctl of their own. The lab removes a real node.
"""

from __future__ import annotations

import os
import pathlib
import re
import sys

import pytest
import yaml
from ansible_collections.baremetal.host_routing.plugins.module_utils.ipam import lockfile
from ansible_collections.baremetal.host_routing.plugins.module_utils.node import drain
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.store.endpoints import Endpoints
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.store.store import Store, Stored
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.attachment import AttachedWorkload

from tests.integration.ansible_playbook import PIPELINED, play
from tests.unit.fleet.fleets import build, states
from tests.unit.node.systemctl import Systemctl

NODES = {"node1": "10.10.1.11/24", "node2": "10.10.1.12/24", "node3": "10.10.1.13/24"}
_INTERPRETER = """\
#!/bin/sh
exec unshare --mount --net sh -c '
    mount --bind {root}/lib /var/lib && mount --bind {root}/run /run &&
    ip link add eth0 type veth peer name peer0 && ip link set peer0 up && ip link set eth0 up &&
    ip addr add {address} dev eth0 && ip route add default via 10.10.1.1 &&
    export PATH={root}/systemd:$PATH && exec {python} "$@"' sh "$@"
"""


class Sandbox:
    """An inventory of three nodes in a mesh; node2 has a workload that was attached between runs."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder = folder
        fleet = build(nodes=NODES, workloads=[])
        hosts: dict[str, dict[str, str]] = {}
        for node, state in states(fleet).items():
            root = folder / node
            (root / "run").mkdir(parents=True)
            Store(self.store(node)).save(Stored(state, complete=True))
            Systemctl(root / "systemd").have("calico-bird.service.enabled")
            interpreter = root / "python"
            interpreter.write_text(_INTERPRETER.format(root=root, address=NODES[node], python=sys.executable))
            interpreter.chmod(0o755)
            hosts[node] = {
                "ansible_connection": "local",
                "ansible_python_interpreter": str(interpreter),
                "calico_node_address": NODES[node],
            }
        pools = [{"name": "default", "cidr": "10.244.0.0/16"}]
        self.inventory = {"calico_nodes": {"hosts": hosts, "vars": {"calico_ip_pools": pools}}}
        (folder / "hosts.yml").write_text(yaml.safe_dump(self.inventory))
        (folder / ".calico.lock.yml").write_text(lockfile.dump(fleet.allocation))
        workload = AttachedWorkload("default/web", "web", interface="cali1", addresses=("10.244.1.2",))
        Endpoints(str(folder / "node2" / "run" / "calico" / "workloads")).save(workload)

    def store(self, node: str) -> str:
        return str(self.folder / node / "lib" / "calico")

    def play(self, *options: str) -> tuple[int, str]:
        """Run remove_node.yml for node2; return its exit status, and its output as one line.

        Each run of white space is one space. Raise AssertionError if the output has a traceback, and
        subprocess.TimeoutExpired after 120 seconds.
        """
        hosts = self.folder / "hosts.yml"
        done = play("playbooks/remove_node.yml", hosts, "-e", "node=node2", *options, environment=PIPELINED)
        assert "Traceback" not in done.stdout + done.stderr, done.stdout + done.stderr
        return done.returncode, re.sub(r"\s+", " ", done.stdout + done.stderr)


@pytest.fixture
def sandbox(tmp_path: pathlib.Path) -> Sandbox:
    return Sandbox(tmp_path)


def test_check_mode_shows_all_that_would_go_and_changes_nothing(sandbox: Sandbox) -> None:
    before = (sandbox.folder / ".calico.lock.yml").read_text()
    status, said = sandbox.play("--check", "--diff")
    assert status == 0, said
    for line in (
        "+ file /var/lib/calico/drained.json takes no new workloads",
        "- file /var/lib/calico/ ",
        "+ - {cidr: ",  # the lockfile: node2's blocks are in quarantine
        "! session Mesh_10_10_1_12 (node2) ends",
        "fleet 2 of 2 nodes change · 2 BGP sessions reset",
        f"node2 would leave the fleet. Delete it from the inventory ({sandbox.folder}/hosts.yml:",
    ):
        assert line in said, (line, said)
    assert not os.path.exists(drain.path(sandbox.store("node2")))
    assert (sandbox.folder / ".calico.lock.yml").read_text() == before


def test_a_missing_confirmation_or_a_workload_stops_the_removal(sandbox: Sandbox) -> None:
    """A missing confirmation stops the playbook, and so does a running workload.

    In the second case the node takes no new workloads any more, but is unchanged otherwise.
    """
    status, said = sandbox.play()
    assert status == 2 and "and -e confirm=true to do it. Nothing was changed." in said
    assert drain.load(sandbox.store("node2")) is None
    status, said = sandbox.play("-e", "confirm=true")
    assert status == 2 and (
        "node2 takes no new workloads any more, and 1 still run there: default/web. Move them and run this again; "
        "or -e evict=true takes their network away. playbooks/site.yml takes the node back into service." in said
    )
    assert drain.load(sandbox.store("node2")) is not None
    assert os.path.exists(os.path.join(sandbox.store("node2"), "state.json"))


def test_a_node_that_is_down(sandbox: Sandbox) -> None:
    """A node that is down stops the playbook. With unreachable=true the node is not contacted, and it goes on.

    It goes on in check mode here.
    """
    gone = {"ansible_connection": "ssh", "ansible_host": "127.0.0.1", "ansible_port": 1}
    sandbox.inventory["calico_nodes"]["hosts"]["node2"].update(gone)
    (sandbox.folder / "hosts.yml").write_text(yaml.safe_dump(sandbox.inventory))
    status, said = sandbox.play("-e", "confirm=true")
    assert status == 2 and "node2 cannot be reached (" in said and "or, if it is dead, add -e unreachable=true" in said
    status, said = sandbox.play("-e", "unreachable=true", "--check")
    assert status == 0, said
    assert "drained" not in said and "node2 would leave the fleet." in said
    assert "fleet 2 of 2 nodes change · 2 BGP sessions reset" in said
