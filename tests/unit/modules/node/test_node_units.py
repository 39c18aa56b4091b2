# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the node module and systemd's units: in the plan, in the change, and in a change to be completed."""

from __future__ import annotations

import pytest
from ansible_collections.baremetal.host_routing.plugins.modules import node

from tests.unit.modules.node.test_node import PARAMS, UNIT
from tests.unit.node.systemctl import Systemctl

UNITS = [
    {"name": "bird.service", "masked": True},
    {"name": "other.service"},
    {"name": "calico-node-state.service", "enabled": True},
    {"name": "calico-bird.service", "enabled": True, "started": True},
]
ALL = {
    "bird.service.masked",
    "calico-node-state.service.enabled",
    "calico-bird.service.enabled",
    "calico-bird.service.started",
}
LINES = [
    "+ unit     bird.service               masked",
    "+ unit     calico-node-state.service  enabled",
    "+ unit     calico-bird.service        enabled, started",
]


@pytest.fixture
def systemctl(host):
    fake = Systemctl(host.folder / "systemd")
    host.machine.systemctl = str(fake.program)
    return fake


def unit_lines(answer):
    return [" ".join(line.split()) for line in answer["plan"] if line[2:].startswith("unit ")]


def test_check_do_check_do(host, systemctl):
    planned, done = host.four_times(node, units=UNITS, **PARAMS)
    assert unit_lines(planned) == unit_lines(done) == [" ".join(line.split()) for line in LINES]
    assert systemctl.marks == ALL


def test_a_unit_alone_is_a_change(host, systemctl):
    host.run(node, units=UNITS, **PARAMS)
    (systemctl.folder / "calico-bird.service.started").unlink()
    planned = host.run(node, check=True, diff=True, units=UNITS, **PARAMS)
    assert planned["changed"] is True
    assert unit_lines(planned) == ["~ unit calico-bird.service enabled, stopped -> enabled, started"]
    assert host.run(node, units=UNITS, **PARAMS)["changed"] is True
    assert systemctl.marks == ALL


def test_files_of_units_are_read_again(host, systemctl):
    host.run(node, units=UNITS, **PARAMS)
    systemctl.have("calico-bird.service.stale")
    newer = {**PARAMS, "files": [{**UNIT, "content": "[Unit]\nDescription=x\n"}]}
    assert unit_lines(host.run(node, units=UNITS, **newer)) == []
    assert systemctl.marks == ALL


def test_a_unit_that_does_not_start_leaves_the_state_to_be_completed(host, systemctl):
    systemctl.have("calico-bird.service.broken")
    answer = host.run(node, units=UNITS, **PARAMS)
    assert answer["msg"].startswith("unit calico-bird.service: systemctl enable failed: ")
    (systemctl.folder / "calico-bird.service.broken").unlink()
    again = host.run(node, units=UNITS, **PARAMS)
    assert (again["generation"], unit_lines(again)) == (1, ["+ unit calico-bird.service enabled, started"])


def test_without_units_systemd_is_left_alone(host, systemctl):
    host.run(node, **PARAMS)
    assert systemctl.marks == set()


def test_units_of_which_nothing_is_wanted_are_not_asked_for(host):
    """A unit that is listed without a wanted state does not make a run fail on a host without systemctl; others do."""
    host.machine.systemctl = str(host.folder / "no-such-program")
    assert unit_lines(host.run(node, units=[{"name": "other.service"}], **PARAMS)) == []
    answer = host.run(node, units=UNITS, **PARAMS)
    assert "no-such-program" in answer["msg"]
