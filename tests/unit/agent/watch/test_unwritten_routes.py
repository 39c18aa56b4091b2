# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The agent's watch for routes that BIRD has and the kernel lacks."""

from __future__ import annotations

import asyncio
import dataclasses
import logging

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.agent.watch.unwritten_routes import UnwrittenRoutes
from ansible_collections.baremetal.host_routing.plugins.module_utils.bgp.bird_state import BirdRoute
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.kernel.port import (
    PROTOCOL_BIRD,
    NewLink,
    RouteAttributes,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.planning import bird_routes

from tests.fakes.kernel import FakeKernel
from tests.unit.agent.node_under_test import STATE
from tests.unit.agent.virtual_time import inline
from tests.unit.bird.conftest import bird  # noqa: F401  a fixture
from tests.unit.bird.test_unwritten_routes import AWAY, BLOCK, learned, reloads  # noqa: F401  a fixture
from tests.unit.dataplane.suites.drivers import underlay, write_route

DIRECT = "10.244.3.0/26"
TUNNELLED = dataclasses.replace(
    STATE,
    bird_routes=(
        BirdRoute(BLOCK, "10.10.2.12", "vxlan.calico", True),
        BirdRoute(AWAY, "10.10.2.19", "vxlan.calico", True),
        BirdRoute(DIRECT, "10.10.1.13"),
    ),
)


@pytest.fixture
def kernel():
    made = FakeKernel()
    underlay(made)
    return made


def make_device(kernel):
    kernel.link_add(NewLink("vxlan.calico", "bridge"))
    kernel.link_set("vxlan.calico", up=True)


def watch(kernel, bird, state=TUNNELLED):  # noqa: F811
    return asyncio.run(UnwrittenRoutes(kernel, inline, bird.path, lambda: state).look())


def test_tunnelled_routes_are_missing_only_if_their_device_is_there(kernel):
    assert bird_routes.unwritten(kernel, TUNNELLED) == {}
    make_device(kernel)
    assert bird_routes.unwritten(kernel, TUNNELLED) == {BLOCK: "vxlan.calico", AWAY: "vxlan.calico"}
    written = RouteAttributes(device="vxlan.calico", gateway="10.10.2.12", protocol=PROTOCOL_BIRD, onlink=True)
    write_route(kernel, BLOCK, written)
    assert bird_routes.unwritten(kernel, TUNNELLED) == {AWAY: "vxlan.calico"}


def test_bird_is_asked_only_while_routes_are_missing(kernel, learned, caplog):  # noqa: F811
    caplog.set_level(logging.INFO, "calico.bird")
    assert not watch(kernel, learned) and not watch(kernel, learned, None) and not watch(kernel, learned, STATE)
    assert learned.asked == []
    make_device(kernel)
    assert watch(kernel, learned)
    assert reloads(learned) == ["reload out kernel4"]
    assert [record.getMessage() for record in caplog.records] == [
        f"BIRD had not written 1 route whose tunnel device was missing when it learned them, such as {BLOCK}. It writes"
        " them now."
    ]


def test_a_bird_that_does_not_answer_is_asked_again_later(kernel, learned):  # noqa: F811
    make_device(kernel)
    learned.answers[f"show route {BLOCK} primary"] = [[b"hang up"]]
    assert not watch(kernel, learned)
    assert reloads(learned) == []
