# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reports of nodes about workloads that came to them: merging, and the owner of an address in two reports."""

from __future__ import annotations

import json

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.index.labels import namespaced_labels
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.model import DefinedPort, Endpoint
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.attachment import AttachedWorkload
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.plain_data import to_plain
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.policy_state import (
    PolicySettings,
    PolicyState,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.remote_endpoints import (
    Collected,
    RemoteEndpoints,
    ReportUpdate,
    own_endpoints,
    read_updates,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.agent.node_under_test import with_state

EARLY, LATE = "2026-11-22T06:00:00Z", "2026-11-22T07:00:00Z"


def endpoint(name: str, node: str, *addresses: str) -> Endpoint:
    return Endpoint(
        "WorkloadEndpoint", f"default/{name}", node, f"cali-{name}", addresses,
        namespaced_labels({"app": name}, "default"),
        ports=(DefinedPort("sql", "tcp", 5432),), namespace="default",
    )  # fmt: skip


DB, WEB = endpoint("db", "node2", "10.244.2.3"), endpoint("web", "node3", "10.244.3.3")
KNOWN = RemoteEndpoints({"node2": Collected(EARLY, (DB,)), "node3": Collected(EARLY, (WEB,))})


def test_json_and_back_is_the_same() -> None:
    data = json.loads(json.dumps(KNOWN.to_dict()))
    assert RemoteEndpoints.from_dict(data) == (KNOWN, ())
    assert data["node2"] == {"collected": EARLY, "endpoints": [to_plain(DB)]}


@pytest.mark.parametrize(
    "data, words",
    [
        ([], "the reports are not a dictionary"),
        ({"node2": {}}, "the report of node2 has no time of its collection"),
        ({"node2": {"collected": EARLY, "endpoints": {}}}, "the endpoints of node2 are not a list"),
        ({"node2": {"collected": EARLY, "blocks": "10.0.0.0/8"}}, "the blocks of node2 are not a list of texts"),
        ({"node2": {"collected": EARLY, "blocks": ["10.0.0.1/8"]}}, "10.0.0.1/8 is not a block"),
        ({"a\nb": {"collected": "x" * 41}}, r"the report of 'a\nb' has no time of its collection"),
    ],
)
def test_a_malformed_report_is_refused_with_its_reason(data: object, words: str) -> None:
    with pytest.raises(ValueError) as error:
        read_updates(data)
    assert str(error.value) == words


def test_the_report_of_a_node_that_could_not_be_asked_is_kept() -> None:
    gone = KNOWN.updated({"node3": ReportUpdate(LATE, ())}, ["node2", "node3"])
    assert gone == RemoteEndpoints({"node2": Collected(EARLY, (DB,)), "node3": Collected(LATE)})


def test_a_node_that_left_the_fleet_is_forgotten() -> None:
    assert KNOWN.updated({}, ["node3"]) == RemoteEndpoints({"node3": Collected(EARLY, (WEB,))})


def test_an_unchanged_report_gets_the_new_time() -> None:
    again = KNOWN.updated({"node2": ReportUpdate(LATE), "node9": ReportUpdate(LATE)}, ["node2", "node3", "node9"])
    assert again == RemoteEndpoints({"node2": Collected(LATE, (DB,)), "node3": Collected(EARLY, (WEB,))})
    assert again.nodes["node2"].digest == KNOWN.nodes["node2"].digest != KNOWN.nodes["node3"].digest


def test_an_address_that_two_told_of_is_the_one_s_that_was_asked_later() -> None:
    before = endpoint("db", "node2", "10.244.2.3", "10.244.2.4")
    now = endpoint("web", "node3", "10.244.2.3")
    remote = RemoteEndpoints({"node3": Collected(LATE, (now,)), "node2": Collected(EARLY, (before,))})
    assert remote.endpoints == (endpoint("db", "node2", "10.244.2.4"), now)
    remote = RemoteEndpoints({"node3": Collected(EARLY, (now,)), "node2": Collected(LATE, (before,))})
    assert remote.endpoints == (before,)


@settings(max_examples=50)
@given(st.dictionaries(st.sampled_from("abcd"), st.tuples(st.integers(0, 3), st.lists(st.integers(0, 5), max_size=3))))
def test_every_address_has_one_owner(told: dict[str, tuple[int, list[int]]]) -> None:
    remote = RemoteEndpoints(
        {
            node: Collected(
                f"2026-11-22T06:00:0{when}Z",
                tuple(endpoint(f"w{last}", node, f"10.0.0.{last}") for last in sorted(set(addresses))),
            )
            for node, (when, addresses) in told.items()
        }
    )
    found = {address: one.node for one in remote.endpoints for address in one.addresses}
    assert len(found) == sum(len(one.addresses) for one in remote.endpoints)
    for last in {last for dummy, addresses in told.values() for last in addresses}:
        claims = [(when, node) for node, (when, addresses) in told.items() if last in addresses]
        assert found[f"10.0.0.{last}"] == max(claims)[1]


def test_when_an_endpoint_was_told_of_whatever_it_is_called_here() -> None:
    assert KNOWN.when(DB) == EARLY
    assert KNOWN.when(Endpoint("WorkloadEndpoint", "default/db on node2", "node2", "cali-db", namespace="default")) == (
        EARLY
    )
    assert KNOWN.when(endpoint("of-the-inventory", "node2", "10.244.2.9")) is None
    assert KNOWN.when(endpoint("db", "node7", "10.244.2.3")) is None


def test_a_node_tells_of_workloads_that_came_to_it_as_its_own_policy_knows_them() -> None:
    came = [
        AttachedWorkload("default/web", "web", interface="cali1", addresses=("10.244.1.3",), labels={"app": "web"}),
        AttachedWorkload("prod/db", "db", "prod", "cali2", addresses=("10.244.1.2",)),
        AttachedWorkload("default/not-yet", "not-yet", interface="cali3"),
    ]
    state = with_state(policy=PolicyState(settings=PolicySettings(workload_profiles=("closed",))))
    web, db = own_endpoints(state, came)
    assert (web.name, web.node, web.interface, web.addresses) == ("default/web", "node1", "cali1", ("10.244.1.3",))
    assert dict(web.labels) == {
        "app": "web",
        "projectcalico.org/namespace": "default",
        "pcns.projectcalico.org/name": "default",
    }
    assert (db.name, db.namespace, db.profiles) == ("prod/db", "prod", ("closed",))
    (open_one,) = own_endpoints(with_state(), came[:1])
    assert open_one.profiles == ("projectcalico-default-allow",)
