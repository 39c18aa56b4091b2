# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the drivers of tunnel devices, with their addresses, neighbours and forwarding entries, on any kernel."""

from __future__ import annotations

import dataclasses

from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.drivers import neighbor, tunnel
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.kernel.port import (
    ForwardingEntry,
    InterfaceAddress,
    NeighborEntry,
    NewLink,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_state import (
    FdbEntry,
    Neighbor,
    TunnelDevice,
)

from tests.unit.dataplane.suites.drivers import OWN, converge, fail, underlay

VXLAN = TunnelDevice("vxlan.calico", "vxlan", 1450, OWN, "10.244.1.1", "66:00:00:00:00:01", 4096, 4789)
IPIP = TunnelDevice("tunl0", "ipip", 1480, OWN, "10.244.1.2")


def addresses(kernel, device="vxlan.calico"):
    return [f"{address.address}/{address.prefix_length}" for address in kernel.addresses(device)]


def test_vxlan_is_made(kernel):
    underlay(kernel)
    assert converge(tunnel, kernel, [VXLAN]) == [
        "+ device   vxlan.calico  vni 4096 port 4789 local 10.10.1.11  mtu 1450  up",
        "+ address  10.244.1.1/32  dev vxlan.calico",
    ]
    link = kernel.link("vxlan.calico")
    assert (link.kind, link.vni, link.port, link.local, link.learning) == ("vxlan", 4096, 4789, OWN, False)
    assert (link.mtu, link.mac, link.up, link.alias) == (1450, VXLAN.mac, True, "calico: tunnel 10.244.1.1")
    assert addresses(kernel) == ["10.244.1.1/32"]


def test_vxlan_follows_mtu_mac_and_state(kernel):
    underlay(kernel)
    converge(tunnel, kernel, [VXLAN])
    index = kernel.link("vxlan.calico").index
    kernel.link_set("vxlan.calico", up=False)
    wanted = dataclasses.replace(VXLAN, mtu=1400, mac="66:00:00:00:00:09")
    assert converge(tunnel, kernel, [wanted]) == [
        "~ device   vxlan.calico  vni 4096 port 4789 local 10.10.1.11  mtu 1450  down  mac 66:00:00:00:00:01"
        "  ->  vni 4096 port 4789 local 10.10.1.11  mtu 1400  up  mac 66:00:00:00:00:09"
    ]
    link = kernel.link("vxlan.calico")
    assert (link.index, link.mtu, link.mac, link.up) == (index, 1400, "66:00:00:00:00:09", True)


def test_vxlan_is_made_anew_only_for_another_identity(kernel):
    underlay(kernel)
    converge(tunnel, kernel, [VXLAN])
    index = kernel.link("vxlan.calico").index
    assert converge(tunnel, kernel, [dataclasses.replace(VXLAN, vni=4097)]) == [
        "~ device   vxlan.calico  vni 4096 port 4789 local 10.10.1.11  mtu 1450  up"
        "  ->  vni 4097 port 4789 local 10.10.1.11  mtu 1450  up    made anew: its identity cannot be changed in place",
        "+ address  10.244.1.1/32  dev vxlan.calico",
    ]
    assert kernel.link("vxlan.calico").index != index
    assert addresses(kernel) == ["10.244.1.1/32"]


def test_vxlan_gets_another_local_address_in_place(kernel):
    """The device stays, and all that is on it: the host's own address changes, and no packet waits for a new device."""
    underlay(kernel)
    converge(tunnel, kernel, [VXLAN])
    index = kernel.link("vxlan.calico").index
    entry = ForwardingEntry("vxlan.calico", "66:00:00:00:00:02", "10.10.1.12")
    kernel.fdb_replace(entry)
    moved = dataclasses.replace(VXLAN, local="10.10.1.99")
    assert converge(tunnel, kernel, [moved]) == [
        "~ device   vxlan.calico  vni 4096 port 4789 local 10.10.1.11  mtu 1450  up"
        "  ->  vni 4096 port 4789 local 10.10.1.99  mtu 1450  up"
    ]
    link = kernel.link("vxlan.calico")
    assert (link.index, link.local, link.mtu, link.mac, link.up) == (index, "10.10.1.99", 1450, VXLAN.mac, True)
    assert (link.vni, link.port, link.learning, link.alias) == (4096, 4789, False, "calico: tunnel 10.244.1.1")
    assert addresses(kernel) == ["10.244.1.1/32"]
    assert entry in kernel.fdb("vxlan.calico")
    assert converge(tunnel, kernel, [moved]) == []


def test_vxlan_goes_when_no_longer_desired(kernel):
    underlay(kernel)
    converge(tunnel, kernel, [VXLAN])
    assert converge(tunnel, kernel, []) == [
        "- address  10.244.1.1/32  dev vxlan.calico",
        "- device   vxlan.calico  vni 4096 port 4789 local 10.10.1.11  mtu 1450  up",
    ]
    assert kernel.link("vxlan.calico") is None


def test_address_is_added_before_the_old_one_goes(kernel):
    underlay(kernel)
    converge(tunnel, kernel, [VXLAN])
    assert converge(tunnel, kernel, [dataclasses.replace(VXLAN, address="10.244.1.33")]) == [
        "+ address  10.244.1.33/32  dev vxlan.calico",
        "- address  10.244.1.1/32  dev vxlan.calico",
    ]
    assert addresses(kernel) == ["10.244.1.33/32"]
    assert kernel.link("vxlan.calico").alias == "calico: tunnel 10.244.1.33"


def test_address_is_kept_while_sockets_use_it(kernel, hold_socket):
    underlay(kernel)
    converge(tunnel, kernel, [VXLAN])
    moved = dataclasses.replace(VXLAN, address="10.244.1.33")
    with hold_socket("10.244.1.1"):
        assert converge(tunnel, kernel, [moved]) == [
            "+ address  10.244.1.33/32  dev vxlan.calico",
            "= address  10.244.1.1/32  dev vxlan.calico    kept: 1 open socket uses it",
        ]
        assert sorted(addresses(kernel)) == ["10.244.1.1/32", "10.244.1.33/32"]
        assert converge(tunnel, kernel, []) == [
            "= address  10.244.1.1/32  dev vxlan.calico    kept: 1 open socket uses it",
            "- address  10.244.1.33/32  dev vxlan.calico",
            "= device   vxlan.calico  vni 4096 port 4789 local 10.10.1.11  mtu 1450  up"
            "    kept: it carries an address in use",
        ]
        assert kernel.link("vxlan.calico").up
    assert converge(tunnel, kernel, []) == [
        "- address  10.244.1.1/32  dev vxlan.calico",
        "- device   vxlan.calico  vni 4096 port 4789 local 10.10.1.11  mtu 1450  up",
    ]


def test_foreign_address_stays(kernel):
    underlay(kernel)
    converge(tunnel, kernel, [VXLAN])
    kernel.address_add(InterfaceAddress("vxlan.calico", "192.0.2.1", 32))
    assert converge(tunnel, kernel, [VXLAN]) == []
    assert converge(tunnel, kernel, []) == [
        "- address  10.244.1.1/32  dev vxlan.calico",
        "- device   vxlan.calico  vni 4096 port 4789 local 10.10.1.11  mtu 1450  up"
        "    left as it is: 192.0.2.1 on it is not ours",
    ]
    assert addresses(kernel) == ["192.0.2.1/32"]


def test_foreign_vxlan_device_is_reported_and_left(kernel):
    underlay(kernel)
    kernel.link_add(NewLink("vxlan.calico", "vxlan", vni=7, port=4789, local=OWN))
    before = kernel.link("vxlan.calico")
    assert fail(tunnel, kernel, [VXLAN]) == (
        "device vxlan.calico: A VXLAN device vxlan.calico exists that this collection did not make"
        " (vni 7 port 4789 local 10.10.1.11  mtu 1500  down). It was not touched."
        " Remove what made it and the device (ip link del vxlan.calico), then run again."
    )
    assert kernel.link("vxlan.calico") == before
    assert converge(tunnel, kernel, []) == []
    assert kernel.link("vxlan.calico") == before


def test_device_of_another_kind_is_reported_and_left(kernel):
    underlay(kernel)
    kernel.link_add(NewLink("vxlan.calico", "bridge"))
    assert fail(tunnel, kernel, [VXLAN]) == (
        "device vxlan.calico: A device vxlan.calico of kind bridge exists, where one of kind vxlan is needed."
        " It was not touched. Rename or delete it (ip link del vxlan.calico), then run again."
    )
    assert kernel.link("vxlan.calico").kind == "bridge"


def test_device_left_by_a_stopped_run_is_ours_by_its_mac(kernel):
    underlay(kernel)
    kernel.link_add(NewLink("vxlan.calico", "vxlan", 1450, VXLAN.mac, 4096, 4789, OWN))
    converge(tunnel, kernel, [VXLAN])
    assert kernel.link("vxlan.calico").alias == "calico: tunnel 10.244.1.1"


def test_address_added_by_a_stopped_run_is_recorded(kernel):
    underlay(kernel)
    converge(tunnel, kernel, [VXLAN])
    kernel.link_set("vxlan.calico", alias="calico: tunnel")
    converge(tunnel, kernel, [VXLAN])
    assert kernel.link("vxlan.calico").alias == "calico: tunnel 10.244.1.1"


def test_second_vxlan_of_the_same_vni_is_reported(kernel):
    underlay(kernel)
    kernel.link_add(NewLink("other", "vxlan", vni=4096, port=4789, local=OWN))
    text = fail(tunnel, kernel, [VXLAN])
    assert text.startswith("device vxlan.calico: Another VXLAN device on this host uses VNI 4096 on UDP port 4789.")
    assert text.splitlines()[0].endswith(
        "Give this fleet another calico_vxlan_vni or calico_vxlan_port, or remove the other device."
    )


def test_tunl0_is_set_up_and_set_down(kernel, ipip):
    underlay(kernel)
    assert converge(tunnel, kernel, [IPIP])[-1] == "+ address  10.244.1.2/32  dev tunl0"
    link = kernel.link("tunl0")
    assert (link.kind, link.mtu, link.up, link.alias) == ("ipip", 1480, True, "calico: tunnel 10.244.1.2")
    assert addresses(kernel, "tunl0") == ["10.244.1.2/32"]
    assert converge(tunnel, kernel, []) == [
        "- address  10.244.1.2/32  dev tunl0",
        "- device   tunl0  mtu 1480  up    set down: the kernel does not let it be deleted",
    ]
    link = kernel.link("tunl0")
    assert (link.up, link.alias, addresses(kernel, "tunl0")) == (False, "", [])
    assert converge(tunnel, kernel, []) == []


def test_tunl0_with_addresses_of_others_stays_up(kernel, ipip):
    underlay(kernel)
    converge(tunnel, kernel, [IPIP])
    kernel.address_add(InterfaceAddress("tunl0", "192.0.2.80", 32))
    assert converge(tunnel, kernel, []) == [
        "- address  10.244.1.2/32  dev tunl0",
        "- device   tunl0  mtu 1480  up    left as it is: 192.0.2.80 on it is not ours",
    ]
    assert kernel.link("tunl0").up
    assert addresses(kernel, "tunl0") == ["192.0.2.80/32"]


def test_tunl0_that_is_not_ours_is_not_set_down(kernel, ipip):
    underlay(kernel)
    converge(tunnel, kernel, [IPIP])
    converge(tunnel, kernel, [])
    kernel.link_set("tunl0", up=True)
    assert converge(tunnel, kernel, []) == []
    assert kernel.link("tunl0").up


def test_neighbors_and_forwarding_entries(kernel):
    underlay(kernel)
    converge(tunnel, kernel, [VXLAN])
    desired = [
        Neighbor("vxlan.calico", "10.10.1.12", "66:00:00:00:00:02"),
        Neighbor("vxlan.calico", "10.10.2.13", "66:00:00:00:00:03"),
        FdbEntry("vxlan.calico", "66:00:00:00:00:02", "10.10.1.12"),
        FdbEntry("vxlan.calico", "66:00:00:00:00:03", "10.10.2.13"),
    ]
    assert converge(neighbor, kernel, desired) == [
        "+ neighbor 10.10.1.12  lladdr 66:00:00:00:00:02 dev vxlan.calico",
        "+ neighbor 10.10.2.13  lladdr 66:00:00:00:00:03 dev vxlan.calico",
        "+ fdb      66:00:00:00:00:02  dst 10.10.1.12 dev vxlan.calico",
        "+ fdb      66:00:00:00:00:03  dst 10.10.2.13 dev vxlan.calico",
    ]
    changed = [
        Neighbor("vxlan.calico", "10.10.1.12", "66:00:00:00:00:12"),
        FdbEntry("vxlan.calico", "66:00:00:00:00:02", "10.10.1.99"),
    ]
    assert converge(neighbor, kernel, changed) == [
        "~ neighbor 10.10.1.12  lladdr 66:00:00:00:00:02 dev vxlan.calico"
        "  ->  lladdr 66:00:00:00:00:12 dev vxlan.calico",
        "~ fdb      66:00:00:00:00:02  dst 10.10.1.12 dev vxlan.calico  ->  dst 10.10.1.99 dev vxlan.calico",
        "- neighbor 10.10.2.13  lladdr 66:00:00:00:00:03 dev vxlan.calico",
        "- fdb      66:00:00:00:00:03  dst 10.10.2.13 dev vxlan.calico",
    ]
    assert kernel.neighbors("vxlan.calico") == [NeighborEntry("vxlan.calico", "10.10.1.12", "66:00:00:00:00:12")]
    assert kernel.fdb("vxlan.calico") == [ForwardingEntry("vxlan.calico", "66:00:00:00:00:02", "10.10.1.99")]


def test_neighbors_of_other_devices_stay(kernel):
    underlay(kernel)
    theirs = NeighborEntry("eth0", "10.10.1.77", "02:00:00:00:00:77")
    kernel.neighbor_replace(theirs)
    converge(tunnel, kernel, [VXLAN])
    assert converge(neighbor, kernel, []) == []
    assert theirs in kernel.neighbors("eth0")


def test_neighbor_without_its_device_fails_in_words(kernel):
    assert fail(neighbor, kernel, [Neighbor("vxlan.calico", "10.10.1.12", "66:00:00:00:00:02")]) == (
        "neighbor 10.10.1.12: The kernel refused to set neighbour 10.10.1.12 on vxlan.calico."
        " It said: No such device (there is no device vxlan.calico)."
    )
