# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node in a folder of the test, with its state, records, BIRD and agent, and calicoctl on it."""

from __future__ import annotations

import pathlib
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.bgp.bird_state import Bird, BirdPeer
from ansible_collections.baremetal.host_routing.plugins.module_utils.cli import command
from ansible_collections.baremetal.host_routing.plugins.module_utils.cli.execution import Command
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.machine import Machine
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.store.store import Store, Stored
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.attachment import AttachedWorkload
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.fleet_list import FleetMember
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_state import (
    Block,
    NodeIpam,
    NodeState,
    Pool,
    TunnelDevice,
    VethEndpoint,
)

from tests.fakes.kernel import FakeKernel
from tests.unit.bird.conftest import FakeBird
from tests.unit.cli.fake_agent import FakeAgent

STATE = NodeState(
    "node1",
    "10.10.1.11/24",
    plan="7f3a91c02b1e55aa",
    pools=(
        Pool("default-ipv4-ippool", "10.244.0.0/16", 26, "IPIPCrossSubnet", True, workload_mtu=1480),
        Pool("lab", "10.245.0.0/24", 28, "None", node_selector="rack == 'a'"),
    ),
    ipam=NodeIpam(
        7,
        (Block("10.244.3.0/26", "default-ipv4-ippool"),),
        (Block("10.244.9.64/26", "default-ipv4-ippool"),),
        {"ipip": "10.244.3.0"},
        {"db": "10.244.3.1"},
        ("10.244.3.60/30",),
    ),
    devices=(TunnelDevice("tunl0", "ipip", 1480, "10.10.1.11", "10.244.3.0"),),
    workloads=(
        VethEndpoint("db", "cali0d3f1c11aa2", "10.244.3.1", 1480, "default-ipv4-ippool", netns="db",
                         labels={"app": "db"}),
    ),
    bird=Bird(
        "10.10.1.11",
        "10.10.1.11",
        64512,
        "10.10.1.0/24",
        peers=(
            BirdPeer("Global_10_10_1_1", "10.10.1.1", 65000, "external"),
            BirdPeer("Mesh_10_10_1_12", "10.10.1.12", 64512, "mesh", node="node2"),
            BirdPeer("Mesh_10_10_2_13", "10.10.2.13", 64512, "mesh", node="node3"),
        ),
    ),
    nodes=(
        FleetMember("node1", "10.10.1.11/24", 64512, labels={"rack": "a"}),
        FleetMember("node2", "10.10.1.12/24", 64512),
        FleetMember("node3", "10.10.2.13/24", 64520),
    ),
)  # fmt: skip

#: What calicoctl says besides an answer that would be about all nodes in a fleet with a datastore.
ALONE = "calicoctl: this is node1's view alone: without a datastore, a node knows only its own workloads.\n"
WEB = AttachedWorkload(
    id="default/web-1",
    name="web-1",
    interface="cali1f2e3d4c5b6",
    netns="web-1",
    netns_owned=True,
    addresses=("10.244.3.2",),
    pool="default-ipv4-ippool",
    labels={"app": "web", "tier": "front"},
    since="2026-11-21T07:00:00Z",
)
POD = AttachedWorkload(
    id="podman.3f0c.eth0",
    name="shop",
    namespace="prod",
    interface="cali99aabbccdde",
    netns="/run/netns/netns-3f0c",
    addresses=("10.244.3.3",),
    pool="default-ipv4-ippool",
    network="podman",
    container="3f0c",
)


class Node:
    """A node; `run` is calicoctl and returns (exit status, stdout, stderr), with the test's folder shown as NODE.

    `read` returns what was printed since its last call, with the fields `out` and `err`. With `controller`, calicoctl
    is the collection's, and `live` what it has for live documents.
    """

    def __init__(self, folder: pathlib.Path, read: t.Callable[[], t.Any]) -> None:
        self.folder = folder
        self._read = read
        (folder / "run").mkdir()
        self.machine = Machine(
            FakeKernel(),
            watched=0.0,
            root=str(folder / "root"),
            store=str(folder / "calico"),
            engine=str(folder / "engine"),
            bird_config=str(folder / "bird.cfg"),
            bird_socket=str(folder / "bird.ctl"),
            ipam=str(folder / "calico" / "ipam"),
            workloads=str(folder / "run" / "workloads"),
            agent_socket=str(folder / "run" / "agent.sock"),
        )
        self.controller = False
        self.live: t.Optional[Command] = None
        self.agents: list[FakeAgent] = []
        self._closed_at_end: list[t.Any] = []

    def store(self, state: NodeState = STATE, bird_config: t.Optional[str] = None) -> None:
        Store(self.machine.store).save(Stored(state, bird_config, (), "ops@control", complete=True))

    def bird(self, answer: t.Optional[bytes] = None) -> FakeBird:
        bird = FakeBird(self.machine.bird_socket)
        self._closed_at_end.append(bird)
        bird.answers["show status"] = [[b"1000-BIRD 2.0.12\n1011-Router ID is 10.10.1.11\n0013 Daemon is up\n"]]
        if answer is not None:
            bird.answers["show protocols all"] = [[answer]]
        return bird

    def agent(self) -> FakeAgent:
        agent = FakeAgent(self.machine.agent_socket)
        self._closed_at_end.append(agent)
        self.agents.append(agent)
        agent.answers["workload.list"] = {"workloads": [WEB.to_dict(), POD.to_dict()]}
        return agent

    def run(self, *arguments: str) -> tuple[int, str, str]:
        self._read()
        status = command.main(arguments, self.machine, controller=self.controller, live=self.live)
        captured = self._read()
        place = str(self.folder)
        return status, captured.out.replace(place, "NODE"), captured.err.replace(place, "NODE")

    def close(self) -> None:
        for thing in self._closed_at_end:
            thing.close()


@pytest.fixture
def node(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> t.Iterator[Node]:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    made = Node(tmp_path, capsys.readouterr)
    yield made
    made.close()


@pytest.fixture
def program(node: Node, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    """The path of the script that runs as ansible-playbook. It does nothing until a test writes another into it.

    Its folder is the first one in PATH, and the node's folder has an empty file `hosts`.
    """
    (node.folder / "bin").mkdir()
    (node.folder / "hosts").touch()
    path = node.folder / "bin" / "ansible-playbook"
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{node.folder / 'bin'}:/usr/bin:/bin")
    return path


def answering(text: str) -> str:
    """Return a program in the place of ansible-playbook that writes `text` as the playbook's answer."""
    found = '$(printf %s "$5" | sed \'s/.*"answer_file": "\\([^"]*\\)".*/\\1/\')'
    return f"#!/bin/sh\ncat > {found} <<'END'\n{text}\nEND\n"
