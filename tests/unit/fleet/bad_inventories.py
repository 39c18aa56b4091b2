# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The cases in bad_inventories.yml, written as folders of an inventory."""

from __future__ import annotations

import dataclasses
import pathlib
import typing as t

import yaml
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_state import Block, NodeIpam, NodeState

ALL = """\
calico_ip_pools:
  - name: default
    cidr: 10.244.0.0/16
    ipipMode: Always
"""
HOSTS = """\
calico_nodes:
  hosts:
    node1: {calico_node_address: 10.10.1.11/24}
    node2: {calico_node_address: 10.10.1.12/24}
"""


@dataclasses.dataclass(frozen=True)
class Case:
    """An invalid inventory and its error.

    `all` is the text of group_vars/all.yml, `hosts` that of hosts.yml, and `lockfile` that of the lockfile (None: there
    is none). `message` has no file and line. `line` has them ("group_vars/all.yml:3"), "" if the error has none. In
    `all` and `message`, {folder} stands for the inventory's folder. `copies` has {"generation", "blocks"} by node, and
    `limit` the names of the hosts in the run (None for all).
    """

    name: str
    all: str
    hosts: str
    lockfile: t.Optional[str]
    copies: t.Mapping[str, t.Any]
    limit: t.Optional[t.Sequence[str]]
    message: str
    line: str

    def write(self, folder: pathlib.Path) -> pathlib.Path:
        """Write the files of the inventory into `folder` and return the path of hosts.yml.

        Raise FileExistsError if the folder has a group_vars already.
        """
        (folder / "group_vars").mkdir()
        (folder / "group_vars" / "all.yml").write_text(self.all.replace("{folder}", str(folder)))
        (folder / "hosts.yml").write_text(self.hosts)
        if self.lockfile is not None:
            (folder / ".calico.lock.yml").write_text(self.lockfile)
        return folder / "hosts.yml"

    def expected(self, folder: pathlib.Path, origins: bool) -> str:
        """Return the error for the inventory in `folder`, with its file and line if known and `origins`."""
        message = self.message.replace("{folder}", str(folder))
        return f"{folder}/{self.line}: {message}" if origins and self.line else message

    def observed(self) -> dict[str, t.Optional[NodeState]]:
        """Return the stored states of the nodes in the run by node name, None for a node without one.

        An empty `limit` means all hosts, as None does.
        """
        hosts = self.limit or sorted(name for group in self.groups().values() for name in group)
        return {name: self._stored(name) for name in hosts}

    def _stored(self, name: str) -> t.Optional[NodeState]:
        copy = self.copies.get(name)
        if copy is None:
            return None
        blocks = tuple(Block(**block) for block in copy["blocks"])
        return NodeState(name, "10.10.1.11/24", ipam=NodeIpam(copy["generation"], blocks))

    def groups(self) -> dict[str, list[str]]:
        """Return the names of the hosts in each group, by group name."""
        groups = yaml.safe_load(self.hosts)
        return {name: list((group or {}).get("hosts") or {}) for name, group in groups.items()}

    def host_variables(self, folder: pathlib.Path) -> dict[str, dict[str, t.Any]]:
        """Return the variables of each host by its name, as plain YAML has them, without templates resolved.

        `folder` is the inventory's. A host's own variables take precedence over those of group_vars/all.yml. Of a host
        in several groups, only those under the last one count.
        """
        shared = yaml.safe_load(self.all.replace("{folder}", str(folder)))
        groups = [(group or {}).get("hosts") or {} for group in yaml.safe_load(self.hosts).values()]
        return {name: {**shared, **(own or {})} for group in groups for name, own in group.items()}


def _case(entry: t.Mapping[str, t.Any]) -> Case:
    text = entry.get("all", ALL)
    if "pools" in entry:
        text += f"  - {entry['pools']}\n"
    if "workloads" in entry:
        text += f"calico_workloads: {entry['workloads']}\n"
    return Case(
        entry["name"],
        text,
        entry.get("hosts", HOSTS),
        entry.get("lockfile"),
        entry.get("copies", {}),
        entry.get("limit"),
        entry["message"].strip(),
        entry.get("line", ""),
    )


CASES = [_case(entry) for entry in yaml.safe_load((pathlib.Path(__file__).parent / "bad_inventories.yml").read_text())]
