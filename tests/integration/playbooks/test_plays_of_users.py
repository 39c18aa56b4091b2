# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plays of users with the collection's roles: what is wrong is said once for all hosts, before any is contacted."""

from __future__ import annotations

import pathlib
import re
import typing as t

import pytest
import yaml

from tests.integration.ansible_playbook import play

HOSTS = ("node1", "node2", "node3")
CALICO_NODE = "baremetal.host_routing.calico_node"
TEN = {"calico_node_soak_seconds": "ten"}
ENDS = "This collection contacted no host."


def said(folder: pathlib.Path, entry: t.Mapping[str, t.Any], variables: t.Mapping[str, t.Any] = {}) -> str:
    """Run a play on three hosts, which fails; return what Ansible prints with FOLDER for `folder`.

    A host whose Python were started would write the file started.
    """
    python = folder / "python"
    python.write_text(f"#!/bin/sh\ntouch {folder}/started\nexit 1\n")
    python.chmod(0o755)
    fleet = {
        "ansible_connection": "local",
        "ansible_python_interpreter": str(python),
        "calico_ip_pools": [{"name": "default", "cidr": "10.244.0.0/16"}],
        **variables,
    }
    hosts = {name: {"calico_node_address": f"10.10.1.{index}/24"} for index, name in enumerate(HOSTS, 11)}
    (folder / "hosts.yml").write_text(yaml.safe_dump({"calico_nodes": {"hosts": hosts, "vars": fleet}}))
    (folder / "play.yml").write_text(yaml.safe_dump([{"hosts": "calico_nodes", "gather_facts": False, **entry}]))
    done = play(folder / "play.yml", folder / "hosts.yml")
    assert done.returncode == 2, done.stdout + done.stderr
    assert not (folder / "started").exists()
    return (done.stdout + done.stderr).replace(str(folder), "FOLDER")


@pytest.mark.parametrize(
    ("entry", "variables"),
    [
        ({"roles": [CALICO_NODE]}, TEN),
        ({"roles": [{"role": CALICO_NODE, "vars": TEN}]}, {}),
        ({"roles": [CALICO_NODE], "vars": TEN}, {}),
        ({"tasks": [{"ansible.builtin.include_role": {"name": CALICO_NODE}, "vars": TEN}]}, {}),
        (
            {"tasks": [{"ansible.builtin.import_role": {"name": CALICO_NODE, "tasks_from": "rollback"}, "vars": TEN}]},
            {},
        ),
    ],
    ids=["inventory", "role", "play", "include_role", "import_role"],
)
def test_a_wrong_variable_is_one_message(
    entry: t.Mapping[str, t.Any], variables: t.Mapping[str, t.Any], tmp_path: pathlib.Path
) -> None:
    """It names the file and line of the play or the inventory; Ansible would refuse the argument once for each host."""
    printed = said(tmp_path, entry, variables)
    where = "hosts" if variables else "play"
    whom = " of node1, node2 and node3" if variables else ""
    [error] = [line for line in printed.splitlines() if line.startswith("[ERROR]")]
    assert re.sub(r"yml:\d+", "yml:LINE", error) == (
        f"[ERROR]: Task failed: Action failed: FOLDER/{where}.yml:LINE: calico_node_soak_seconds{whom} ten is not a "
        f"whole number. Write for example 10, which is the default. {ENDS}"
    )
    assert printed.count("fatal: ") == 1 and "argument_spec_data" not in printed
    assert len(printed.splitlines()) < 30


def test_all_errors_of_the_inventory_are_named_by_a_run(tmp_path: pathlib.Path) -> None:
    """The errors of roles' variables, and those for which the inventory is refused, are one table."""
    wrong = {
        **TEN,
        "calico_bgp_as_number": "AS1",
        "calico_workloads": [{"name": "web"}, {"name": "db", "node": "nod1"}],
    }
    printed = said(tmp_path, {"roles": [CALICO_NODE]}, wrong)
    what = [line.strip() for line in printed.splitlines() if line.startswith("  calico_")]
    assert what == [
        "calico_node_soak_seconds of node1, node2 and node3 ten is not a whole number.",
        "calico_bgp_as_number AS1 is not a whole number.",
        "calico_workloads[0].node is missing.",
        "calico_workloads[1].node nod1 is not a host of group calico_nodes.",
    ]
    assert f"And 3 more errors, see above. {ENDS}" in printed
