# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the package `bird` with daemons of all releases: it reads their status, and installs configurations."""

from __future__ import annotations

import os
import pathlib
import time

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.bird import client, configuration, status
from ansible_collections.baremetal.host_routing.plugins.module_utils.bird.errors import (
    ConfigurationRefused,
    NotAnswering,
    SnippetRefused,
)

from .daemons import Fleet, mesh, pool, render
from .debian_bird import EACH_RELEASE
from .network import Network, wait_for

pytestmark = [pytest.mark.root, pytest.mark.parametrize("build", EACH_RELEASE, indirect=True)]


def test_sessions_are_read(fleet: Fleet, network: Network) -> None:
    fleet.start(mesh(network.nodes[:3], pool("vxlan.calico")))
    wait_for("two routes", lambda: len(network.nodes[0].space.routes("proto", "bird")) == 2)
    seen = status.observe(fleet["node1"].socket)
    assert (seen.version, seen.router_id, seen.reconfiguring) == (fleet.build.version, "10.10.1.11", False)
    assert [
        (session.name, session.address, session.description, session.established, session.graceful_restart)
        for session in seen.sessions
    ] == [
        ("Mesh_10_10_1_12", "10.10.1.12", "node2", True, True),
        ("Mesh_10_10_2_13", "10.10.2.13", "node3", True, True),
    ]
    assert [(session.imported, session.exported) for session in seen.sessions] == [(1, 1), (1, 1)]
    fleet["node3"].kill()

    def last() -> status.Session:
        return status.observe(fleet["node1"].socket).sessions[1]

    wait_for("node3's routes are kept", lambda: last().neighbor_restarting)
    assert (last().established, last().imported) == (False, 1)


def answers(socket: str) -> bool:
    """Return whether a BIRD answers at the path `socket` within 10 seconds."""
    try:
        with client.BirdClient(socket):
            return True
    except NotAnswering:
        return False


def test_a_configuration_is_put_in_place_and_read(fleet: Fleet, network: Network) -> None:
    one = network.nodes[0]
    birds = mesh(network.nodes[:2], pool("vxlan.calico"))
    fleet.start(birds)
    daemon = fleet["node1"]
    path, socket, program = str(daemon.config), daemon.socket, daemon.build.bird
    wait_for("BIRD answers", lambda: answers(socket))
    assert status.observe(socket).version == fleet.build.version
    text = render(birds["node1"])
    assert configuration.apply(text, path, socket, program) == configuration.Outcome(False, False, text, text)

    direct = render(mesh(network.nodes[:2], pool())["node1"])
    outcome = configuration.apply(direct, path, socket, program)
    assert (outcome.changed, outcome.reloaded) == (True, True)
    wait_for("direct", lambda: one.space.routes("proto", "bird") == ["10.244.2.0/26 via 10.10.1.12 dev eth0"])
    assert not configuration.unread(path, socket)

    with pytest.raises(ConfigurationRefused):
        configuration.apply(direct + "nonsense;\n", path, socket, program)
    assert configuration.current(path) == direct

    # If a run was stopped after it had written bird.cfg and before BIRD read it, the next run has BIRD read it.
    time.sleep(0.01)
    configuration.install(text, path, program)
    assert configuration.unread(path, socket)
    assert configuration.apply(text, path, socket, program) == configuration.Outcome(False, True, text, text)
    wait_for("vxlan", lambda: "dev vxlan.calico" in one.space.routes("proto", "bird")[0])
    assert not configuration.unread(path, socket)
    assert os.stat(path).st_mode & 0o777 == 0o640


def test_a_session_that_restarts_is_waited_for(fleet: Fleet, network: Network) -> None:
    """A reconfiguration ends only when a session that restarts, here by another AS number, has been taken down."""
    birds = mesh(network.nodes[:2], pool())
    fleet.start(birds)
    daemon = fleet["node1"]
    text = render(birds["node1"]).replace("as 64512", "as 64513")
    outcome = configuration.apply(text, str(daemon.config), daemon.socket, daemon.build.bird)
    assert (outcome.changed, outcome.reloaded) == (True, True)
    assert status.observe(daemon.socket).reconfiguring is False
    assert [session.local_as for session in status.observe(daemon.socket).sessions] == [64513]


def test_snippets_of_the_operator(fleet: Fleet, network: Network, tmp_path: pathlib.Path) -> None:
    """The operator's snippets reset no session: no folder, a snippet, one that BIRD cannot read, and an empty folder.

    The third is refused with its path and line, and the snippet before it stays in force.
    """
    one = network.nodes[0]
    birds = mesh(network.nodes[:2], pool("vxlan.calico"), include_dir=str(tmp_path / "bird.d"))
    fleet.start(birds)
    daemon, text = fleet["node1"], render(birds["node1"])
    path, socket, program = str(daemon.config), daemon.socket, daemon.build.bird
    wait_for("node2's block", lambda: one.space.routes("proto", "bird"))
    time.sleep(0.01)

    def run() -> configuration.Outcome:
        return configuration.apply(text, path, socket, program)

    assert run() == configuration.Outcome(False, False, text, text)
    folder = tmp_path / "bird.d"
    folder.mkdir()
    snippet = folder / "mine.conf"
    snippet.write_text("protocol static mine { ipv4; route 192.0.2.0/24 blackhole; }\n")
    assert configuration.unread(path, socket)
    assert run() == configuration.Outcome(False, True, text, text)
    assert "192.0.2.0/24" in daemon.birdc("show", "route", "protocol", "mine")
    assert run() == configuration.Outcome(False, False, text, text)

    time.sleep(0.01)
    snippet.write_text("protocol static mine {\n  ipv4; rote 192.0.2.0/24 blackhole;\n}\n")
    for refused in (run, lambda: configuration.check(text, path, program)):
        with pytest.raises(SnippetRefused) as caught:
            refused()
        assert f"It stands in {snippet}, line 2 (`ipv4; rote 192.0.2.0/24 blackhole;`)." in str(caught.value)
    assert "192.0.2.0/24" in daemon.birdc("show", "route", "protocol", "mine")

    snippet.unlink()
    assert run() == configuration.Outcome(False, True, text, text)
    assert "192.0.2.0/24" not in daemon.birdc("show", "route")
    assert "Restarting protocol Mesh" not in daemon.log.read_text()
