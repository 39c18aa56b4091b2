# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A run of site.yml that is limited by tags: the tasks that run, and what hosts and controller have afterwards."""

from __future__ import annotations

import pathlib
import re
import sys
import typing as t

import pytest
import yaml

from bench.site.simulated_hosts import SimulatedHosts
from tests.integration.ansible_playbook import ROOT, play

pytestmark = pytest.mark.root

CHECK, READ = "Check the roles' variables, once for all hosts", "Read the node's state"
COMPILE, USABLE, NODE = (
    "Compile the fleet and plan its blocks",
    "Check preconditions",
    "Apply the node's state",
)
WARN = "Print warnings about hosts"
SETTLED, WAIT, PROBE = (
    "Check whether all hosts have converged",
    "Wait for sessions and routes",
    "Probe the paths between all nodes",
)


class Fleet:
    """Two nodes, without a state at first."""

    def __init__(self, hosts: SimulatedHosts, folder: pathlib.Path) -> None:
        self.folder = folder
        entries = {
            name: {"calico_node_address": hosts.addresses[name], "simulated_host_pid": space.pid}
            for name, space in hosts.spaces.items()
        }
        variables = {
            "ansible_connection": "namespace",
            "ansible_python_interpreter": sys.executable,
            "calico_node_agent": False,
            "calico_node_install_packages": False,
            "calico_ip_pools": [{"name": "pool", "cidr": "10.244.0.0/16", "vxlanMode": "Always"}],
        }
        folder.mkdir()
        (folder / "hosts.yml").write_text(yaml.safe_dump({"calico_nodes": {"hosts": entries, "vars": variables}}))

    def site(self, *options: str) -> tuple[str, list[str]]:
        """Run site.yml; return its stdout, and the names of the tasks that ran on a host, in their order.

        Ansible's own validation of a role's arguments always runs, and is left out.
        """
        environment = {
            "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"),
            "ANSIBLE_CONNECTION_PLUGINS": str(ROOT / "bench" / "site" / "connection"),
        }
        done = play("playbooks/site.yml", self.folder / "hosts.yml", *options, environment=environment, timeout=600)
        assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
        parts = re.split(r"^TASK \[(?:[\w.]+ : )?(.*?)\] \**$", done.stdout, flags=re.MULTILINE)
        ran = [name for name, text in zip(parts[1::2], parts[2::2]) if re.search("^(ok|changed): ", text, re.MULTILINE)]
        return done.stdout, [name for name in ran if not name.startswith("Validating arguments")]

    def lockfile(self) -> bool:
        return (self.folder / ".calico.lock.yml").exists()


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> t.Iterator[Fleet]:
    folder = tmp_path_factory.mktemp("tags")
    (folder / "private").mkdir()
    with SimulatedHosts(2, folder / "private") as hosts:
        yield Fleet(hosts, folder / "inventory")


def test_each_tag_runs_what_it_says(fleet: Fleet) -> None:
    """Only `config` changes hosts and the lockfile; the other tags plan, and say what a run would change."""
    for tag in ("preflight", "packages"):
        dummy, ran = fleet.site("--tags", tag)
        assert [name for name in ran if name not in (USABLE, WARN)] == [CHECK, READ, COMPILE]
    report = fleet.folder / "plan.html"
    dummy, ran = fleet.site("--tags", "report", "-e", f"report={report}")
    assert ran == [CHECK, READ, COMPILE, NODE, WARN, "Record a change in phases and write the report", "Report"]
    assert "Plan of a run" in report.read_text("utf-8")
    assert not fleet.lockfile()
    dummy, ran = fleet.site("--tags", "config")
    config = [name for name in ran if name not in (USABLE, WARN)]
    assert config == [CHECK, READ, COMPILE, NODE, SETTLED, WAIT, PROBE, "Report"]
    assert fleet.lockfile()
    printed, dummy = fleet.site("--check", "--diff")
    assert "changed=1" not in printed


def test_tags_of_others_run_nothing_of_the_role(fleet: Fleet) -> None:
    assert fleet.site("--tags", "others")[1] == []
