# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests that entries of a VXLAN device's tables are added, replaced and removed one by one."""

from __future__ import annotations

from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.drivers import neighbor
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_state import FdbEntry, Neighbor

VXLAN = "vxlan.calico"
ONE, OTHER = "66:00:00:00:00:01", "66:00:00:00:00:02"


def lines(*desired: neighbor.Entry, observed: neighbor.Observed) -> list[str]:
    return [change.line() for change in neighbor.diff(desired, observed)]


def fdb(mac: str, destination: str, device: str = VXLAN) -> neighbor.Observed:
    return {("fdb", device, mac, destination): destination}


def test_an_entry_of_another_mac_or_device_is_not_replaced() -> None:
    """A forwarding entry takes the place of one of the same MAC on the same device only."""
    want = FdbEntry(VXLAN, ONE, "10.10.1.12")
    added = f"+ fdb      {ONE}  dst 10.10.1.12 dev vxlan.calico"
    assert lines(want, observed=fdb(ONE, "10.10.1.12")) == []
    assert lines(want, observed=fdb(ONE, "10.10.1.13")) == [
        f"~ fdb      {ONE}  dst 10.10.1.13 dev vxlan.calico  ->  dst 10.10.1.12 dev vxlan.calico"
    ]
    for have in (fdb(OTHER, "10.10.1.13"), fdb(ONE, "10.10.1.13", "vxlan-v6.calico")):
        assert lines(want, observed=have)[0] == added
        assert [line[0] for line in lines(want, observed=have)] == ["+", "-"]


def test_one_old_entry_is_replaced_once() -> None:
    """Entries that are there as desired do not hide others, and an old entry has one successor at most."""
    have = {**fdb(ONE, "10.10.1.11"), **fdb(ONE, "10.10.1.13")}
    want = [FdbEntry(VXLAN, ONE, f"10.10.1.{number}") for number in (11, 14, 15)]
    assert [line[0] for line in lines(*want, observed=have)] == ["~", "+"]


def test_a_neighbor_s_mac_is_replaced_and_its_address_is_not() -> None:
    """A neighbor is found by its device and address: another MAC is a change, and another address is a new entry."""
    have: neighbor.Observed = {("neighbor", VXLAN, "10.244.1.1"): ONE}
    assert lines(Neighbor(VXLAN, "10.244.1.1", ONE), observed=have) == []
    assert [line[0] for line in lines(Neighbor(VXLAN, "10.244.1.1", OTHER), observed=have)] == ["~"]
    assert [line[0] for line in lines(Neighbor(VXLAN, "10.244.1.2", ONE), observed=have)] == ["+", "-"]
