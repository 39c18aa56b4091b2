# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every option of a session is readable by every BIRD: of Debian 12, of Debian 13, and BIRD 3."""

from __future__ import annotations

import dataclasses
import pathlib
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.bgp.bird_state import Bfd, Bird, BirdPeer, BirdPool
from ansible_collections.baremetal.host_routing.plugins.module_utils.bird import configuration
from ansible_collections.baremetal.host_routing.plugins.module_utils.bird.errors import ConfigurationRefused

from tests.integration.bird.daemons import render
from tests.integration.bird.debian_bird import EACH_RELEASE, Build
from tests.unit.bgp import confd_cases

pytestmark = pytest.mark.root

#: {name of a case: fields of a BirdPeer that differ from the defaults}: each option alone, and several together.
OPTIONS: dict[str, dict[str, t.Any]] = {
    "plain": {},
    "passive": {"passive": True},
    "direct": {"multihop": False},
    "port": {"port": 1790},
    "own-port": {"local_port": 1791},
    "own-as": {"local_as": 64999},
    "bound": {"source_address": "own"},
    "unbound": {"source_address": ""},
    "password": {"password": "mesh:password"},
    "ttl-security": {"ttl_security": 2},
    "timers": {"hold_time": 9, "keepalive_time": 3, "connect_retry_time": 7},
    "restart": {"graceful_restart_time": 60},
    "no-restart": {"graceful_restart_time": 0},
    "long-lived": {"long_lived_stale_time": 16777215},
    "bfd": {"bfd": Bfd(50, 60, 3)},
    "keep": {"next_hop": "keep"},
    "self": {"next_hop": "self"},
    "own-as-allowed": {"allow_local_as": 3},
    "by-way-of": {"reachable_by": "gateway"},
    "all": {
        "passive": True,
        "port": 1790,
        "local_port": 1791,
        "source_address": "own",
        "password": "tor.a-1:P_w.1",
        "ttl_security": 255,
        "hold_time": 65535,
        "keepalive_time": 21845,
        "graceful_restart_time": 4095,
        "long_lived_stale_time": 3600,
        "bfd": Bfd(),
        "next_hop": "keep",
        "allow_local_as": 1,
        "reachable_by": "gateway",
    },
    "all-unbound": {"source_address": "", "local_as": 65010, "next_hop": "self", "allow_local_as": 2},
}
NET = {4: "10.10.3.", 6: "fd00:10:10:3::"}


def sessions() -> t.Iterator[BirdPeer]:
    """Yield a session for each option of OPTIONS, kind of session and IP version; each has an address of its own.

    The kinds are mesh, client, reflector, node and external.
    """
    for family in (4, 6):
        number = 10
        for option, fields in OPTIONS.items():
            for kind in ("mesh", "client", "reflector", "node", "external"):
                number += 1
                words = {"own": f"{NET[family]}9", "gateway": f"{NET[family]}1"}
                said = {
                    name: words.get(value, value) if isinstance(value, str) else value for name, value in fields.items()
                }
                yield BirdPeer(
                    f"{option.replace('-', '_')}_{kind}_{family}",
                    f"{NET[family]}{number}",
                    64512,
                    kind,
                    node="" if kind == "external" else f"node{number}",
                    family=family,
                    cluster_id="244.0.0.1" if kind == "client" and "local_as" not in said else None,
                    **said,
                )


def bird(**changes: t.Any) -> Bird:
    peers = tuple(sessions())
    whole = Bird(
        "10.10.1.11",
        "10.10.1.11",
        64512,
        "10.10.1.0/24",
        blocks=("10.244.0.0/26",),
        pools=(BirdPool("10.244.0.0/16", block_size=26),),
        peers=peers,
        cluster_id="244.0.0.1",
        address6="fd00:10:10:1::11",
        subnet6="fd00:10:10:1::/64",
        secrets=tuple(sorted({peer.password for peer in peers if peer.password})),
    )
    return dataclasses.replace(whole, **changes)


@pytest.mark.parametrize("build", EACH_RELEASE, indirect=True)
def test_bird_reads_every_option(build: Build, tmp_path: pathlib.Path) -> None:
    for changes in ({}, {"long_lived_stale_time": 600, "hold_time": 3, "keepalive_time": 1}, {"strict_bind": True}):
        whole = bird(**changes)
        configuration.check(render(whole), str(tmp_path / "bird.cfg"), build.bird, secrets=whole.secrets)


@pytest.mark.parametrize("build", EACH_RELEASE, indirect=True)
def test_bird_reads_what_calicos_resources_become(build: Build, tmp_path: pathlib.Path) -> None:
    refused = []
    for case in confd_cases.cases():
        if not case.resources or case.name in ("explicit_peering/local_bgp_peer", "mesh/static-routes-no-ipv4-address"):
            continue
        try:
            whole = dataclasses.replace(confd_cases.bird(case), include_dir="")
            configuration.check(render(whole), str(tmp_path / "bird.cfg"), build.bird, secrets=whole.secrets)
        except ConfigurationRefused as error:
            refused.append(f"{case}: {error}")
    assert refused == []
