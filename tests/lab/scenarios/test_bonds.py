# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node whose address is on a bond, and one whose address is on a VLAN of a bond, in the emulated machine.

The kernel of this machine may have neither kind of device; Debian's has both. `make soak` alone runs this.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lab.handle import BaseLab
from tests.lab.measure.checks import Pool

from . import inventory
from .conftest import LAB, Fleet, new_lab
from .test_beside_other_software import NODES, during, settle

pytestmark = pytest.mark.soak

#: Packets per second of a stream, which an emulated processor can send.
PPS = 60
#: Packets of four streams that may be lost while the bond takes its other link, which miimon notices within 50 ms.
MOST = 120
#: Gives node1 the address on bond0 of two links, and node2 on bond0.5, VLAN 5 of such a bond. The router's bridge brv
#: carries the frames with tags between node2 and the subnet.
DEVICES = """
set -e
modprobe bonding
modprobe 8021q
bond() { # HOST BRIDGE
    ip -n lab-$1 link add eth1 type veth peer name $1b netns lab-router
    ip -n lab-router link set $1b master $2 up
    ip -n lab-router link set $1 master $2
    ip -n lab-$1 address flush dev eth0
    ip -n lab-$1 link set eth0 down
    ip -n lab-$1 link add bond0 type bond mode active-backup miimon 50
    ip -n lab-$1 link set eth0 master bond0
    ip -n lab-$1 link set eth1 master bond0
    ip -n lab-$1 link set bond0 up
}
ip -n lab-router link add brv type bridge stp_state 0 forward_delay 0 mcast_snooping 0
ip -n lab-router link set brv up
ip -n lab-router link add link brv name brv.5 type vlan id 5
ip -n lab-router link set brv.5 master br1 up
bond node1 br1
ip -n lab-node1 address add 10.10.1.11/24 dev bond0
ip -n lab-node1 route add default via 10.10.1.1
bond node2 brv
ip -n lab-node2 link add link bond0 name bond0.5 type vlan id 5
ip -n lab-node2 link set bond0.5 up
ip -n lab-node2 address add 10.10.1.12/24 dev bond0.5
ip -n lab-node2 route add default via 10.10.1.1
"""
ACTIVE = "/sys/class/net/bond0/bonding/active_slave"


@pytest.fixture(scope="module")
def lab() -> Iterator[BaseLab]:
    with new_lab(f"{LAB}-bonds", NODES, "qemu") as lab:
        lab.exec("machine", DEVICES, timeout=60)
        yield lab


@pytest.fixture(scope="module")
def fleet(lab: BaseLab, tmp_path_factory: pytest.TempPathFactory) -> Fleet:
    pool = Pool("default", "10.244.0.0/16", "vxlan-crosssubnet", nat_outgoing=True)
    workloads = [inventory.workload(f"w-{node[-1]}", node, labels={"app": "w"}) for node in NODES]
    folder: Path = tmp_path_factory.mktemp("bonds")
    path = inventory.write(folder, [inventory.pool(pool)], workloads, NODES, bgp_peers=inventory.ROUTER)
    fleet = Fleet(lab, path)
    slow = ("convergence_timeout=300", "max_lost_probes=300", "confirm_timeout=0")
    fleet.site(*(f"-ecalico_node_{one}" for one in slow)).check()
    return fleet


@pytest.mark.parametrize(("node", "device"), [("node1", "bond0"), ("node2", "bond0.5")])
def test_a_bond_that_loses_a_link(lab: BaseLab, fleet: Fleet, node: str, device: str) -> None:
    """The node's routes lead through the bond. Its other link takes over, and its return loses nothing."""
    assert f"dev {device} " in lab.exec(node, "ip route show proto bird").stdout
    settle(lab, node)
    active = lab.exec(node, f"cat {ACTIVE}").stdout.strip()
    report = during(lab, node, f"ip link set {active} down", 5, PPS)
    print(report.summary())
    assert report.sent > 0 and report.lost_by_us <= MOST, report.summary()
    assert lab.exec(node, f"cat {ACTIVE}").stdout.strip() != active
    settle(lab, node)
    report = during(lab, node, f"ip link set {active} up", 5, PPS)
    assert report.lost_by_us == 0, report.summary()
    settle(lab, node)
