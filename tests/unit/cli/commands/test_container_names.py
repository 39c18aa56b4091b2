# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Containers by their names: in lists, as arguments of commands, and what a hostile name cannot do."""

from __future__ import annotations

import dataclasses

import pytest
import yaml
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.attachment import AttachedWorkload

from tests.unit.cli.commands.test_policy_explain import explain, settled
from tests.unit.cli.conftest import ALONE, POD, STATE, WEB, Node

DOCKER = dataclasses.replace(
    POD,
    id=f"docker/{'2d54' * 16}",
    name="2d54" * 16,
    namespace="default",
    network="",
    container="",
    handed_over=True,
    container_name="shop",
    container_labels={"x.org/tier": "front"},
    labels={"x.org/tier": "front"},
)
TWIN = dataclasses.replace(
    DOCKER, id=f"docker/{'ab01' * 16}", name="ab01" * 16, addresses=("10.244.3.9",), interface="cali00112233445"
)
TEXT = f"""\
NAMESPACE   NAME                                                               ADDRESS      POOL                  \
INTERFACE         NETNS                   BY       CONTAINER
default     {DOCKER.name}   10.244.3.3   default-ipv4-ippool   \
cali99aabbccdde   /run/netns/netns-3f0c   docker   shop
default     web-1                                                              10.244.3.2   default-ipv4-ippool   \
cali1f2e3d4c5b6   web-1                   api      -
"""
AMBIGUOUS = (
    f"shop is ambiguous: it is the container of {DOCKER.id} (10.244.3.3), {TWIN.id} (10.244.3.9). Give one of these"
    " ids."
)


def listing(node: Node, *workloads: AttachedWorkload) -> Node:
    agent = node.agent()
    agent.answers["workload.list"] = {"workloads": [one.to_dict() for one in workloads]}
    agent.answers["workload.get"] = agent.answers["workload.label"] = {"workload": workloads[0].to_dict()}
    agent.answers["workload.check"] = {"problems": []}
    return node


def test_a_list_has_a_column_for_containers_if_there_are_any(node: Node) -> None:
    node.store(dataclasses.replace(STATE, workloads=()))
    listing(node, WEB, DOCKER)
    assert node.run("workload", "list")[1] == TEXT
    shown = node.run("workload", "list", "-o", "wide")[1].splitlines()
    assert shown[0].endswith("CONTAINER") and "shop" in shown[1] and max(map(len, shown)) <= 130
    (found,) = [
        one
        for one in yaml.safe_load(node.run("workload", "list", "-o", "yaml")[1])["workloads"]
        if one["by"] == "docker"
    ]
    assert (found["container_name"], found["container_labels"]) == ("shop", {"x.org/tier": "front"})


@pytest.mark.parametrize("command", ["get", "label", "check"])
def test_a_workload_is_found_by_its_containers_name(node: Node, command: str) -> None:
    listing(node, DOCKER, WEB)
    more = ["app=web"] if command == "label" else []
    assert node.run("workload", command, "shop", *more)[0] == 0
    assert node.agents[-1].asked[-1][1]["id"] == DOCKER.id


@pytest.mark.parametrize("command", ["get", "label", "check"])
def test_a_name_of_two_containers_is_refused_with_both(node: Node, command: str) -> None:
    listing(node, DOCKER, TWIN)
    more = ["app=web"] if command == "label" else []
    assert node.run("workload", command, "shop", *more) == (1, "", f"calicoctl: {AMBIGUOUS}\n")


@pytest.mark.parametrize("name", ["web-1", "3f0c3f0c3f0c", "shop", POD.id])
def test_a_container_that_is_called_like_a_workload_stands_for_nothing(node: Node, name: str) -> None:
    """A workload's own name and id, also shortened, come before a container's name, which its user chooses."""
    other = dataclasses.replace(POD, id=f"docker/{'3f0c' * 16}", name="3f0c" * 16, namespace="default")
    plain = dataclasses.replace(WEB, id="default/shop", name="shop")
    listing(node, dataclasses.replace(TWIN, container_name=name), WEB, other, plain, POD)
    node.run("workload", "get", name)
    expected = {"web-1": WEB.id, "3f0c3f0c3f0c": other.id, "shop": plain.id, POD.id: POD.id}
    assert node.agents[-1].asked[-1] == ("workload.get", {"id": expected[name]})


def test_get_finds_the_workload_endpoint_of_a_container(node: Node) -> None:
    node.store()
    listing(node, DOCKER, WEB)
    found = yaml.safe_load(node.run("get", "wep", "shop", "-o", "yaml")[1])
    assert found["metadata"]["annotations"] == {"baremetal.host-routing/container": "shop"}
    assert found["spec"]["workload"] == DOCKER.name
    table = node.run("get", "wep", "-o", "custom-columns=workload,container")[1].splitlines()
    assert [line.split() for line in table if line][1:] == [["db"], ["web-1"], [DOCKER.name, "shop"]]
    assert node.run("__complete", "get", "wep", "s") == (0, "shop\n", "")
    assert node.run("__complete", "workload", "get", "s") == (0, "shop\n", "")


def test_get_refuses_the_name_of_two_containers_with_both(node: Node) -> None:
    node.store()
    listing(node, DOCKER, TWIN)
    assert node.run("get", "wep", "shop") == (
        1,
        "",
        f"{ALONE}calicoctl: shop is ambiguous: it is the container of {DOCKER.name} (10.244.3.3/32), {TWIN.name}"
        " (10.244.3.9/32). Give one of these names.\n",
    )
    assert node.run("__complete", "workload", "get", "s") == (0, "", "")


def test_explain_takes_the_name_of_a_container(node: Node) -> None:
    settled(node)
    agent = node.agents[-1]
    agent.answers["workload.list"] = {"workloads": [WEB.to_dict(), DOCKER.to_dict()]}
    status, out, err = explain(node, "shop db 80/tcp")
    assert (status in (0, 1), err) == (True, "") and f"default/{DOCKER.name}" in out
    agent.answers["workload.list"] = {"workloads": [DOCKER.to_dict(), TWIN.to_dict()]}
    assert explain(node, "shop db 80/tcp") == (
        2,
        "",
        f"calicoctl: --from shop is ambiguous: workload default/{DOCKER.name} (10.244.3.3), workload"
        f" default/{TWIN.name} (10.244.3.9). Give a workload's namespace, too, or the address.\n",
    )
    # A node's name is the node's, whatever a container is called.
    agent.answers["workload.list"] = {"workloads": [dataclasses.replace(DOCKER, container_name="node2").to_dict()]}
    assert DOCKER.name not in explain(node, "node2 db 80/tcp")[1]
