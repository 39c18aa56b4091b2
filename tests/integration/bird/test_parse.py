# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every shape of the template's output is readable by every BIRD that the collection supports (USABLE)."""

from __future__ import annotations

import dataclasses
import itertools
import json
import pathlib
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.bgp import filters
from ansible_collections.baremetal.host_routing.plugins.module_utils.bgp.bird_state import (
    Bird,
    BirdPeer,
    BirdPool,
    Communities,
    Vtep6,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.bird import configuration, kernel_sync, version
from ansible_collections.baremetal.host_routing.plugins.module_utils.bird.errors import ConfigurationRefused
from ansible_collections.baremetal.host_routing.plugins.module_utils.resources import api as resources

from .daemons import render
from .debian_bird import ROOT, USABLE, Build, debian_bird

pytestmark = pytest.mark.root

CONFD = ROOT / "tests" / "unit" / "cases" / "confd_bird_cases.json"

MESH = (
    BirdPeer("Mesh_10_10_1_12", "10.10.1.12", 64512, "mesh", node="node2"),
    BirdPeer("Mesh_10_10_2_13", "10.10.2.13", 64600, "mesh", passive=True, node="node3"),
)
REFLECTING = (
    BirdPeer("Node_10_10_1_12", "10.10.1.12", 64512, "client", node="node2", cluster_id="10.10.0.1"),
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
    yield "equal-paths", plain(pools=mixed, peers=MESH + EXTERNAL, merge_paths=True)
    yield "port", plain(pools=mixed, listen_port=1179, as_number=4200000000, graceful_restart_time=4095)
    yield (
        "pure-reflector",
        plain(pools=mixed, blocks=(), workload_node=False, cluster_id="10.10.1.11", peers=REFLECTING + EXTERNAL),
    )
    yield "reflector", plain(pools=mixed, cluster_id="10.10.1.11", peers=REFLECTING)
    yield "client", plain(pools=mixed, peers=REFLECTED)
    reachable = dataclasses.replace(EXTERNAL[1], reachable_by="10.10.1.1")
    yield "reachable", plain(pools=(BirdPool("10.244.0.0/16", "vxlan.calico", mtu=1400),), peers=(reachable,))
    both = {"address6": "fd00:10:1::11", "subnet6": "fd00:10:1::/64"}
    six = (
        BirdPool("fd00:10:244::/48", "vxlan-v6.calico", block_size=122),
        BirdPool("fd00:10:245::/48", "vxlan-v6.calico", True, 1400, block_size=122),
        BirdPool("fd00:10:246::/48", export=False, block_size=128),
    )
    vteps = (Vtep6("fd00:10:1::12", "fe80::1"), Vtep6("fd00:10:2::13", "fe80::2"))
    blocks = (*PLAIN.blocks, "fd00:10:244::40/122")
    for reflector in (None, "10.10.1.11"):
        shape = plain(pools=mixed + six, blocks=blocks, vteps6=vteps, cluster_id=reflector, **both)
        yield f"dual-stack-{reflector}", shape
    yield "dual-stack-alone", plain(pools=six, blocks=blocks[2:], **both)
    for reflector in (None, "10.10.1.11"):
        alone = plain(pools=six, blocks=blocks[2:], vteps6=vteps, peers=(), cluster_id=reflector, **both)
        yield f"ipv6-alone-{reflector}", dataclasses.replace(alone, address="", subnet="")
    yield "dual-stack-pure-reflector", plain(pools=mixed + six, blocks=(), workload_node=False, vteps6=vteps, **both)
    yield "all-filters", filtered(mixed + six, **both)
    for severity in ("Debug", "Info", "Warning", "Error", "Fatal", "None"):
        yield severity, plain(pools=mixed, log_severity=severity)


def filtered(pools: tuple[BirdPool, ...], **changes: t.Any) -> Bird:
    """Return a Bird with the BGPFilters of Calico's own tests on each peer, the last one of each name.

    Each peer has a session of each IP version. Communities, ignored interfaces and a folder of snippets are set as
    well.
    """
    every = {
        document["metadata"]["name"]: resources.parse(document)
        for case in json.loads(CONFD.read_text("utf-8"))["cases"]
        for document in case["resources"] or ()
        if document["kind"] == "BGPFilter"
    }
    peers = [dataclasses.replace(peer, filters=tuple(every)) for peer in MESH + EXTERNAL]
    peers += [
        dataclasses.replace(peer, name=f"{peer.name}_6", address=f"fd00::{number}", family=6)
        for number, peer in enumerate(peers)
    ]
    return plain(
        pools=pools,
        peers=tuple(peers),
        filters=tuple(one for resource in every.values() for one in filters.functions(resource)),
        communities=(
            Communities("10.244.0.0/16", ((65000, 1), (65000, 2)), ((4294967295, 0, 1),)),
            Communities("fd00:10:244::/48", (), ((65000, 1, 1),)),
        ),
        ignored_interfaces=("docker*", "cni?", "a-b_c.d"),
        include_dir="/nowhere/bird.d",
        **changes,
    )


def plain(**changes: t.Any) -> Bird:
    return dataclasses.replace(PLAIN, **changes)


@pytest.mark.parametrize("build", USABLE, indirect=True)
def test_bird_reads_every_shape(build: Build, tmp_path: pathlib.Path) -> None:
    for name, bird in shapes():
        try:
            configuration.check(render(bird), str(tmp_path / f"{name}.cfg"), build.bird)
        except ConfigurationRefused as error:
            pytest.fail(f"{name}: {error}")


@pytest.mark.parametrize("build", USABLE, indirect=True)
def test_bird_reads_every_shape_with_weights(build: Build, tmp_path: pathlib.Path) -> None:
    """Each BIRD reads what `kernel_sync` lets a BIRD 3 read before another MTU."""
    for name, bird in shapes():
        try:
            configuration.check(kernel_sync.with_weights(render(bird)), str(tmp_path / f"{name}.cfg"), build.bird)
        except ConfigurationRefused as error:
            pytest.fail(f"{name}: {error}")


@pytest.mark.parametrize("build", USABLE, indirect=True)
def test_bird_says_what_it_cannot_read(build: Build, tmp_path: pathlib.Path) -> None:
    text = render(PLAIN).replace("merge paths off;", "merge paths perhaps;")
    line = 1 + [line.strip() for line in text.splitlines()].index("merge paths perhaps;")
    with pytest.raises(ConfigurationRefused) as caught:
        configuration.check(text, "/etc/calico/bird.cfg", build.bird)
    assert str(caught.value).startswith("BIRD cannot read its new configuration: syntax error, unexpected")
    assert f" It is for /etc/calico/bird.cfg, line {line} (`merge paths perhaps;`). " in str(caught.value)


@pytest.mark.parametrize("release", USABLE)
def test_the_versions_are_those_that_will_do(release: str) -> None:
    found = version.installed(debian_bird(release).bird)
    assert found and found.has_onlink
    assert str(found) == debian_bird(release).version.removesuffix(".0")
