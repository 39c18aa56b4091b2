# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Entries of docs/how-to/runbook.md: each trouble is made, and the entry's commands are run as the page has them.

Commands run in a git repository with the inventory `inventories/prod`, as on a controller. `ssh` is that of the lab.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.lab.fleet import ping, workloads
from tests.lab.handle import BaseLab
from tests.lab.page import Command, is_in_order
from tests.lab.shell import wait_until

from .conftest import LAB, ROOT, Fleet, new_lab
from .runbook_page import entry

CALICO = Path("inventories/prod/group_vars/all/calico.yml")
LOCKFILE = Path("inventories/prod/.calico.lock.yml")
#: db-1 accepts TCP port 5432 from web workloads and nothing else.
POLICY = [
    {
        "apiVersion": "projectcalico.org/v3",
        "kind": "NetworkPolicy",
        "metadata": {"name": "db", "namespace": "default"},
        "spec": {
            "selector": "app == 'db'",
            "types": ["Ingress"],
            "ingress": [
                {
                    "action": "Allow",
                    "protocol": "TCP",
                    "source": {"selector": "app == 'web'"},
                    "destination": {"ports": [5432]},
                }
            ],
        },
    }
]
#: All that the collection has on a host, to lose and to restore.
FILES = "/var/lib/calico /etc/calico /usr/local/lib/calico /usr/local/bin/calicoctl /etc/systemd/system/calico-*"
#: The folder and size of a file system that is full soon.
SMALL_DISK = "/var/lib/calico", "2m"


class Controller:
    """A folder from which an operator works: a git repository with the inventory, playbooks and bin beside it."""

    def __init__(self, fleet: Fleet, folder: Path) -> None:
        self.fleet = fleet
        self.lab = fleet.lab
        self.folder = folder
        programs = folder / ".programs"
        programs.mkdir()
        (programs / "ssh").write_text(f'#!/bin/sh\nexec /usr/bin/ssh -F {self.lab.ssh_config} "$@"\n')
        (programs / "ssh").chmod(0o755)
        author = {f"GIT_{who}_{what}": "operator" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
        path = f"{programs}:{ROOT / '.venv' / 'bin'}:{os.environ['PATH']}"
        self.environment = {**fleet.environment, **author, "PATH": path}
        shutil.copytree(ROOT / "inventories" / "lab", folder / "inventories" / "prod")
        for name in ("playbooks", "bin"):
            (folder / name).symlink_to(ROOT / name)
        (folder / ".gitignore").write_text("playbooks\nbin\n.programs\n")
        self.change(lambda variables: variables.pop("calico_lockfile"))
        self.change(lambda variables: variables.update(calico_policies=POLICY))

    def change(self, how: Callable[[dict[str, Any]], object]) -> None:
        """Rewrite the fleet's variables with `how`, which changes the dict that it gets."""
        path = self.folder / CALICO
        variables = yaml.safe_load(path.read_text("utf-8"))
        how(variables)
        path.write_text(yaml.safe_dump(variables, sort_keys=False), "utf-8")

    def run(self, command: str) -> tuple[int, str]:
        """Return the exit status of a shell command in the folder, and its output with stderr."""
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=600,
            check=False,
        )
        return done.returncode, done.stdout

    def do(self, command: str) -> str:
        """Return the output of a command in the folder; raise AssertionError if it fails."""
        code, output = self.run(command)
        assert code == 0, f"{command}\n{output[-6000:]}"
        return output

    def site(self) -> str:
        return self.do("ansible-playbook -i inventories/prod playbooks/site.yml")

    def commit(self, message: str) -> None:
        self.do(f"git add -A && git commit -q --allow-empty -m '{message}'")

    def perform(self, heading: str, *, begin: str = "", end: str = "") -> None:
        """Run an entry's commands one after the other, and compare their output with the page.

        `begin` is the first command to run, and `end` the first one to leave out, each by a part of it.
        """
        commands = entry(heading).commands
        places = {part: _place(commands, part) for part in (begin, end) if part}
        for command in commands[places.get(begin, 0) : places.get(end, len(commands))]:
            _code, output = self.run(command.text)
            expected = "\n".join(command.output)
            assert is_in_order(command.output, output), (
                f"$ {command.text}\n{output[-8000:]}\n--- is not ---\n{expected}"
            )


def _place(commands: Sequence[Command], part: str) -> int:
    return next(index for index, command in enumerate(commands) if part in command.text)


@pytest.fixture(scope="module")
def lab() -> Iterator[BaseLab]:
    with new_lab(f"{LAB}-runbook") as lab:
        yield lab


@pytest.fixture(scope="module")
def controller(lab: BaseLab, tmp_path_factory: pytest.TempPathFactory) -> Controller:
    controller = Controller(Fleet(lab), tmp_path_factory.mktemp("controller"))
    controller.do("git init -q -b main")
    controller.site()
    return controller


@pytest.fixture(autouse=True)
def committed(controller: Controller) -> None:
    """A clean working tree at the start of each test."""
    controller.commit("before")


def plan_of(controller: Controller) -> str:
    """Return the lockfile's text without its generation."""
    return re.sub(r"^generation: .*$", "", (controller.folder / LOCKFILE).read_text("utf-8"), flags=re.MULTILINE)


def everything_reaches_web(lab: BaseLab) -> bool:
    """Return whether the first workload of each node reaches those whose policy lets it."""
    found = workloads(lab)
    webs = [one for one in found if one.name.startswith("web")]
    return all(ping(lab, one.node, web.address, one.name) for one in found for web in webs if one is not web)


def test_commands_of_a_first_look_work(controller: Controller) -> None:
    controller.perform("First look")


def test_a_phase_that_is_stuck(controller: Controller, lab: BaseLab) -> None:
    controller.do(
        "ansible calico_nodes -i inventories/prod -m baremetal.host_routing.node"
        " -a 'pool=default-ipv4-ippool mode=direct phase=prepare'"
    )
    assert everything_reaches_web(lab)
    controller.perform("A phase is stuck")
    assert everything_reaches_web(lab)


def test_the_lockfile_is_lost(controller: Controller) -> None:
    """A lost lockfile is rebuilt with the same blocks and addresses, and refused while a node cannot be asked."""
    before = plan_of(controller)
    controller.do(f"git rm -q {LOCKFILE} && git commit -qm lost")
    controller.perform("The lockfile is lost")
    assert plan_of(controller) == before


def test_the_lockfile_has_a_conflict(controller: Controller) -> None:
    """Two branches that both ran conflict; afterwards the file has both branches' addresses, as the nodes do."""
    first = '{"name": "topic-1", "node": "node1"}'
    controller.do("git checkout -q -b topic")
    # Each branch adds a workload at its own end of the list, so git merges the inventory without a conflict.
    controller.change(lambda found: found["calico_workloads"].insert(0, yaml.safe_load(first)))
    controller.site()
    controller.commit("topic")
    controller.do("git checkout -q main")
    controller.change(lambda found: found["calico_workloads"].append({"name": "main-1", "node": "node4"}))
    controller.site()
    controller.commit("main")
    controller.perform("The lockfile has a conflict")
    plan = yaml.safe_load((controller.folder / LOCKFILE).read_text("utf-8"))
    assert "topic-1" in plan["nodes"]["node1"]["workloads"] and "main-1" in plan["nodes"]["node4"]["workloads"]
    found = {one.name: one.address for one in workloads(controller.lab)}
    planned = {name: address for node in plan["nodes"].values() for name, address in node["workloads"].items()}
    assert found == planned
    extra = ("topic-1", "main-1")
    controller.change(
        lambda variables: variables.update(
            calico_workloads=[one for one in variables["calico_workloads"] if one["name"] not in extra]
        )
    )
    controller.site()


def lose_everything(lab: BaseLab, node: str) -> None:
    """Bring a host to what a new disk has: nothing of the collection, neither on the disk nor in the kernel."""
    lab.exec(node, f"systemctl disable -q --now calico-agent calico-bird calico-node-state; rm -rf {FILES}")
    lab.reboot(node)


def test_a_node_was_reinstalled(controller: Controller, lab: BaseLab) -> None:
    before = workloads(lab)
    lose_everything(lab, "node4")
    controller.perform("A node was reinstalled")
    assert workloads(lab) == before
    assert everything_reaches_web(lab)

    def finished() -> bool:
        shown = lab.exec("node4", ["calicoctl", "status"], check=False).stdout
        return "phase converge\n" in shown

    wait_until("the agent knows that the first run has ended", finished, 90)


def test_a_node_was_restored_from_a_backup(controller: Controller, lab: BaseLab) -> None:
    """A node comes back from a backup with a block that node2 has meanwhile; it gets another one.

    Before that, it comes back with an old plan of its own blocks, and one run brings it up to date.
    """
    lab.exec("node4", f"tar -cPf /root/backup.tar {FILES}", timeout=120)
    controller.change(lambda found: found["calico_workloads"].append({"name": "late-1", "node": "node4"}))
    controller.site()
    restore(lab)
    assert [one.name for one in workloads(lab) if one.node == "node4"] == ["db-2"]
    controller.site()
    assert "late-1" in [one.name for one in workloads(lab)]
    controller.change(lambda found: found["calico_workloads"].pop())
    controller.site()
    # node2 gets node4's block, as after a removal and a release.
    lose_everything(lab, "node4")
    plan = yaml.safe_load((controller.folder / LOCKFILE).read_text("utf-8"))
    gone = plan["nodes"].pop("node4")
    plan["nodes"]["node2"]["blocks"] += gone["blocks"]
    (controller.folder / LOCKFILE).write_text(yaml.safe_dump(plan), "utf-8")
    controller.site()
    controller.commit("node2 has the block")
    restore(lab)
    controller.perform("A node was restored from a backup")
    owned = [
        block["cidr"] for node in yaml.safe_load(plan_of(controller))["nodes"].values() for block in node["blocks"]
    ]
    assert len(owned) == len(set(owned)) == 5 and gone["blocks"][0]["cidr"] in owned
    assert everything_reaches_web(lab)


def restore(lab: BaseLab) -> None:
    """Bring node4 back from its backup, and restart it."""
    lab.exec("node4", f"rm -rf {FILES}; tar -xPf /root/backup.tar; systemctl daemon-reload", timeout=120)
    lab.exec("node4", "systemctl enable -q calico-agent calico-bird calico-node-state")
    lab.reboot("node4")


SNIPPET = "/etc/calico/bird.d/lab.conf"


def test_a_bird_whose_snippet_is_wrong(controller: Controller, lab: BaseLab) -> None:
    lab.exec("node1", f"mkdir -p /etc/calico/bird.d; echo 'protocol statik {{ }}' > {SNIPPET}")
    lab.exec("node1", "systemctl restart calico-bird", check=False)
    controller.perform("BIRD does not come up", end="ssh node2")
    controller.perform("BIRD does not come up", begin="playbooks/site.yml")


def test_a_bird_whose_port_is_taken(controller: Controller, lab: BaseLab) -> None:
    listen = "import socket, time; s = socket.create_server(('0.0.0.0', 179)); time.sleep(3600)"
    lab.exec("node2", ["systemctl", "stop", "calico-bird"])
    lab.exec("node2", ["systemd-run", "-q", "--unit=other-bgp", "python3", "-c", listen])
    time.sleep(2)
    lab.exec("node2", ["systemctl", "start", "calico-bird"])
    controller.perform("BIRD does not come up", begin="ssh node2 calicoctl node status")


def test_a_disk_is_full(controller: Controller, lab: BaseLab) -> None:
    """A file system that is full refuses a run and an add, and changes nothing on the node."""
    folder, size = SMALL_DISK
    lab.exec(
        "node2",
        f"set -e; systemctl stop calico-agent; cp -a {folder} /root/small; mount -t tmpfs -o size={size} x {folder};"
        f"cp -a /root/small/. {folder}/; systemctl start calico-agent; dd if=/dev/zero of={folder}/big-file bs=4k || :",
    )
    controller.change(lambda found: found["calico_workloads"].append({"name": "disk-1", "node": "node2"}))
    try:
        controller.perform("A disk is full")
        assert "disk-1" in [one.name for one in workloads(lab)]
    finally:
        lab.exec(
            "node2",
            f"systemctl stop calico-agent; rm -f {folder}/big-file; cp -a {folder}/. /root/small/; umount {folder};"
            f"cp -a /root/small/. {folder}/; systemctl start calico-agent",
        )
    controller.change(lambda found: found["calico_workloads"].pop())
    controller.site()


def test_an_address_leaked(controller: Controller, lab: BaseLab) -> None:
    """The address of a container that no runtime starts again after a reboot leaks, and is free when it is released."""
    lab.exec("node3", "ip netns add box; calicoctl workload add box-1 --netns /run/netns/box")
    lab.reboot("node3")
    lab.exec("node3", "ip netns add box2; calicoctl workload add box-2 --netns /run/netns/box2; ip netns del box2")
    controller.perform("An address leaked")


def test_why_this_packet_does_not_pass(controller: Controller, lab: BaseLab) -> None:
    """Policy denies one port, and a rule of another program drops the other one; the page finds both."""
    web, db = (next(one for one in workloads(lab) if one.name == name) for name in ("web-1", "db-1"))
    server = lab.background("node3", ["python3", "-m", "http.server", "5432"], netns=db.name)
    connect = ["timeout", "2", "bash", "-c"]

    def passes(port: int) -> bool:
        command = [*connect, f"exec 3<>/dev/tcp/{db.address}/{port}"]
        return lab.exec(web.node, command, netns=web.name, check=False).returncode == 0

    wait_until("web-1 reaches db-1", lambda: passes(5432), 30)
    lab.exec("node3", "iptables -t raw -A PREROUTING -p tcp --dport 5432 -j DROP")
    assert not passes(5432) and not passes(5433)
    controller.perform("Why does this packet not pass")
    assert passes(5432) and not passes(5433)
    server.stop()
