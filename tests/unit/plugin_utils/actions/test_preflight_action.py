# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The preflight action as Ansible runs it, on a host that lacks packages."""

from __future__ import annotations

import pathlib
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.run.targets import Targets
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.sources import targets

from tests.unit.fleet.bad_inventories import ALL, HOSTS, Case
from tests.unit.fleet.fleets import build, pool, states
from tests.unit.plugin_utils import controller
from tests.unit.preflight.test_judge import GOOD

NODES = {"node1": "10.10.1.11/24", "node2": "10.10.1.12/24"}


def test_check_mode_names_packages_only_where_the_run_installs_them(tmp_path: pathlib.Path) -> None:
    folder = tmp_path / "inventory"
    folder.mkdir()
    Case("inventory", ALL, HOSTS, None, {}, None, "", "").write(folder)
    hosts_file = str(folder / "hosts.yml")
    addresses = {**GOOD["addresses"], "eth0": list(NODES.values())}
    bare = {**GOOD, "missing_packages": ["bird2"], "addresses": addresses}
    seen = {host: {"seen": {"state": None, "preflight": bare}} for host in ("node1", "node2")}
    path = targets.save(Targets(states=states(build(pool("ipip"), nodes=NODES, workloads=[]))))

    def run(check: bool, **args: t.Any) -> controller.Run:
        return controller.Run("preflight", {"fleet": path, "observed": "seen", **args}, hosts_file, seen, check)

    results = controller.run(
        [run(True), run(True, install_packages=False), run(False), run(False, install_packages=False)]
    )
    assert [result["missing_packages"] for result in results] == [["bird2"]] * 4
    assert [result.get("changed", False) for result in results] == [True, False, False, False]
    assert results[0]["diff"] == {"prepared": "node1  packages to install\n  + package  bird2\n"}
    assert not any("diff" in result for result in results[1:])


def test_a_check_that_fails_is_not_changed(tmp_path: pathlib.Path) -> None:
    """A host that is refused does not get the packages that it lacks."""
    folder = tmp_path / "inventory"
    folder.mkdir()
    Case("inventory", ALL, HOSTS, None, {}, None, "", "").write(folder)
    bare = {**GOOD, "missing_packages": ["bird2"], "uid": 1000}
    seen = {host: {"seen": {"state": None, "preflight": bare}} for host in ("node1", "node2")}
    path = targets.save(Targets(states=states(build(pool("ipip"), nodes=NODES, workloads=[]))))
    args = {"fleet": path, "observed": "seen"}
    (result,) = controller.run([controller.Run("preflight", args, str(folder / "hosts.yml"), seen, True)])
    assert (result["failed"], result["changed"]) == (True, False)


def test_a_network_that_would_become_the_default_is_refused_unless_it_may(tmp_path: pathlib.Path) -> None:
    folder = tmp_path / "inventory"
    folder.mkdir()
    Case("inventory", ALL, HOSTS, None, {}, None, "", "").write(folder)
    hosts_file = str(folder / "hosts.yml")
    networks = {"folder": "/etc/cni/net.d", "networks": ["10-containerd-net.conflist"], "runtimes": ["containerd"]}
    addresses = {**GOOD["addresses"], "eth0": list(NODES.values())}
    seen = {
        host: {"seen": {"state": None, "preflight": {**GOOD, "addresses": addresses, "cni": networks}}}
        for host in ("node1", "node2")
    }
    path = targets.save(Targets(states=states(build(pool("ipip"), nodes=NODES, workloads=[]))))

    def run(**args: t.Any) -> controller.Run:
        return controller.Run("preflight", {"fleet": path, "observed": "seen", **args}, hosts_file, seen)

    without, refused, wanted = controller.run([run(), run(cni=True), run(cni=True, cni_default=True)])
    assert "failed" not in without and "failed" not in wanted, (without, wanted)
    assert refused["failed"]
    assert refused["msg"].splitlines() == [
        "node1: the network calico would become the default of containerd. /etc/cni/net.d/10-calico.conflist would "
        "come before 10-containerd-net.conflist, and new containers get the network that comes first.",
        "Set calico_node_cni_default: true if that is what you want, or calico_node_cni: false for this host.",
    ]


def test_a_network_of_podmans_own_is_refused_where_podman_gets_networks(tmp_path: pathlib.Path) -> None:
    folder = tmp_path / "inventory"
    folder.mkdir()
    Case("inventory", ALL, HOSTS, None, {}, None, "", "").write(folder)
    addresses = {**GOOD["addresses"], "eth0": list(NODES.values())}
    told = {**GOOD, "addresses": addresses, "podman": {"plugins": True, "networks": {"calico": "bridge"}}}
    old = {**told, "packages": {**GOOD["packages"], "podman": "4.3.1"}, "podman": {"plugins": False, "networks": {}}}
    path = targets.save(Targets(states=states(build(pool("ipip"), nodes=NODES, workloads=[]))))

    def run(facts: t.Any, **args: t.Any) -> controller.Run:
        seen = {host: {"seen": {"state": None, "preflight": facts}} for host in NODES}
        return controller.Run("preflight", {"fleet": path, "observed": "seen", **args}, str(folder / "hosts.yml"), seen)

    wanted = {"podman_networks": [{"name": "calico"}]}
    results = controller.run(
        [
            run(told, **wanted),
            run(told, podman="auto", podman_networks=[{"name": "other"}]),
            run(told, podman="auto", **wanted),
            run(old, podman="auto", **wanted),
            run(old, podman="yes", **wanted),
            run(told, podman="auto", podman_networks="calico"),
        ]
    )
    assert [bool(result.get("failed")) for result in results] == [False, False, True, False, True, True], results
    assert results[2]["msg"] == (
        "node1: podman has a network calico already, with the driver bridge. It is in "
        "/etc/containers/networks/calico.json, "
        "and calico_node_podman_networks has one of that name.\n"
        "Choose another name there, or remove podman's: podman network rm calico."
    )
    assert results[4]["msg"].startswith("node1: podman 4.3.1 of this host has no netavark with plugins.")
    assert (
        results[5]["msg"] == "calico_node_podman_networks calico is not a list. Write each network as - name: calico."
    )
    assert [result["missing_packages"] for result in results[:2]] == [[], ["netcat-openbsd"]]


@pytest.mark.parametrize("told", [None, [], {"networks": [1], "runtimes": ["crio"]}, {"networks": "z", "runtimes": 7}])
def test_networks_that_no_module_tells_so_are_not_judged(tmp_path: pathlib.Path, told: t.Any) -> None:
    """The answer is a node's. One of another form fails its own task in words, and not by a fault of the action."""
    folder = tmp_path / "inventory"
    folder.mkdir()
    Case("inventory", ALL, HOSTS, None, {}, None, "", "").write(folder)
    addresses = {**GOOD["addresses"], "eth0": list(NODES.values())}
    seen = {
        host: {"seen": {"state": None, "preflight": {**GOOD, "addresses": addresses, "cni": told}}} for host in NODES
    }
    path = targets.save(Targets(states=states(build(pool("ipip"), nodes=NODES, workloads=[]))))
    args = {"fleet": path, "observed": "seen", "cni": True}
    (result,) = controller.run([controller.Run("preflight", args, str(folder / "hosts.yml"), seen)])
    assert result["failed"] and result["msg"].startswith("node1: what it says of itself cannot be judged: "), result
