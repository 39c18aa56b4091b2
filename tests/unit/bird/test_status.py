# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The output of `show protocols all` of each release, parsed. The samples come from real daemons."""

from __future__ import annotations

import pathlib

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.bird.status import Session, parse_sessions

SAMPLES = pathlib.Path(__file__).parent / "samples"


@pytest.mark.parametrize(
    ("release", "killed", "others", "exported"),
    [
        ("2.0.12", "2026-11-21 07:13:29", "2026-11-21 07:13:23", 0),
        ("2.17.5", "2026-11-21 07:13:48", "2026-11-21 07:13:43", 0),
        ("3.4.0", "2026-11-21 07:14:08", "2026-11-21 07:14:02", 1),
    ],
)
def test_each_release_is_understood(release: str, killed: str, others: str, exported: int) -> None:
    assert parse_sessions((SAMPLES / f"{release}.txt").read_text("utf-8")) == (
        Session(
            name="Mesh_10_10_1_11",
            state="start",
            since=killed,
            info="Passive Socket: Connection closed",
            bgp_state="Passive",
            description="node1",
            address="10.10.1.11",
            neighbor_as=64512,
            local_as=64512,
            graceful_restart=False,
            neighbor_restarting=True,
            imported=1,
            exported=exported,
            error="Socket: Connection closed",
        ),
        Session(
            name="Mesh_10_10_2_13",
            state="up",
            since=others,
            info="Established",
            bgp_state="Established",
            description="node3",
            address="10.10.2.13",
            neighbor_as=64512,
            local_as=64512,
            graceful_restart=True,
            neighbor_restarting=False,
            imported=1,
            exported=1,
        ),
    )


def test_a_session_that_is_down_has_no_routes() -> None:
    external, node = parse_sessions((SAMPLES / "down.txt").read_text("utf-8"))
    assert (node.established, node.imported, node.error) == (False, 0, "Received: Administrative shutdown")
    # The first session has no date (another `timeformat`), no counts, and an address with a scope.
    assert (external.since, external.address, external.neighbor_as) == ("07:13:58.123", "10.10.1.1", 65001)
    assert (external.bgp_state, external.exported) == ("Connect", 0)


def test_graceful_restart_takes_two() -> None:
    text = (SAMPLES / "2.17.5.txt").read_text("utf-8")
    head, separator, tail = text.partition("    Neighbor capabilities\n")
    lines = tail.splitlines(keepends=True)
    without = [line for line in lines if line.strip() != "Graceful restart"]
    assert len(without) == len(lines) - 1
    assert parse_sessions(text)[1].graceful_restart
    assert not parse_sessions(head + separator + "".join(without))[1].graceful_restart


def test_a_bird_without_sessions() -> None:
    assert parse_sessions("Name       Proto      Table      State  Since         Info\n") == ()
