# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the modules workload and workload_info: their requests to the agent, and what they make of its answers."""

from __future__ import annotations

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.store.endpoints import Endpoints
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.store.store import Store, Stored
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.attachment import AttachedWorkload
from ansible_collections.baremetal.host_routing.plugins.module_utils.wire.protocol import AgentError
from ansible_collections.baremetal.host_routing.plugins.module_utils.wire.request import AddRequest
from ansible_collections.baremetal.host_routing.plugins.modules import workload, workload_info

from tests.unit.cli.conftest import POD, STATE
from tests.unit.cli.fake_agent import FakeAgent

NO_AGENT = (
    "the agent of this node does not answer. Its socket is {}: No such file or directory. Start it with "
    "`systemctl start calico-agent`; `journalctl -u calico-agent` says why it stopped."
)


class Books:
    """The workloads of an agent that assigns 10.244.3.2 and the following addresses where none is requested."""

    def __init__(self, agent: FakeAgent) -> None:
        self.held = {}
        self.given = 1
        agent.answers.update(
            {
                "workload.get": self.get,
                "workload.add": self.add,
                "workload.delete": lambda params: {"deleted": self.held.pop(params["id"], None) is not None},
                "workload.label": self.label,
                "workload.list": lambda dummy: {"workloads": list(self.held.values())},
            }
        )

    def hold(self, name, *addresses, pool="default-ipv4-ippool"):
        id = f"default/{name}"
        self.held[id] = AttachedWorkload(
            id=id,
            name=name,
            netns=name,
            netns_owned=True,
            interface="cali1f2e3d4c5b6",
            addresses=addresses,
            pool=pool,
        ).to_dict()

    def get(self, params):
        if params["id"] not in self.held:
            return AgentError("not_found", f"there is no workload {params['id']}.")
        return {"workload": self.held[params["id"]]}

    def label(self, params):
        workload = self.held[params["id"]]
        labels = {**workload["labels"], **params["labels"]}
        self.held[params["id"]] = {
            **workload,
            "labels": {key: text for key, text in labels.items() if text is not None},
        }
        return {"workload": self.held[params["id"]]}

    def add(self, params):
        try:
            AddRequest.from_params(params)
        except AgentError as error:
            return error
        wanted = {**params, "pool": (params.pop("pools") or ["default-ipv4-ippool"])[0]}
        addresses = tuple(filter(None, (wanted.pop("address"), wanted.pop("address6", None))))
        wanted.pop("pools")
        wanted.pop("families", None)
        if not addresses:
            self.given += 1
            addresses = (f"10.244.3.{self.given}",)
        id = f"{wanted['namespace']}/{wanted['name']}"
        self.held[id] = AttachedWorkload(id=id, interface="cali1f2e3d4c5b6", addresses=addresses, **wanted).to_dict()
        return {"workload": self.held[id], "created": True}


@pytest.fixture
def node(host):
    (host.folder / "run").mkdir(exist_ok=True)
    agent = FakeAgent(host.machine.agent_socket)
    host.agent, host.books = agent, Books(agent)
    # Only the agent's workloads could change, so they are compared in place of the kernel.
    host.snapshot = lambda: {key: dict(value) for key, value in host.books.held.items()}
    yield host
    agent.close()


def test_present_and_absent(node):
    planned, done = node.four_times(workload, name="web-1", labels={"app": "web", "replica": 1, "canary": True})
    line = "eth0 in web-1  labels app=web,canary=true,replica=1"
    assert planned["plan"] == [f"+ workload default/web-1  {line}"]
    assert planned["diff"] == {"before": "", "after": f"workload default/web-1  {line}\n"}
    assert "workload" not in planned
    assert (done["workload"]["addresses"], done["workload"]["netns_owned"]) == (["10.244.3.2"], True)
    planned, done = node.four_times(workload, name="web-1", state="absent")
    assert planned["plan"] == ["- workload default/web-1  10.244.3.2"]
    assert "workload" not in done and node.books.held == {}


def test_all_that_can_be_asked_for(node):
    answer = node.run(workload, name="db", namespace="prod", pid=812, address="10.244.3.9", pools=["lab"], mtu=1400,
                      peer_interface="net1", mac="02:00:00:00:00:0A")  # fmt: skip
    assert answer["changed"] is True
    assert node.agent.asked[-1] == (
        "workload.add",
        {
            "name": "db",
            "namespace": "prod",
            "netns": "/proc/812/ns/net",
            "netns_owned": False,
            "peer_interface": "net1",
            "address": "10.244.3.9",
            "labels": {},
            "mac": "02:00:00:00:00:0a",
            "mtu": 1400,
        },
    )
    assert node.run(workload, name="db", namespace="prod", pid=812, pools=["x", "lab"], mtu=1400,
                    peer_interface="net1", mac="02:00:00:00:00:0a")["changed"] is False  # fmt: skip


def test_changed_options_reattach_the_workload_with_its_address(node):
    node.run(workload, name="web-1", labels={"app": "web"})
    planned, done = node.four_times(workload, name="web-1", labels={"app": "shop"}, mtu=1400)
    assert planned["plan"] == [
        "~ workload default/web-1  labels app=web  mtu any  ->  labels app=shop  mtu 1400",
    ]
    assert done["workload"]["addresses"] == ["10.244.3.2"]


def test_other_labels_leave_it_attached(node):
    node.run(workload, name="web-1", labels={"app": "web", "old": "yes"})
    node.agent.asked.clear()
    planned, done = node.four_times(workload, name="web-1", labels={"app": "shop", "new": "yes"})
    assert planned["plan"] == ["~ workload default/web-1  labels app=web,old=yes  ->  labels app=shop,new=yes"]
    assert done["workload"]["labels"] == {"app": "shop", "new": "yes"}
    assert [asked for asked in node.agent.asked if asked[0] != "workload.get"] == [
        ("workload.label", {"id": "default/web-1", "labels": {"app": "shop", "old": None, "new": "yes"}})
    ]


def test_a_new_peer_interface_is_planned_and_applied(node):
    node.run(workload, name="web-1")
    planned, dummy = node.four_times(workload, name="web-1", peer_interface="net1")
    assert planned["plan"] == ["~ workload default/web-1  peer_interface eth0  ->  peer_interface net1"]


def test_a_new_pool_or_address_changes_the_workloads_address(node):
    node.run(workload, name="web-1")
    dummy, done = node.four_times(workload, name="web-1", pools=["lab"])
    assert (done["workload"]["pool"], done["workload"]["addresses"]) == ("lab", ["10.244.3.3"])
    planned, done = node.four_times(workload, name="web-1", address="10.244.3.20")
    assert planned["plan"] == ["~ workload default/web-1  address 10.244.3.3  ->  address 10.244.3.20"]
    assert done["workload"]["addresses"] == ["10.244.3.20"]


def test_an_ipv6_only_workload_keeps_its_address_when_it_is_changed(node):
    node.books.hold("web-1", "fd00::7", pool="six")
    planned, done = node.four_times(workload, name="web-1", mtu=1400)
    assert planned["plan"] == ["~ workload default/web-1  mtu any  ->  mtu 1400"]
    assert done["workload"]["addresses"] == ["fd00::7"]


@pytest.mark.parametrize(
    ("params", "kept"),
    [
        ({}, {"address": "10.244.3.2", "address6": "fd00::7"}),
        ({"families": [6]}, {"address": None, "address6": "fd00::7"}),
        ({"families": [4]}, {"address": "10.244.3.2"}),
        ({"address": "10.244.3.9"}, {"address": "10.244.3.9", "address6": "fd00::7"}),
        ({"address6": "fd00::9"}, {"address": "10.244.3.2", "address6": "fd00::9"}),
        ({"pools": ["default-ipv4-ippool"]}, {"address": "10.244.3.2"}),
        ({"pools": ["10.244.0.0/16", "fd00::/64"]}, {"address": "10.244.3.2", "address6": "fd00::7"}),
        ({"pools": ["lab"]}, {"address": None}),
    ],
)
def test_a_changed_workload_keeps_the_addresses_that_are_still_allowed(node, params, kept):
    node.books.hold("web-1", "10.244.3.2", "fd00::7")
    node.run(workload, name="web-1", mtu=1400, **params)
    method, asked = node.agent.asked[-1]
    assert method == "workload.add"
    assert {field: asked[field] for field in ("address", "address6") if field in asked} == kept


def test_a_change_to_something_invalid_is_refused_before_the_workload_is_deleted(node):
    node.run(workload, name="web-1")
    answer = node.run(workload, name="web-1", mtu=10)
    assert (answer["failed"], answer["msg"], answer["code"]) == (
        True, "workload.add: mtu 10 must be a number of bytes from 68 to 65535.", "invalid_params",
    )  # fmt: skip
    assert list(node.books.held) == ["default/web-1"]


def test_a_pool_that_is_named_by_its_cidr_is_the_workloads_own(node):
    node.run(workload, name="web-1")
    for cidr in ("10.244.0.0/16", "10.244.7.1/16"):
        assert node.run(workload, name="web-1", pools=[cidr])["changed"] is False
    assert node.run(workload, name="web-1", pools=["10.245.0.0/16"])["changed"] is True


def test_the_agent_refuses(node):
    node.agent.answers["workload.add"] = AgentError("no_address", "all blocks are full. Run site.yml.")
    answer = node.run(workload, name="web-1")
    assert (answer["failed"], answer["msg"], answer["code"]) == (
        True, "all blocks are full. Run site.yml.", "no_address",
    )  # fmt: skip


@pytest.mark.parametrize("check", [True, False])
def test_without_an_agent(host, check):
    answer = host.run(workload, check=check, name="web-1")
    assert (answer["failed"], answer["code"]) == (True, "unavailable")
    assert answer["msg"] == NO_AGENT.format(host.machine.agent_socket)


def test_netns_and_pid_exclude_each_other(host):
    assert host.run(workload, name="x", netns="x", pid=3)["msg"] == ("parameters are mutually exclusive: netns|pid")


def test_workload_info_lists_and_filters_workloads(node):
    Store(node.machine.store).save(Stored(STATE, None, (), "x", complete=True))
    node.run(workload, name="web-1", labels={"app": "web"})
    answer = node.run(workload_info)
    assert (answer["changed"], answer["agent_running"]) == (False, True)
    assert [(entry["id"], entry["by"]) for entry in answer["workloads"]] == [
        ("default/db", "inventory"),
        ("default/web-1", "api"),
    ]
    for params, names in (
        ({"selector": "app == 'web'"}, ["web-1"]),
        ({"name": "db"}, ["db"]),
        ({"namespace": "prod"}, []),
    ):
        assert [entry["name"] for entry in node.run(workload_info, **params)["workloads"]] == names


def test_info_without_an_agent_reads_the_records(host):
    Store(host.machine.store).save(Stored(STATE, None, (), "x", complete=True))
    Endpoints(host.machine.workloads).save(POD)
    answer = host.run(workload_info)
    assert [(entry["id"], entry["by"]) for entry in answer["workloads"]] == [
        ("default/db", "inventory"),
        (POD.id, "cni"),
    ]
    assert answer["agent_running"] is False
    assert "the agent does not run (nobody listens at " in str(answer["warnings"])


def test_info_with_a_selector_that_is_none(node):
    Store(node.machine.store).save(Stored(STATE, None, (), "x", complete=True))
    assert node.run(workload_info, selector="app ==")["msg"].startswith("selector 'app ==' cannot be read at column 7:")
