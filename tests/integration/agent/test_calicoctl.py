# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""calicoctl and three modules against the agent as nodes run it: no field of an answer is simulated."""

from __future__ import annotations

import json
import typing as t

import pytest
from ansible.module_utils.testing import patch_module_args
from ansible_collections.baremetal.host_routing.plugins.module_utils.cli import command
from ansible_collections.baremetal.host_routing.plugins.module_utils.node import machine
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.machine import Machine
from ansible_collections.baremetal.host_routing.plugins.modules import node_status_info, workload, workload_info

from tests.integration.agent.daemon_under_test import Daemon

pytestmark = pytest.mark.root


class Console:
    """A user who runs calicoctl and modules on the agent's node."""

    def __init__(self, daemon: Daemon, monkeypatch: pytest.MonkeyPatch, read: t.Callable[[], t.Any]) -> None:
        self._read = read
        folder = daemon.folder
        self._machine = Machine(
            daemon.kernel,
            root=str(folder / "root"),
            store=str(folder / "lib"),
            engine=str(folder / "engine"),
            ipam=str(folder / "lib" / "ipam"),
            workloads=str(folder / "run" / "workloads"),
            agent_socket=daemon.socket,
            bird_socket=str(folder / "run" / "bird.ctl"),
            bird_config=str(folder / "bird.cfg"),
        )
        monkeypatch.setattr(daemon.kernel, "close", lambda: None)
        monkeypatch.setattr(machine, "here", lambda: self._machine)

    def run(self, line: str, status: int = 0) -> str:
        self._read()
        found = command.main(line.split(), self._machine)
        captured = self._read()
        assert found == status, captured
        return t.cast(str, captured.out)

    def module(self, module: t.Any, **params: t.Any) -> dict[str, t.Any]:
        self._read()
        with patch_module_args({**params, "_ansible_diff": True}), pytest.raises(SystemExit):
            module.main()
        return t.cast("dict[str, t.Any]", json.loads(self._read().out))


@pytest.fixture
def console(daemon: Daemon, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Console:
    return Console(daemon, monkeypatch, capsys.readouterr)


def test_the_life_of_a_workload(daemon: Daemon, console: Console) -> None:
    daemon.in_sync()
    netns = daemon.netns("web")
    added = console.run(f"workload add web --netns {netns} --label app=web")
    (interface,) = daemon.links
    assert added == f"Attached default/web: 10.244.1.0 on {interface}, eth0 in {netns}\n"
    assert console.run(f"workload add web --netns {netns} --label app=web").startswith(
        "Already attached: default/web: "
    )
    console.run(f"workload add web --netns {netns} --label app=shop", status=1)
    assert console.run("workload list").splitlines()[1].split()[:4] == ["default", "web", "10.244.1.0", "default-pool"]
    assert console.run("get wep").splitlines()[1].split()[:3] == ["web", "node1", "10.244.1.0/32"]
    assert console.run("workload get web").startswith("id              default/web\n")
    assert console.run("ipam show --ip 10.244.1.0").startswith("IP 10.244.1.0 is in use\nHandle ID: default/web\n")
    blocks = console.run("ipam show --show-blocks").splitlines()
    assert [line.split("|")[3].strip() for line in blocks[3:6]] == ["16", "8", "8"]
    assert [line.split("|")[4].strip() for line in blocks[3:6]] == ["1 (6%)", "1 (12%)", "0 (0%)"]
    assert console.run("ipam check").endswith("Check complete; found 0 problems.\n")
    console.run("ipam release --ip 10.244.1.0", status=1)
    assert "in sync     yes" in console.run("status")
    assert console.run("plan") == "nothing to change\n"
    assert console.run("resync") == "in sync, nothing to repair\n"
    assert "Agent Version:     " in console.run("version")
    assert console.run("workload del web web") == "Deleted default/web\ndefault/web is not there: nothing to delete\n"
    assert console.run("ipam show --ip 10.244.1.0") == "10.244.1.0 is not assigned\n"


def test_the_disk_says_what_the_agent_said(daemon: Daemon, console: Console) -> None:
    daemon.add("web")
    lines = ("get wep -A -o wide", "workload list", "ipam show --show-blocks", "ipam check")
    said = [console.run(line) for line in lines]
    daemon.kill()
    assert [console.run(line) for line in lines] == said
    console.run("status", status=1)


def test_modules_get_real_answers_of_the_agent(daemon: Daemon, console: Console) -> None:
    daemon.in_sync()
    wanted = {"name": "db", "netns": daemon.netns("db"), "labels": {"app": "db"}}
    first = console.module(workload, **wanted)
    assert (first["changed"], first["workload"]["addresses"]) == (True, ["10.244.1.0"])
    assert console.module(workload, **wanted)["changed"] is False
    again = console.module(workload, **{**wanted, "labels": {"app": "shop"}, "mtu": 1300})
    assert (again["changed"], again["workload"]["addresses"]) == (True, ["10.244.1.0"])
    assert {link.mtu for link in daemon.kernel.links() if link.name in daemon.links} == {1300}
    (found,) = console.module(workload_info)["workloads"]
    assert (found["id"], found["by"], found["labels"]) == ("default/db", "api", {"app": "shop"})
    status = console.module(node_status_info)
    assert (status["workloads"], status["agent"]["running"], status["agent"]["in_sync"]) == (1, True, True)
    assert [(block["cidr"], block["in_use"]) for block in status["blocks"]] == [
        ("10.244.1.0/29", 1),
        ("10.244.1.8/29", 0),
    ]
    assert console.module(workload, name="db", state="absent")["changed"] is True
    assert console.module(workload, name="db", state="absent")["changed"] is False
