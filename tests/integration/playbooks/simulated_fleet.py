# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A fleet of simulated hosts, and playbooks on it as users run them."""

from __future__ import annotations

import contextlib
import pathlib
import subprocess
import sys
import typing as t

import pytest
import yaml

from bench.site.simulated_hosts import SimulatedHosts
from tests.integration.ansible_playbook import SIMULATED, play

HOSTS = ("host1", "host2", "host3")


class SimulatedFleet:
    """The nodes host1 to host3 in a mesh, each in a subnet of its own. `folder` has their inventory."""

    def __init__(self, hosts: SimulatedHosts, folder: pathlib.Path) -> None:
        self.hosts, self.folder = hosts, folder
        self.inventory = folder / "hosts.yml"
        folder.mkdir()
        self.write()

    def variables(self) -> dict[str, t.Any]:
        """Return the variables of the fleet."""
        return {}

    def variables_of(self, host: str) -> dict[str, t.Any]:
        """Return variables that a host has for itself."""
        return {}

    def write(self, **more: t.Any) -> None:
        """Write the inventory, with more variables of the fleet."""
        entries = {
            name: {
                "calico_node_address": self.hosts.addresses[name],
                "simulated_host_pid": space.pid,
                **self.variables_of(name),
            }
            for name, space in self.hosts.spaces.items()
        }
        variables = {
            "ansible_connection": "namespace",
            "ansible_python_interpreter": sys.executable,
            "calico_node_agent": False,
            "calico_node_install_packages": False,
            **self.variables(),
            **more,
        }
        self.inventory.write_text(yaml.safe_dump({"calico_nodes": {"hosts": entries, "vars": variables}}))

    def run(self, playbook: str, *options: str, failed: bool = False) -> str:
        """Run a playbook (such as `site`) and return its stdout.

        Raise AssertionError if it fails, or with `failed` if it succeeds, and subprocess.TimeoutExpired after 300
        seconds.
        """
        done = play(f"playbooks/{playbook}.yml", self.inventory, *options, environment=SIMULATED, timeout=300)
        assert (done.returncode != 0) == failed, done.stdout[-6000:] + done.stderr[-2000:]
        return done.stdout

    def inside(self, host: str, *command: str) -> str:
        """Run a command in the namespaces of a host, and return its stdout. Raise CalledProcessError if it fails."""
        enter = ["nsenter", f"--target={self.hosts.spaces[host].pid}", "--mount", "--net", "--pid", "--"]
        return subprocess.run([*enter, *command], check=True, capture_output=True, text=True).stdout


_Fleet = t.TypeVar("_Fleet", bound=SimulatedFleet)


@contextlib.contextmanager
def simulated_fleet(kind: type[_Fleet], factory: pytest.TempPathFactory) -> t.Iterator[_Fleet]:
    """Yield a fleet on hosts that end with it."""
    folder = factory.mktemp("fleet")
    (folder / "private").mkdir()
    with SimulatedHosts(len(HOSTS), folder / "private") as hosts:
        yield kind(hosts, folder / "inventory")
