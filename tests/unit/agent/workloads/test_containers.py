# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Names and labels of containers: what the reporter may change of a workload, and what it may not."""

from __future__ import annotations

import dataclasses

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.agent.api.calls import Calls
from ansible_collections.baremetal.host_routing.plugins.module_utils.agent.methods import Methods
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.model import (
    Entity,
    Policy,
    PolicyRule,
    policy_set,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.attachment import AttachedWorkload
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.policy_state import PolicyState, allow_all
from ansible_collections.baremetal.host_routing.plugins.module_utils.wire.peer import Peer
from ansible_collections.baremetal.host_routing.plugins.module_utils.wire.protocol import AgentError, Request
from ansible_collections.baremetal.host_routing.plugins.module_utils.wire.request import AddRequest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.agent.node_under_test import Node, with_state
from tests.unit.agent.virtual_time import run
from tests.unit.agent.workloads.test_policy import members

ROOT = Peer(1, 0, 0)
WEB, DB = "ab" * 32, "cd" * 32
CONTAINER = "12" * 32
FROM_DB = Policy("db", selector="all()", ingress=(PolicyRule("Allow", source=Entity(selector='x.org/app == "db"')),))
POLICY = PolicyState(policy_set([], [FROM_DB], [allow_all()]))
LABELS = {"x.org/app": "db"}


def described(endpoint: str = WEB, **more) -> dict:
    return {
        "runtime": "docker",
        "container": CONTAINER,
        "endpoints": [endpoint],
        "name": "web",
        "labels": LABELS,
        **more,
    }


async def tell(agent, **more) -> list[str]:
    calls = Calls(Methods(agent).for_runtimes)
    return (await calls.call(Request(1, "containers.describe", described(**more)), ROOT))["described"]


async def refusal(agent, **more) -> tuple[str, str]:
    with pytest.raises(AgentError) as caught:
        await tell(agent, **more)
    return caught.value.code, caught.value.message


async def started(tmp_path, *endpoints: str, **settings) -> Node:
    node = Node(tmp_path, with_state(policy=POLICY), **{"runtime_labels": ("x.org/",), **settings})
    agent = await node.start()
    for endpoint in endpoints or (WEB,):
        await agent.transactions.add(docker(endpoint))
    return node


def docker(endpoint: str, **more) -> AddRequest:
    return AddRequest(name=endpoint, id=f"docker/{endpoint}", handed_over=True, **more)


def test_a_label_of_a_container_is_one_for_policy(tmp_path) -> None:
    async def scenario():
        node = await started(tmp_path)
        (address,) = node.agent.transactions.get(f"docker/{WEB}").addresses
        assert members(node, "s:") == set()
        assert await tell(node.agent) == [f"docker/{WEB}"]
        assert members(node, "s:") == {address}
        workload = node.agent.transactions.get(f"docker/{WEB}")
        assert (workload.container_name, workload.labels) == ("web", LABELS)
        assert await tell(node.agent) == []  # the same again changes nothing
        # Without the label in the next report, it is gone.
        assert await tell(node.agent, labels={}) == [f"docker/{WEB}"]
        assert members(node, "s:") == set()

    run(scenario())


def test_names_and_labels_survive_a_restart_and_labels_only_as_chosen(tmp_path) -> None:
    async def scenario():
        node = await started(tmp_path)
        before = (await tell(node.agent), node.agent.transactions.get(f"docker/{WEB}"))[1]
        agent = await node.restart()
        assert agent.transactions.get(f"docker/{WEB}") == before
        node.settings = dataclasses.replace(node.settings, runtime_labels=("y.org/",))
        agent = await node.restart()
        workload = agent.transactions.get(f"docker/{WEB}")
        assert (workload.container_name, workload.labels, workload.container_labels) == ("web", {}, {})
        assert members(node, "s:") == set()

    run(scenario())


def test_labels_that_the_operator_set_or_removed_stay(tmp_path) -> None:
    async def scenario():
        node = await started(tmp_path, DB)
        agent = node.agent
        await agent.transactions.add(docker(WEB, labels={"x.org/app": "given"}))
        await agent.transactions.relabel(f"docker/{WEB}", {"x.org/tier": "back", "x.org/gone": None})
        own = {"x.org/app": "given", "x.org/tier": "back"}
        said = {"x.org/app": "db", "x.org/tier": "front", "x.org/gone": "x", "x.org/new": "y"}
        await tell(agent, labels=said)
        assert agent.transactions.get(f"docker/{WEB}").labels == {**own, "x.org/new": "y"}
        await agent.transactions.relabel(f"docker/{WEB}", {"x.org/new": "mine"})
        await tell(agent, labels=said)
        assert agent.transactions.get(f"docker/{WEB}").labels == {**own, "x.org/new": "mine"}
        # dockerd may repeat its request, and its labels are the operator's.
        again = await agent.transactions.add(
            docker(WEB, labels={"x.org/app": "given", "x.org/tier": "back", "x.org/new": "mine"})
        )
        assert again.labels == {**own, "x.org/new": "mine"}

    run(scenario())


def test_dockerd_may_repeat_its_request_after_the_report(tmp_path) -> None:
    async def scenario():
        node = await started(tmp_path)
        await tell(node.agent)
        assert (await node.agent.transactions.add(docker(WEB))).labels == LABELS

    run(scenario())


LABEL_MAPS = st.dictionaries(st.sampled_from(["x.org/a", "x.org/b", "c"]), st.sampled_from(["1", "2"]))
STEPS = st.lists(
    st.tuples(
        st.just("labelled"), st.dictionaries(st.sampled_from(["x.org/a", "x.org/b", "c"]), st.sampled_from(["1", None]))
    )
    | st.tuples(st.just("described"), LABEL_MAPS)
    | st.tuples(st.just("with_labels"), LABEL_MAPS),
    max_size=6,
)


@given(LABEL_MAPS, STEPS)
def test_no_order_of_changes_lets_a_container_override(given_labels, steps) -> None:
    """The labels are the operator's, and of the container's those of other keys."""
    workload = AttachedWorkload("id", "name", labels=given_labels)
    attached, changed, container = dict(given_labels), {}, {}
    for step, labels in steps:
        if step == "labelled":
            changed.update(labels)
            workload = workload.labelled(labels)
        elif step == "described":
            container = labels
            workload = workload.described("web", labels)
        else:
            attached = labels
            container = workload.container_labels
            workload = workload.with_labels(labels)
        own = {**attached, **changed}
        assert {key: text for key, text in own.items() if text is not None}.items() <= workload.labels.items()
        for key, text in workload.labels.items():
            assert (key in own and own[key] == text) or (key not in own and container[key] == text)
        assert AttachedWorkload.from_dict(workload.to_record()) == workload


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"name": "\x1b[2J"}, "name '\\x1b[2J' is not the name of a container."),
        ({"name": ""}, "name '' is not the name of a container."),
        ({"name": "docker/" + DB}, "is not the name of a container."),
        ({"name": "a" * 300}, "name is aaa"),
        ({"labels": {"projectcalico.org/namespace": "kube-system"}}, "is not one that is taken from containers."),
        ({"labels": {"other": "x"}}, "the label 'other' is not one that is taken from containers."),
        ({"labels": {"x.org/a": "\x1b[2J"}}, "the label 'x.org/a' is not one"),
        ({"labels": {"x.org/a": "y" * 64}}, "a text of at most 63 characters"),
        ({"labels": {f"x.org/{n}": "" for n in range(10_000)}}, "a table of at most 32"),
        ({"labels": {"x.org/a": None}}, "labels.x.org/a is None"),
        ({"endpoints": ["../" + WEB]}, "an id of 64 hex digits"),
        ({"endpoints": [WEB] * 65}, "a list of at most 64"),
        ({"runtime": "calico"}, "one of docker, podman"),
        ({"container": "web"}, "an id of 64 hex digits"),
        ({"id": "default/db"}, "id is not known"),
    ],
)
def test_what_is_not_a_name_or_a_label_is_refused(tmp_path, wrong, why) -> None:
    async def scenario():
        node = await started(tmp_path)
        code, message = await refusal(node.agent, **wrong)
        assert code == "invalid_params" and why in message and "\x1b" not in message
        workload = node.agent.transactions.get(f"docker/{WEB}")
        assert (workload.container_name, workload.labels) == ("", {})

    run(scenario())


def test_a_container_describes_none_but_its_own_interfaces(tmp_path) -> None:
    """A name that is another container's id, and a podman container of an id of Docker's, change nothing of others."""

    async def scenario():
        node = await started(tmp_path, WEB, DB)
        agent = node.agent
        await node.add("api")
        await agent.transactions.add(
            node.request("pod", id=f"calico.{CONTAINER}.eth0", container=CONTAINER, runtime="podman")
        )
        assert await tell(agent, name=DB) == [f"docker/{WEB}"]
        assert agent.transactions.get(f"docker/{DB}").container_name == ""
        assert await tell(agent, runtime="podman", container=WEB, endpoints=[DB]) == []
        assert await tell(agent, container=CONTAINER, endpoints=[]) == []
        assert await tell(agent, runtime="podman", endpoints=[DB]) == [f"calico.{CONTAINER}.eth0"]
        assert agent.transactions.get("default/api").labels == {}
        # A container that is gone, or in no network of ours, is no error.
        assert await tell(agent, endpoints=["ee" * 32]) == []

    run(scenario())


def test_a_flood_of_changes_is_refused_and_costs_no_record(tmp_path) -> None:
    async def scenario():
        node = await started(tmp_path)
        for number in range(200):
            assert await tell(node.agent, name=f"web{number % 7}") == [f"docker/{WEB}"]
        code, message = await refusal(node.agent, name="more")
        assert (code, message) == (
            "try_again",
            "more than 50 containers a second changed. Report this one again in a second.",
        )
        assert await tell(node.agent, name="web3") == []  # what changes nothing costs nothing
        await node.settle()
        assert await tell(node.agent, name="more") == [f"docker/{WEB}"]

    run(scenario())


def test_the_reporter_hears_of_containers_alone(tmp_path) -> None:
    async def scenario():
        node = await started(tmp_path)
        agent = node.agent
        await node.add("api")
        pod = node.request("pod", id=f"calico.{CONTAINER}.eth0", container=CONTAINER, runtime="podman")
        await agent.transactions.add(pod)
        methods = Methods(agent).for_runtimes
        assert set(methods) == {"containers.watch", "containers.describe"}
        events = methods["containers.watch"].handler({}, ROOT)
        first = await anext(events)
        assert first == {"event": "known", "prefixes": ["x.org/"], "docker": True, "containers": [CONTAINER]}
        await node.add("other")
        await agent.transactions.add(docker(DB))
        await agent.transactions.add(node.request("pod2", id=f"calico.{WEB}.eth0", container=WEB))
        assert await anext(events) == {"event": "added", "docker": True, "containers": []}
        assert await anext(events) == {"event": "added", "docker": False, "containers": [WEB]}
        await events.aclose()

    run(scenario())
