# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of systemd's units: what is planned is what is done, and units that were not asked for stay."""

from __future__ import annotations

import itertools
import pathlib

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.change import ApplyError, ObserveError
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.host import units
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.host.units import WantedUnit

from tests.unit.node.systemctl import Systemctl

BIRD, BOOT, DEBIAN = "calico-bird.service", "calico-node-state.service", "bird.service"


@pytest.fixture
def systemctl(tmp_path: pathlib.Path) -> Systemctl:
    return Systemctl(tmp_path / "systemd")


def planned(systemctl: Systemctl, *wanted: WantedUnit) -> list[units.Change]:
    return units.diff(wanted, units.observe(wanted, str(systemctl.program)))


@pytest.mark.parametrize(
    ("have", "wanted", "line"),
    [
        ((), WantedUnit(BIRD, True, True), "+ unit     calico-bird.service  enabled, started"),
        (
            ("enabled",),
            WantedUnit(BIRD, True, True),
            "~ unit     calico-bird.service  enabled, stopped  ->  enabled, started",
        ),
        (
            ("started",),
            WantedUnit(BIRD, True, True),
            "~ unit     calico-bird.service  disabled, started  ->  enabled, started",
        ),
        (("enabled", "started"), WantedUnit(BIRD, False, False), "- unit     calico-bird.service  enabled, started"),
        ((), WantedUnit(BOOT, True), "+ unit     calico-node-state.service  enabled"),
        ((), WantedUnit(DEBIAN, masked=True), "+ unit     bird.service  masked"),
    ],
)
def test_a_unit_is_a_line_of_the_plan(
    systemctl: Systemctl, have: tuple[str, ...], wanted: WantedUnit, line: str
) -> None:
    systemctl.have(*(f"{wanted.name}.{mark}" for mark in have))
    (change,) = planned(systemctl, wanted)
    assert change.line() == line


MARKS = [f"{BIRD}.enabled", f"{BIRD}.started", f"{BOOT}.enabled", f"{BOOT}.started", f"{DEBIAN}.masked"]


@pytest.mark.parametrize("bgp", [True, False])
def test_from_any_state_once_is_enough(tmp_path: pathlib.Path, bgp: bool) -> None:
    wanted = [WantedUnit(DEBIAN, masked=True), WantedUnit(BOOT, True), WantedUnit(BIRD, bgp, bgp)]
    for number, chosen in enumerate(itertools.product([False, True], repeat=len(MARKS))):
        systemctl = Systemctl(tmp_path / f"systemd{number}")
        have = {mark for mark, there in zip(MARKS, chosen) if there}
        systemctl.have(*have)
        changes = planned(systemctl, *wanted)
        assert systemctl.marks == have, "planning changed something"
        units.apply(changes, False, str(systemctl.program))
        ours = {f"{BIRD}.enabled", f"{BIRD}.started"} if bgp else set()
        boot = {f"{BOOT}.started"} & have  # BOOT stays started or stopped: WantedUnit does not ask for either
        assert systemctl.marks == {f"{DEBIAN}.masked", f"{BOOT}.enabled", *ours, *boot}
        assert bool(changes) is (systemctl.marks != have)
        assert systemctl.reads <= 1
        assert planned(systemctl, *wanted) == []


@pytest.mark.parametrize("reload", [True, False])
def test_changed_files_are_read_before_units_start(systemctl: Systemctl, reload: bool) -> None:
    systemctl.have(f"{BIRD}.stale")
    units.apply(planned(systemctl, WantedUnit(BIRD, True, True)), reload, str(systemctl.program))
    assert systemctl.marks == {f"{BIRD}.enabled", f"{BIRD}.started"}


def test_a_reload_alone(systemctl: Systemctl) -> None:
    systemctl.have(f"{BIRD}.stale")
    units.apply([], False, str(systemctl.program))
    assert systemctl.marks == {f"{BIRD}.stale"}
    units.apply([], True, str(systemctl.program))
    assert systemctl.marks == set()


def test_a_unit_that_fails_is_reported_and_the_others_are_applied(systemctl: Systemctl) -> None:
    systemctl.have(f"{BOOT}.broken")
    changes = planned(systemctl, WantedUnit(BOOT, True), WantedUnit(BIRD, True, True))
    with pytest.raises(ApplyError) as caught:
        units.apply(changes, False, str(systemctl.program))
    assert str(caught.value) == (
        "unit calico-node-state.service: systemctl enable failed: Job for calico-node-state.service failed. "
        "See journalctl -u calico-node-state.service, correct what it names, then run again."
    )
    assert systemctl.marks == {f"{BOOT}.broken", f"{BIRD}.enabled", f"{BIRD}.started"}


def test_units_that_systemd_cannot_read_are_stopped_and_not_started(systemctl: Systemctl) -> None:
    """If systemd cannot read changed files, no unit starts with its former definition, and each failure is reported."""
    systemctl.have("daemon-reload.broken", f"{BOOT}.started", f"{BIRD}.started")
    wanted = [
        WantedUnit(BOOT, started=False),
        WantedUnit(BIRD, restart="other files"),
        WantedUnit("x.service", True, True),
        WantedUnit(DEBIAN, masked=True),
    ]
    with pytest.raises(ApplyError) as caught:
        units.apply(planned(systemctl, *wanted), True, str(systemctl.program))
    reason = (
        "systemctl daemon-reload failed: Failed to reload daemon: Connection timed out. systemd may not know the unit"
        " as its files are, so it was not started. See journalctl _PID=1, correct what it names, then run again."
    )
    assert str(caught.value) == "\n".join(f"unit {name}: {reason}" for name in (BIRD, "x.service", DEBIAN))
    assert systemctl.marks == {
        "daemon-reload.broken", f"{BIRD}.started", "x.service.enabled", "x.service.unread", f"{DEBIAN}.masked",
        f"{DEBIAN}.unread",
    }  # fmt: skip
    units.apply([], True, str(systemctl.program))


def test_no_systemd(tmp_path: pathlib.Path) -> None:
    missing = str(tmp_path / "systemctl")
    assert units.observe([], missing) == {}
    with pytest.raises(ObserveError) as caught:
        units.observe([WantedUnit(BIRD, True)], missing)
    assert str(caught.value) == (
        f"The units of systemd cannot be read: {missing} show said 'No such file or directory'. "
        "Nodes are hosts that systemd runs; see that it does (systemctl is-system-running), then run again."
    )


def test_instances_that_run(systemctl: Systemctl) -> None:
    systemctl.have("calico-netns@web.service.started", "calico-netns@a-1.service.started", f"{BIRD}.started")
    systemctl.have("calico-netns@off.service.broken")
    found = units.running_instances(units.NETNS_UNIT, str(systemctl.program))
    assert found == ["calico-netns@a-1.service", "calico-netns@web.service"]
    systemctl.have("list-units.broken")
    with pytest.raises(ObserveError) as error:
        units.running_instances(units.NETNS_UNIT, str(systemctl.program))
    assert str(error.value) == (
        f"The units of systemd cannot be read: {systemctl.program} list-units said 'Failed to list units: Connection"
        " refused'. Nodes are hosts that systemd runs; see that it does (systemctl is-system-running), then run again."
    )
