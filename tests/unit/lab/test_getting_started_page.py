# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""docs/tutorials/getting-started.md names versions, ports and packages as they are; tests/lab/scenarios performs it."""

from __future__ import annotations

import re
from pathlib import Path

import yaml
from ansible_collections.baremetal.host_routing.plugins.module_utils.base.ports import BFD_PORTS, BGP_PORT, VXLAN_PORT
from ansible_collections.baremetal.host_routing.plugins.module_utils.preflight import packages

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs" / "tutorials" / "getting-started.md").read_text("utf-8")
LITERAL = (ROOT / "tests" / "lab" / "scenarios" / "test_getting_started.py").read_text("utf-8")
#: What a play on localhost may use: their code runs where ansible-playbook runs, without a connection.
ACTIONS = {"ansible.builtin.assert", "ansible.builtin.debug", "baremetal.host_routing.resource"}


def test_the_artifact_is_that_of_this_version() -> None:
    version = yaml.safe_load((ROOT / "galaxy.yml").read_text("utf-8"))["version"]
    assert set(re.findall(r"baremetal-host_routing-([\d.]+)\.tar\.gz", PAGE)) == {version}
    assert f"baremetal.host_routing:{version} was installed successfully" in PAGE


def test_versions_of_ansible_are_the_promised_and_the_tested_one() -> None:
    promised = yaml.safe_load((ROOT / "meta" / "runtime.yml").read_text("utf-8"))["requires_ansible"]
    assert re.findall(r"'ansible-core(.*?)'", PAGE) == [promised.removesuffix(".0")]
    requirements = (ROOT / "tests" / "lab" / "controller.requirements.txt").read_text("utf-8")
    [tested] = re.findall(r"^ansible-core==(\d+\.\d+)\.", requirements, re.MULTILINE)
    assert f"tested with ansible-core {tested} on Debian 13" in " ".join(PAGE.split())


def test_the_page_lists_the_ports_and_packages_of_the_code() -> None:
    table = PAGE.partition("| packets |")[2].partition("## 1.")[0]
    ports = [f"TCP {BGP_PORT}", *(f"UDP {port}" for port in (VXLAN_PORT, BFD_PORTS[0], BFD_PORTS[2]))]
    for what in (*ports, "IP protocol 4"):
        assert f"| {what} " in table, what
    needs = PAGE.partition("**Each node**")[2].partition("**Between them**")[0]
    for package in (*packages.NEEDED, *packages.CNI):
        assert f"`{package}`" in needs, package


def test_readme_leads_to_the_page_near_its_top() -> None:
    assert "(docs/tutorials/getting-started.md)" in (ROOT / "README.md").read_text("utf-8").partition("## ")[0]


def test_every_playbook_is_run_by_an_ordinary_user() -> None:
    """The page, or the test that goes on after it, runs each playbook with become.

    Those of the etcd cluster and of live policy need another fleet: their own scenarios run them.
    """
    run = re.findall(r"baremetal\.host_routing\.(\w+)", PAGE) + re.findall(r"\{PLAYBOOK\}(\w+)", LITERAL)
    for scenario in ("test_etcd.py", "test_live.py"):  # the playbook live is in the second one
        text = (ROOT / "tests" / "lab" / "scenarios" / scenario).read_text("utf-8")
        run += re.findall(r'\.play\("(etcd\w*|live)\.yml"', text)
    run += ["change"] if re.search(r"\{CALICOCTL\} .* create ", LITERAL) else []  # which calicoctl runs
    assert {path.stem for path in (ROOT / "playbooks").glob("*.yml")} <= set(run)


def test_no_task_runs_on_the_controller_by_a_connection() -> None:
    """Such a task would want sudo there where become is set. Actions do what the controller has to do."""
    files = [*(ROOT / "playbooks").glob("*.yml"), *(ROOT / "roles").glob("*/tasks/*.yml")]
    assert len(files) > 20
    for path in files:
        text = path.read_text("utf-8")
        assert not re.search(r"delegate_to|local_action|connection:", text), path
        if re.search(r"hosts: *localhost", text):
            (play,) = yaml.safe_load(text)
            modules = {word for task in play["tasks"] for word in task if "." in word}
            assert modules <= ACTIONS, path
