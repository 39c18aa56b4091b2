# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every shape that the template can take is one that BIRD can read: of Debian 12, of Debian 13, and BIRD 3."""

from __future__ import annotations

import dataclasses
import itertools
import pathlib
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.bird import configuration, version
from ansible_collections.baremetal.host_routing.plugins.module_utils.bird.errors import ConfigurationRefused
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.node_state import Bird, BirdPeer, BirdPool

from .daemons import render
from .debian_bird import RELEASES, Build, debian_bird

pytestmark = pytest.mark.root

MESH = (
    BirdPeer("Mesh_10_10_1_12", "10.10.1.12", 64512, "mesh", node="node2"),
    BirdPeer("Mesh_10_10_2_13", "10.10.2.13", 64600, "mesh", passive=True, node="node3"),
)
REFLECTING = (
    BirdPeer("Node_10_10_1_12", "10.10.1.12", 64512, "client", node="node2"),
    BirdPeer("Node_10_10_2_13", "10.10.2.13", 64600, "client", node="node3"),
    BirdPeer("Mesh_10_10_2_14", "10.10.2.14", 64512, "mesh", passive=True, node="node4"),
)
REFLECTED = (BirdPeer("Node_10_10_2_14", "10.10.2.14", 64512, "reflector", node="node4"),)
EXTERNAL = (
    BirdPeer("Global_10_10_1_1", "10.10.1.1", 65001, "external", multihop=False),
    BirdPeer("Global_192_0_2_1", "192.0.2.1", 64512, "external", passive=True),
)
PLAIN = Bird("10.10.1.11", "10.10.1.11", 64512, "10.10.1.0/24", blocks=("10.244.0.0/26", "10.244.9.64/26"), peers=MESH)


def shapes() -> t.Iterator[tuple[str, Bird]]:
    for device, cross, mtu in itertools.product(("", "tunl0", "vxlan.calico"), (False, True), (None, 1400)):
        pools = (BirdPool("10.244.0.0/16", device, cross, mtu, block_size=26),)
        yield f"{device or 'direct'}{'-cross' if cross else ''}{'-mtu' if mtu else ''}", plain(pools=pools)
    mixed = (
        BirdPool("10.244.0.0/16", "tunl0", True, block_size=26),
        BirdPool("10.245.0.0/16", "vxlan.calico", export=False, block_size=20),
        BirdPool("10.246.0.0/16", block_size=32),
        BirdPool("10.247.0.0/16"),
    )
    yield "mixed", plain(pools=mixed, peers=MESH + EXTERNAL)
    yield "empty", plain(blocks=(), peers=())
    yield "no-blocks", plain(pools=mixed, blocks=())
    yield "no-pools", plain(blocks=())
    yield "port", plain(pools=mixed, listen_port=1179, as_number=4200000000, graceful_restart_time=4095)
    yield (
        "pure-reflector",
        plain(pools=mixed, blocks=(), workload_node=False, cluster_id="10.10.1.11", peers=REFLECTING + EXTERNAL),
    )
    yield "reflector", plain(pools=mixed, cluster_id="10.10.1.11", peers=REFLECTING)
    yield "client", plain(pools=mixed, peers=REFLECTED)
    for severity in ("Debug", "Info", "Warning", "Error", "Fatal", "None"):
        yield severity, plain(pools=mixed, log_severity=severity)


def plain(**changes: t.Any) -> Bird:
    return dataclasses.replace(PLAIN, **changes)


@pytest.mark.parametrize("build", [*RELEASES], indirect=True)
def test_bird_reads_every_shape(build: Build, tmp_path: pathlib.Path) -> None:
    for name, bird in shapes():
        try:
            configuration.check(render(bird), str(tmp_path / f"{name}.cfg"), build.bird)
        except ConfigurationRefused as error:
            pytest.fail(f"{name}: {error}")


@pytest.mark.parametrize("build", [*RELEASES], indirect=True)
def test_bird_says_what_it_cannot_read(build: Build, tmp_path: pathlib.Path) -> None:
    text = render(PLAIN).replace("merge paths off;", "merge paths perhaps;")
    line = 1 + [line.strip() for line in text.splitlines()].index("merge paths perhaps;")
    with pytest.raises(ConfigurationRefused) as caught:
        configuration.check(text, "/etc/calico/bird.cfg", build.bird)
    assert str(caught.value).startswith("BIRD cannot read its new configuration: syntax error, unexpected")
    assert f" It is for /etc/calico/bird.cfg, line {line} (`merge paths perhaps;`). " in str(caught.value)


@pytest.mark.parametrize("release", [*RELEASES])
def test_the_versions_are_those_that_will_do(release: str) -> None:
    found = version.installed(debian_bird(release).bird)
    assert found and found.has_onlink
    assert str(found) == debian_bird(release).version.removesuffix(".0")
