# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A BIRD that learns routes while their tunnel device is missing: each release writes them once it is there."""

from __future__ import annotations

import contextlib
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.bird import configuration, unwritten_routes

from tests.integration.bird.daemons import Fleet, mesh, pool, render
from tests.integration.bird.debian_bird import EACH_RELEASE
from tests.integration.bird.network import Network, Node, wait_for

pytestmark = [pytest.mark.root, pytest.mark.parametrize("build", EACH_RELEASE, indirect=True)]

DEVICE = "vxlan.calico"


@contextlib.contextmanager
def hidden(node: Node) -> t.Iterator[None]:
    """Give a node's tunnel device another name meanwhile: for BIRD it is missing."""
    node.space.ip(f"link set {DEVICE} down", f"link set {DEVICE} name hidden0")
    try:
        yield
    finally:
        node.space.ip(f"link set hidden0 name {DEVICE}", f"link set {DEVICE} up")


def missing(node: Node, *others: Node) -> dict[str, str]:
    found = {line.split()[0] for line in node.space.routes("proto", "bird")}
    return {other.block: DEVICE for other in others if other.block not in found}


def test_bird_writes_routes_that_it_learned_before_their_device_existed(fleet: Fleet, network: Network) -> None:
    """Reading the configuration again does not help a BIRD 2; being made to offer its routes does, once."""
    one, two, three = network.nodes[:3]
    birds = mesh(network.nodes[:3], pool(DEVICE))
    daemon = fleet["node1"]
    with hidden(one):
        fleet.start(birds)
        for other in (two, three):
            wait_for(
                f"BIRD has {other.block}",
                lambda other=other: other.block in daemon.birdc("show", "route", other.block, check=False),
            )
        wait_for("the filter fails", lambda: "Invalid iface name" in daemon.log.read_text())
    text = render(birds["node1"])
    configuration.apply(text, str(daemon.config), daemon.socket, daemon.build.bird)
    if daemon.build.version < "3":
        configuration.reload(daemon.socket)
        assert missing(one, two, three) == {two.block: DEVICE, three.block: DEVICE}
        offered = unwritten_routes.offer_again(lambda: missing(one, two, three), daemon.socket)
        assert offered == (two.block, three.block)
    else:
        assert unwritten_routes.offer_again(lambda: missing(one, two, three), daemon.socket) == ()
    wait_for("both routes are written", lambda: not missing(one, two, three))
    # A node that is down has no route, and BIRD is left alone: offering writes all routes once more.
    four = network.nodes[3]
    assert unwritten_routes.offer_again(lambda: missing(one, two, three, four), daemon.socket) == ()
    daemon.kill()
    assert unwritten_routes.offer_again(lambda: {two.block: DEVICE}, daemon.socket) == ()
