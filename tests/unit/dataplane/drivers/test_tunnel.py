# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tunnel devices: what makes one anew, and addresses that sockets use."""

from __future__ import annotations

import dataclasses
import errno
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.change import ApplyError
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.drivers import tunnel

from tests.fakes.kernel import FakeKernel
from tests.unit.dataplane.suites.drivers import converge, underlay
from tests.unit.dataplane.suites.suite_tunnel import IPIP, VXLAN


@pytest.fixture
def made(kernel: FakeKernel) -> FakeKernel:
    """The kernel with an underlay and the tunnel devices VXLAN and IPIP."""
    underlay(kernel)
    converge(tunnel, kernel, [VXLAN, IPIP])
    return kernel


@pytest.mark.parametrize(
    ("have", "anew"),
    [
        ({}, None),
        ({"vni": 4097}, True),
        ({"port": 4790}, True),
        ({"local": "10.10.1.99"}, False),
        ({"local": "fd00:10:10::99"}, True),
        ({"local": None}, True),
        ({"local": "10.10.1.99", "vni": 4097}, True),
        ({"learning": True}, True),
        ({"mtu": 1300}, False),
        ({"up": False}, False),
        ({"mac": "66:00:00:00:00:99"}, False),
    ],
)
def test_a_vxlan_device_is_made_anew_if_its_identity_differs(
    made: FakeKernel, have: dict[str, t.Any], anew: bool | None
) -> None:
    observed = tunnel.observe(made, [VXLAN])
    name = VXLAN.name
    observed[name] = observed[name]._replace(link=dataclasses.replace(observed[name].link, **have))
    changes = tunnel.diff([VXLAN], {name: observed[name]})
    assert [change.action for change in changes if change.kind == "device"] == ([] if anew is None else ["~"])
    assert tunnel.recreated(changes) == ({name} if anew else set())
    assert any(change.note.startswith("made anew") for change in changes) == bool(anew)
    assert any(change.kind == "address" for change in changes) == bool(anew), "its address goes with it"


def test_a_device_of_ipip_has_no_identity(made: FakeKernel) -> None:
    changed = dataclasses.replace(IPIP, mtu=IPIP.mtu - 20)
    changes = tunnel.diff([changed, VXLAN], tunnel.observe(made, [changed, VXLAN]))
    assert [change.subject for change in changes] == [IPIP.name]
    assert tunnel.recreated(changes) == set()


@pytest.mark.parametrize(
    ("sockets", "note"),
    [(0, None), (1, "kept: 1 open socket uses it"), (2, "kept: 2 open sockets use it")],
)
def test_an_address_goes_when_no_socket_uses_it(made: FakeKernel, sockets: int, note: str | None) -> None:
    if sockets:
        made.sockets[VXLAN.address] = sockets
    changed = dataclasses.replace(VXLAN, address="10.244.99.1")
    changes = tunnel.diff([changed, IPIP], tunnel.observe(made, [changed, IPIP]))
    (old,) = (change for change in changes if change.kind == "address" and change.action != "+")
    assert (old.action, old.note) == (("-", "") if note is None else ("=", note))


@pytest.mark.parametrize(("error", "passes"), [(errno.EEXIST, True), (errno.EPERM, False)])
def test_an_address_that_is_there_already_was_added(kernel: FakeKernel, error: int, passes: bool) -> None:
    underlay(kernel)
    kernel.fail_next("address_add", error)
    changes = tunnel.diff([VXLAN], tunnel.observe(kernel, [VXLAN]))
    if passes:
        tunnel.apply(kernel, changes)
    else:
        with pytest.raises(ApplyError):
            tunnel.apply(kernel, changes)
