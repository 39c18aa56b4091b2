# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""`calicoctl workload`: the request to the agent, and the output for its answer."""

from __future__ import annotations

import dataclasses
import json
import threading

import pytest
import yaml
from ansible_collections.baremetal.host_routing.plugins.module_utils.base.published_port import PublishedPort
from ansible_collections.baremetal.host_routing.plugins.module_utils.wire.protocol import AgentError

from tests.unit.cli.conftest import ALONE, POD, WEB, Node

WISHES = {
    "name": "web-1",
    "namespace": "default",
    "netns": "web-1",
    "netns_owned": True,
    "peer_interface": "eth0",
    "address": None,
    "pools": [],
    "labels": {},
    "mac": None,
    "mtu": None,
}
LISTED = """\
NAMESPACE   NAME    ADDRESS      POOL                  INTERFACE         NETNS                   BY
default     db      10.244.3.1   default-ipv4-ippool   cali0d3f1c11aa2   db                      inventory
default     web-1   10.244.3.2   default-ipv4-ippool   cali1f2e3d4c5b6   web-1                   api
prod        shop    10.244.3.3   default-ipv4-ippool   cali99aabbccdde   /run/netns/netns-3f0c   cni
"""
SHOWN = """\
id              default/web-1
name            web-1
namespace       default
interface       cali1f2e3d4c5b6
netns           web-1
netns_owned     true
peer_interface  eth0
addresses       10.244.3.2
pool            default-ipv4-ippool
labels          app=web,tier=front
since           2026-11-21T07:00:00Z
"""


@pytest.mark.parametrize(
    ("arguments", "wishes"),
    [
        ("web-1", {}),
        ("web-1 --netns other", {"netns": "other"}),
        ("web-1 --netns /run/netns/x", {"netns": "/run/netns/x", "netns_owned": False}),
        ("web-1 --pid 812", {"netns": "/proc/812/ns/net", "netns_owned": False}),
        (
            "web-1 -n prod --interface net1 --address 10.244.3.9 --pool a --pool b --label app=web --label x= "
            "--mac 02:00:00:00:00:01 --mtu 1400",
            {
                "namespace": "prod",
                "peer_interface": "net1",
                "address": "10.244.3.9",
                "pools": ["a", "b"],
                "labels": {"app": "web", "x": ""},
                "mac": "02:00:00:00:00:01",
                "mtu": 1400,
            },
        ),
    ],
)
def test_the_options_of_workload_add_reach_the_agent(node: Node, arguments: str, wishes: dict[str, object]) -> None:
    agent = node.agent()
    agent.answers["workload.add"] = {"workload": WEB.to_dict(), "created": True}
    expected = "Attached default/web-1: 10.244.3.2 on cali1f2e3d4c5b6, eth0 in web-1\n"
    assert node.run("workload", "add", *arguments.split()) == (0, expected, "")
    assert agent.asked == [("workload.add", {**WISHES, **wishes})]


def test_adding_an_attached_workload_again_says_so(node: Node) -> None:
    agent = node.agent()
    agent.answers["workload.add"] = {"workload": WEB.to_dict(), "created": False}
    expected = "Already attached: default/web-1: 10.244.3.2 on cali1f2e3d4c5b6, eth0 in web-1\n"
    assert node.run("workload", "add", "web-1") == (0, expected, "")
    status, out, dummy = node.run("workload", "add", "web-1", "-o", "json")
    assert (status, json.loads(out)) == (0, WEB.to_dict())


def test_a_refusal_of_the_agent_is_printed(node: Node) -> None:
    agent = node.agent()
    agent.answers["workload.add"] = AgentError("no_address", "all blocks are full. Run site.yml, which grants more.")
    expected = "calicoctl: all blocks are full. Run site.yml, which grants more.\n"
    assert node.run("workload", "add", "web-1") == (1, "", expected)


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ("x --label y", "invalid label y. Write it as key=value."),
        (f"x --wait {'9' * 400}", "--wait: 3600 seconds are the most, and 0 the least."),
        ("x --wait -1", "--wait: 3600 seconds are the most, and 0 the least."),
        ("x --pid 3 --netns y", "--pid and --netns name the same thing. Give one of them."),
    ],
)
def test_invalid_options_of_workload_add_are_refused(node: Node, arguments: str, error: str) -> None:
    assert node.run("workload", "add", *arguments.split()) == (2, "", f"calicoctl: {error}\n")


def test_workload_del_reports_each_workload(node: Node) -> None:
    agent = node.agent()
    agent.answers["workload.delete"] = lambda params: {"deleted": params["id"] != "default/gone"}
    expected = "Deleted default/web-1\ndefault/gone is not there: nothing to delete\nDeleted podman.3f0c.eth0\n"
    assert node.run("workload", "del", "web-1", "gone", "podman.3f0c.eth0") == (0, expected, "")
    assert [params["id"] for dummy, params in agent.asked] == ["default/web-1", "default/gone", "podman.3f0c.eth0"]


def test_delete_goes_on_after_one_that_failed(node: Node) -> None:
    agent = node.agent()
    agent.answers["workload.delete"] = lambda params: (
        AgentError("not_written", "No space left. Make room.") if params["id"] == "prod/a" else {"deleted": True}
    )
    expected = "prod/a: No space left. Make room.\n"
    assert node.run("workload", "delete", "-n", "prod", "a", "b") == (1, "Deleted prod/b\n", expected)


@pytest.mark.parametrize("command", ["add", "del"])
def test_a_command_waits_for_an_agent_that_restarts(node: Node, command: str) -> None:
    agent = node.agent()
    agent.answers["workload.delete"] = {"deleted": True}
    agent.answers["workload.add"] = {"workload": WEB.to_dict(), "created": True}
    run, hidden = node.folder / "run", node.folder / "hidden"
    run.rename(hidden)  # nobody listens at the agent's socket
    status, dummy, err = node.run("workload", command, "web-1", "--wait", "0")
    assert (status, err.count("the agent of this node does not answer")) == (1, 1)
    starting = threading.Timer(0.5, hidden.rename, (run,))
    starting.start()
    status, out, err = node.run("workload", command, "web-1", "--wait", "60")
    assert (status, out.split()[0], err) == (0, "Attached" if command == "add" else "Deleted", "")
    starting.join()


def test_workload_label_sets_and_removes_labels(node: Node) -> None:
    agent = node.agent()
    agent.answers["workload.label"] = {"workload": {**WEB.to_dict(), "labels": {"app": "shop"}}}
    asked = ("workload", "label", "web-1", "app=shop", "tier-", "a-=b")
    assert node.run(*asked) == (0, "default/web-1: app=shop\n", "")
    wanted = {"app": "shop", "tier": None, "a-": "b"}
    assert agent.asked[-1] == ("workload.label", {"id": "default/web-1", "labels": wanted})
    agent.answers["workload.label"] = {"workload": {**WEB.to_dict(), "labels": {}}}
    assert node.run("workload", "label", "web-1", "app-") == (0, "default/web-1: no labels\n", "")
    assert json.loads(node.run("workload", "label", "web-1", "app-", "-o", "json")[1])["labels"] == {}
    expected = "calicoctl: invalid label app. Write it as key=value.\n"
    assert node.run("workload", "label", "web-1", "app") == (2, "", expected)


def test_workload_get_prints_one_workload(node: Node) -> None:
    agent = node.agent()
    agent.answers["workload.get"] = {"workload": WEB.to_dict()}
    assert node.run("workload", "get", "web-1") == (0, SHOWN, "")
    assert yaml.safe_load(node.run("workload", "get", "web-1", "-o", "yaml")[1]) == WEB.to_dict()
    assert agent.asked[1] == ("workload.get", {"id": "default/web-1"})


def test_workload_check_prints_problems_and_exits_with_1(node: Node) -> None:
    agent = node.agent()
    agent.answers["workload.check"] = {"problems": []}
    assert node.run("workload", "check", "web-1") == (0, "default/web-1 is in sync\n", "")
    agent.answers["workload.check"] = {"problems": ["route 10.244.3.2/32 is missing."]}
    assert node.run("workload", "check", "web-1") == (1, "! route 10.244.3.2/32 is missing.\n", "")
    assert agent.asked[-1] == ("workload.check", {"id": "default/web-1"})


WIDE = """\
NAMESPACE  NAME                    ADDRESS              INTERFACE        NETNS           BY         PORTS
default    2d542d542d54            10.244.3.4,          cali99aabbccdde  a6aa6f52effe    docker     8080:80/tcp,
                                   fd00:10:244::3:5                                                 5353:53/udp,
                                                                                                    9000-9019:90-109/tcp
default    db                      10.244.3.1           cali0d3f1c11aa2  db              inventory  -
prod       shop.3f0c3f0c3f0c.eth0  10.244.3.3           cali99aabbccdde  netns-d9e8f7a6  podman     -
"""


def test_the_wide_list_shows_ports_within_120_columns(node: Node) -> None:
    """Lists of containers do not show these ports. Ids are as short as there, and nothing else is left out."""
    agent = node.agent()
    node.store()
    ports = [PublishedPort("tcp", 8080, 80), PublishedPort("udp", 5353, 53)]
    ports += [PublishedPort("tcp", 9000 + more, 90 + more) for more in range(20)]
    docker = dataclasses.replace(
        POD,
        id=f"docker/{'2d54' * 16}",
        name="2d54" * 16,
        namespace="default",
        netns="/var/run/docker/netns/a6aa6f52effe",
        addresses=("10.244.3.4", "fd00:10:244::3:5"),
        ports=tuple(ports),
        runtime="docker",
    )
    podman = dataclasses.replace(
        POD,
        name="shop.3f0c3f0c3f0c.eth0",
        netns="/run/netns/netns-d9e8f7a6-1111-2222-3333-0123456789ab",
        runtime="podman",
    )
    agent.answers["workload.list"] = {"workloads": [docker.to_dict(), podman.to_dict()]}
    status, output, dummy = node.run("workload", "list", "-o", "wide")
    assert (status, output) == (0, WIDE)
    assert max(map(len, output.splitlines())) <= 120


def test_a_container_is_found_by_its_shortened_name(node: Node) -> None:
    """The wide list shortens a name of 64 digits. Two workloads whose names begin alike have no shortened name."""
    agent = node.agent()
    one, other = (
        dataclasses.replace(POD, id=f"docker/{name}", name=name, namespace="default")
        for name in ("2d54" * 16, "ab01" * 16)
    )
    agent.answers["workload.get"] = {"workload": one.to_dict()}
    agent.answers["workload.list"] = {"workloads": [one.to_dict(), other.to_dict()]}
    for name in ("2d542d542d54", "2d54" * 16):
        assert node.run("workload", "get", name)[0] == 0
        assert agent.asked[-1] == ("workload.get", {"id": one.id})
    twin = dataclasses.replace(one, id="docker/twin", name="2d542d542d54" + "0" * 52)
    agent.answers["workload.list"] = {"workloads": [one.to_dict(), twin.to_dict()]}
    node.run("workload", "get", "2d542d542d54")
    assert agent.asked[-1] == ("workload.get", {"id": "default/2d542d542d54"})


@pytest.mark.parametrize("command", ["get", "label", "check"])
def test_a_container_is_found_by_the_name_that_is_listed(node: Node, command: str) -> None:
    """A command takes a container's name as `list` shows it, web.3f0c.eth0 or db.0123, and asks the agent for its id.

    An id, and a name that no workload has, go to the agent unchanged.
    """
    agent = node.agent()
    named = dataclasses.replace(POD, name="web.3f0c.eth0")
    docker = dataclasses.replace(POD, id="docker/4567", name="db.0123", namespace="default")
    agent.answers["workload.list"] = {"workloads": [WEB.to_dict(), named.to_dict(), docker.to_dict()]}
    agent.answers["workload.get"] = agent.answers["workload.label"] = {"workload": named.to_dict()}
    agent.answers["workload.check"] = {"problems": []}
    labels = ["app=web"] if command == "label" else []
    for namespace, name, id in (
        ("prod", "web.3f0c.eth0", "podman.3f0c.eth0"),
        ("prod", "podman.3f0c.eth0", "podman.3f0c.eth0"),
        ("default", "web.3f0c.eth0", "web.3f0c.eth0"),
        ("default", "db.0123", "docker/4567"),
        ("prod", "db.0123", "prod/db.0123"),
    ):
        status, out, dummy = node.run("workload", command, "-n", namespace, name, *labels)
        assert (status, agent.asked[-1][1]["id"]) == (0, id)
        assert command != "label" or out == "prod/web.3f0c.eth0: no labels\n"


def test_workload_list_prints_all_workloads_with_their_owner(node: Node) -> None:
    node.store()
    node.agent()
    assert node.run("workload", "list") == (0, LISTED, ALONE)
    assert node.run("workload", "list", "-o", "json")[2] == ""  # a program may read both streams
    found = json.loads(node.run("workload", "list", "-o", "json")[1])["workloads"]
    assert [(entry["id"], entry["by"]) for entry in found] == [
        ("default/db", "inventory"),
        ("default/web-1", "api"),
        ("podman.3f0c.eth0", "cni"),
    ]
