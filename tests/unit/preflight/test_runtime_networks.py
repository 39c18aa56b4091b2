# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Networks of container runtimes: what their files say, hostile files, and what collides with an IP pool."""

from __future__ import annotations

import copy
import dataclasses
import json
import os
import pathlib
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.preflight import judge, runtime_networks
from ansible_collections.baremetal.host_routing.plugins.module_utils.preflight.files import Files
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_state import Pool

from tests.unit.preflight.test_judge import GOOD, STATE

NET_D = "/etc/cni/net.d"
POOLED = dataclasses.replace(STATE, pools=(Pool("pods", "10.244.0.0/16", 26, "None", workload_mtu=1500),))


def put(root: pathlib.Path, path: str, content: object) -> None:
    target = root / path.lstrip("/")
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(content if isinstance(content, str) else json.dumps(content))


def seen(root: pathlib.Path, docker: bool = True, podman: bool = True) -> dict[str, t.Any]:
    return runtime_networks.observe(Files(str(root)), NET_D, docker, podman)


def told(root: pathlib.Path) -> set[tuple[str, str, bool]]:
    return {(one["cidr"], one["of"], one["sure"]) for one in seen(root)["subnets"] if one["file"]}


def test_the_files_of_all_runtimes(tmp_path: pathlib.Path) -> None:
    put(
        tmp_path,
        runtime_networks.DOCKER_SETTINGS,
        {"bip": "10.1.0.1/24", "default-address-pools": [{"base": "10.2.0.0/16", "size": 24}]},
    )
    put(
        tmp_path,
        "/etc/containers/containers.conf",
        '[network]\nfirewall_driver = "nftables"\ndefault_subnet = "10.3.0.0/24"\ndefault_subnet_pools = [\n'
        '  {"base" = "10.4.0.0/16", "size" = 24},\n  {base = "10.5.0.0/16", size = 24},\n]\n',
    )
    bridge = {"driver": "bridge", "subnets": [{"subnet": "10.6.0.0/24"}, {"subnet": "fd00:6::/64"}]}
    put(tmp_path, "/etc/containers/networks/six.json", bridge)
    put(tmp_path, "/etc/containers/networks/calico.json", {"driver": "calico", "subnets": [{"subnet": "10.9.0.0/24"}]})
    ranges = {"type": "host-local", "ranges": [[{"subnet": "10.7.0.0/16"}]]}
    put(tmp_path, f"{NET_D}/87-podman.conflist", {"plugins": [{"type": "bridge", "ipam": ranges}, {"type": "portmap"}]})
    put(tmp_path, f"{NET_D}/20-old.conf", {"type": "bridge", "ipam": {"type": "host-local", "subnet": "10.8.0.0/16"}})
    assert told(tmp_path) == {
        ("10.1.0.0/24", "Docker's bridge docker0", True),
        ("10.2.0.0/16", "new networks of Docker", False),
        ("10.3.0.0/24", "podman's default network", True),
        ("10.4.0.0/16", "new networks of podman", False),
        ("10.5.0.0/16", "new networks of podman", False),
        ("10.6.0.0/24", "podman's network six", True),
        ("fd00:6::/64", "podman's network six", True),
        ("10.7.0.0/16", "the CNI network in 87-podman.conflist", True),
        ("10.8.0.0/16", "the CNI network in 20-old.conf", True),
    }
    assert seen(tmp_path)["firewall_driver"] == "nftables" and seen(tmp_path)["unreadable"] == []


def test_without_files_the_defaults_count_for_what_is_installed(tmp_path: pathlib.Path) -> None:
    cidrs = {one["cidr"] for one in seen(tmp_path)["subnets"]}
    assert {"172.17.0.0/16", "192.168.0.0/16", "10.88.0.0/16"} <= cidrs
    assert seen(tmp_path, docker=False, podman=False) == {"subnets": [], "firewall_driver": "", "unreadable": []}


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{",
        "[]",
        "[" * 20_000,
        '{"bip": 7}',
        '{"bip": "10.0.0.0/99"}',
        '{"bip": "' + "1" * 70_000 + '"}',
        '{"default-address-pools": [1, null, {"base": ["x"]}]}',
    ],
)
def test_a_broken_file_is_named(tmp_path: pathlib.Path, content: str) -> None:
    put(tmp_path, runtime_networks.DOCKER_SETTINGS, content)
    assert seen(tmp_path)["unreadable"] == [runtime_networks.DOCKER_SETTINGS]


def test_a_fifo_is_not_waited_for(tmp_path: pathlib.Path) -> None:
    (tmp_path / "etc/docker").mkdir(parents=True)
    os.mkfifo(tmp_path / "etc/docker/daemon.json")
    (tmp_path / "etc/cni/net.d").mkdir(parents=True)
    (tmp_path / "etc/cni/net.d/a.conf").symlink_to("a.conf")
    assert seen(tmp_path)["unreadable"] == ["/etc/docker/daemon.json"]


def judged(**changed: t.Any) -> list[judge.HostFinding]:
    facts = {**copy.deepcopy(GOOD), **changed}
    found = judge.judge(facts, POOLED)
    return [
        one
        for one in found
        if one.id in ("bridge-in-pool", "runtime-in-pool", "runtime-file-broken", "netavark-firewall")
    ]


def runtimes(**changed: t.Any) -> dict[str, t.Any]:
    return {"subnets": [], "firewall_driver": "", "unreadable": [], **changed}


def test_a_bridge_in_a_pool_is_an_error() -> None:
    (found,) = judged(addresses={**GOOD["addresses"], "br-0123456789ab": ["10.244.7.1/24"], "wire0": ["10.244.9.1/24"]})
    assert (found.severity, str(found)) == (
        "error",
        "the bridge br-0123456789ab has 10.244.7.1/24, which overlaps the IP pool pods (10.244.0.0/16). Packets to"
        " workloads with such an address would go to the bridge.\nGive the network of the bridge another subnet, or the"
        " pool another CIDR.",
    )


def test_a_subnet_in_a_pool_is_a_warning() -> None:
    one = {"cidr": "10.244.0.0/14", "of": "new networks of Docker", "file": "/etc/docker/daemon.json", "sure": False}
    (found,) = judged(runtimes=runtimes(subnets=[one, one, {**one, "cidr": "10.9.0.0/16", "of": "x"}]))
    assert (found.severity, str(found)) == (
        "warning",
        "new networks of Docker: may get 10.244.0.0/14, which overlaps the IP pool pods (10.244.0.0/16). It stands in"
        " /etc/docker/daemon.json. Packets to workloads with such an address would go to the bridge of that"
        " network.\nGive it a subnet outside of all pools: default-address-pools and bip in /etc/docker/daemon.json,"
        " default_subnet and default_subnet_pools in /etc/containers/containers.conf, or the network's own file.",
    )


def test_a_broken_file_and_a_missing_firewall_are_warnings() -> None:
    (file,) = judged(runtimes=runtimes(unreadable=["/etc/docker/daemon.json"]))
    assert str(file) == (
        "/etc/docker/daemon.json cannot be read. It is not what its runtime expects, or larger than 64 KiB; subnets in"
        " it are not compared with pools.\nCorrect or remove it."
    )
    (driver,) = judged(runtimes=runtimes(firewall_driver="nftables"))
    assert str(driver) == (
        "netavark's firewall_driver is nftables, and this host has no nftables. podman starts no container then, also"
        " none of the network calico.\nSet firewall_driver in /etc/containers/containers.conf to iptables or none, or"
        " install what it names."
    )
    assert judged(runtimes=runtimes(firewall_driver="none")) == []
    assert judged(runtimes=runtimes(firewall_driver="nftables"), packages={"nftables": "1.1"}) == []


def test_a_network_sorted_before_calico_is_a_warning() -> None:
    facts = {
        "cni": {"folder": NET_D, "networks": ["05-mine.conflist", "10-calico.conflist"], "runtimes": ["containerd"]}
    }
    (found,) = judge.first_network_findings(facts)
    assert (found.severity, str(found)) == (
        "warning",
        "new containers of containerd get another network than calico. /etc/cni/net.d/05-mine.conflist comes before"
        " 10-calico.conflist, and they get the network that comes first.\nRename it so that it comes later, or set"
        " calico_node_cni_default: false.",
    )
    facts["cni"]["networks"] = ["10-calico.conflist", "87-podman.conflist"]
    assert judge.first_network_findings(facts) == []
