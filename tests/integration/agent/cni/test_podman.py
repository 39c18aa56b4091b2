# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""podman, as Debian ships it, as the client of the plugin: two nodes, each with an agent, and their containers."""

from __future__ import annotations

import contextlib
import json
import pathlib
import tempfile
import typing as t

import pytest

from tests.integration.agent.cni.podman_node import BANDWIDTH, PORTMAP, PodmanNode, container_root, joined


@pytest.fixture(scope="module")
def nodes(engine: pathlib.Path) -> t.Iterator[tuple[PodmanNode, PodmanNode]]:
    with contextlib.ExitStack() as stack:
        # Where pytest's own folders are, paths are so long that conmon does not run podman when a container ends.
        folder = pathlib.Path(
            stack.enter_context(tempfile.TemporaryDirectory(prefix="pod", ignore_cleanup_errors=True))
        )
        root = container_root(folder)
        one, other = (PodmanNode(folder / str(index), engine, root, index) for index in (1, 2))
        for node in (one, other):
            stack.callback(node.close)
        joined(one, other)
        one.desire([other])
        other.desire([one])
        for node in (one, other):
            node.start()
        yield one, other


@pytest.fixture
def node(nodes: tuple[PodmanNode, PodmanNode]) -> t.Iterator[PodmanNode]:
    """The first node. After the test all containers and workloads of both nodes are removed."""
    yield nodes[0]
    for each in nodes:
        each.podman("rm", "-f", "-a", "-t", "0")
        for workload in each.workloads:  # workloads of containers that podman has forgotten
            each.call("workload.delete", id=workload["id"])
        each.until(lambda each=each: not each.links, "no link is left")


def test_containers_of_two_nodes_reach_each_other(node: PodmanNode, nodes: tuple[PodmanNode, PodmanNode]) -> None:
    _same, other = nodes
    here, there = node.start_container("here"), other.start_container("there")
    assert (here.rpartition(".")[0], there.rpartition(".")[0]) == ("10.244.1", "10.244.2")
    assert node.reaches("here", there)
    assert other.reaches("there", here)
    node.start_container("second")
    assert node.reaches("second", here)


def test_run_and_remove(node: PodmanNode) -> None:
    address = node.start_container("w1")
    (workload,) = node.workloads
    assert workload["addresses"] == [address]
    assert workload["name"].startswith("w1.")
    assert node.links == {workload["interface"]}
    node.podman("rm", "-f", "-t", "0", "w1")
    assert node.workloads == []
    assert address not in node.allocated
    node.until(lambda: not node.links, "the link is gone")


def test_run_to_its_end(node: PodmanNode) -> None:
    """The address of a container that ends is released, because conmon makes podman send the DEL."""
    command = ("run", "-d", "--rm", "--network", "pods", "--rootfs", f"{node.root}:O", "/bin/sleep", "0.5")
    node.podman(*command)
    assert len(node.workloads) == 1
    node.until(lambda: not node.workloads, "the DEL has come")
    assert node.allocated == set()


def test_stop_start_restart(node: PodmanNode) -> None:
    node.start_container("w1")
    for command in (("stop", "-t", "0"), ("start",), ("restart", "-t", "0")):
        node.podman(*command, "w1")
        assert len(node.workloads) == (0 if command[0] == "stop" else 1)
    assert [node.address_of("w1")] == node.workloads[0]["addresses"]


def test_inspect_shows_what_was_given(node: PodmanNode) -> None:
    address = node.start_container("w1", "--ip", "10.244.1.33", "--mac-address", "02:ab:00:00:00:33")
    shown = json.loads(node.podman("inspect", "w1"))[0]["NetworkSettings"]["Networks"]["pods"]
    assert (address, shown["MacAddress"]) == ("10.244.1.33", "02:ab:00:00:00:33")
    assert "02:ab:00:00:00:33" in node.podman("exec", "w1", "/bin/ip", "link", "show", "eth0")


def test_an_address_that_is_taken(node: PodmanNode) -> None:
    node.start_container("w1", "--ip", "10.244.1.34")
    refused = node.podman(
        *("run", "-d", "--name", "w2", "--network", "pods", "--ip", "10.244.1.34", "--rootfs", f"{node.root}:O"),
        *("/bin/sleep", "1000"),
        check=False,
    )
    assert "10.244.1.34" in refused
    assert len(node.workloads) == 1


def test_two_networks(node: PodmanNode) -> None:
    """One container can have two attachments, and disconnecting one leaves the other."""
    node.network("others")
    command = ("run", "-d", "--name", "w1", "--cap-add", "NET_RAW", "--network", "pods,others")
    node.podman(*command, "--rootfs", f"{node.root}:O", "/bin/sleep", "1000")
    assert sorted(workload["peer_interface"] for workload in node.workloads) == ["eth0", "eth1"]
    assert {workload["network"] for workload in node.workloads} == {"pods", "others"}
    for workload in node.workloads:
        assert "1 packets received" in node.run("busybox", "ping", "-c", "1", "-W", "3", workload["addresses"][0])
    node.podman("network", "disconnect", "-f", "others", "w1")
    assert [workload["network"] for workload in node.workloads] == ["pods"]


def test_connect_later(node: PodmanNode) -> None:
    node.network("others")
    node.start_container("w1")
    node.podman("network", "connect", "others", "w1")
    assert {workload["network"] for workload in node.workloads} == {"pods", "others"}


@pytest.mark.parametrize("also_the_container", [False, True])
def test_conmon_is_killed(node: PodmanNode, also_the_container: bool) -> None:
    """When podman removes a container whose conmon was killed, it sends the DEL: no workload or address is left.

    Conmon is killed alone, or the container's process as well (`also_the_container`).
    """
    node.start_container("w1")
    shown = json.loads(node.podman("inspect", "w1"))[0]["State"]
    pids = [shown["ConmonPid"], *([shown["Pid"]] if also_the_container else [])]
    node.run("kill", "-9", *map(str, pids))
    # podman would fail for a dying process that it cannot signal. The pids are of the node's pid namespace.
    for pid in map(str, pids):
        node.until(
            lambda pid=pid: not node.run("ps", "--no-headers", "-p", pid, check=False), f"process {pid} has gone"
        )
    node.podman("rm", "-f", "-t", "0", "w1")
    assert node.workloads == []
    assert node.allocated == set()


def test_the_node_loses_power(node: PodmanNode, nodes: tuple[PodmanNode, PodmanNode]) -> None:
    """After a power cut, which sends no DEL, podman can start the container again, under its former id.

    No other workload gets its former address meanwhile. `podman start` sends an ADD with the former id.
    """
    _same, other = nodes
    before = node.start_container("w1")
    there = other.start_container("there")
    (workload,) = node.workloads
    node.power_cut()
    joined(node, other)
    for each in nodes:
        if each is other:
            each.kill_agent()
        each.start()
    assert node.workloads == []
    assert node.start_container("w2") != before
    node.podman("start", "w1")
    again = node.address_of("w1")
    assert {found["id"] for found in node.workloads} >= {workload["id"]}
    assert node.allocated == {again, node.address_of("w2")}
    assert node.reaches("w1", there)
    assert other.reaches("there", again)


def test_a_container_is_removed_while_the_agent_is_down(node: PodmanNode) -> None:
    gone, kept = node.start_container("gone"), node.start_container("kept")
    node.kill_agent()
    node.podman("rm", "-f", "-t", "0", "gone")
    refused = node.podman(
        *("run", "-d", "--name", "w2", "--network", "pods", "--rootfs", f"{node.root}:O", "/bin/sleep", "1"),
        check=False,
    )
    assert "calico-agent does not answer" in refused
    node.start()
    assert gone not in node.allocated
    assert [workload["addresses"] for workload in node.workloads] == [[kept]]
    assert node.reaches("kept", node.address)


def test_containers_keep_running_without_the_agent(node: PodmanNode, nodes: tuple[PodmanNode, PodmanNode]) -> None:
    _same, other = nodes
    node.start_container("here")
    there = other.start_container("there")
    node.kill_agent()
    assert node.reaches("here", there)
    node.start()
    assert node.reaches("here", there)


def test_portmap_and_bandwidth_after_it(node: PodmanNode, nodes: tuple[PodmanNode, PodmanNode]) -> None:
    _same, other = nodes
    node.network("chained", PORTMAP, BANDWIDTH)
    address = node.start_container("web", "-p", "8080:80", network="chained")
    node.podman("exec", "-d", "web", "/bin/httpd", "-p", "80", "-h", "/tmp")
    fetch = ("busybox", "wget", "-q", "-O", "-", f"http://{node.address}:8080/page")
    node.until(lambda: other.run(*fetch, check=False) == "the page\n", "the page comes by the host's port")
    (workload,) = node.workloads
    assert "tbf" in node.run("tc", "qdisc", "show", "dev", workload["interface"])
    assert "--dport 8080" in node.run("iptables-save", "-t", "nat")
    node.podman("rm", "-f", "-t", "0", "web")
    assert "--dport 8080" not in node.run("iptables-save", "-t", "nat")
    assert address not in node.allocated


def test_a_plugin_before_it(node: PodmanNode) -> None:
    """A container is attached and detached behind an earlier plugin of the chain, which has a result of its own."""
    script = node.folder / "bin" / "before"
    script.write_text(
        """#!/bin/sh
case $CNI_COMMAND in
    VERSION) echo '{"cniVersion":"1.0.0","supportedVersions":["1.0.0"]}' ;;
    ADD) echo '{"cniVersion":"1.0.0","interfaces":[{"name":"theirs0"}],"dns":{"nameservers":["192.0.2.53"]}}' ;;
esac
"""
    )
    script.chmod(0o755)
    node.network("chained", PORTMAP, before=[{"type": "before"}])
    node.start_container("w1", network="chained")
    assert node.reaches("w1", node.address)
    assert len(node.workloads) == 1
    node.podman("rm", "-f", "-t", "0", "w1")
    assert node.workloads == []


def test_networks_are_listed(node: PodmanNode) -> None:
    assert "pods" in node.podman("network", "ls", "--format", "{{.Name}}").split()
