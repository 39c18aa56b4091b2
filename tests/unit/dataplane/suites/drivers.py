# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Helpers for the suites of all drivers."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.change import ApplyError, Change
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.kernel.port import (
    InterfaceAddress,
    Kernel,
    NewLink,
    RouteAttributes,
    RouteOperation,
)

OWN = "10.10.1.11"


def underlay(kernel: Kernel) -> None:
    """Make eth0 with the node's address, 10.10.1.11/24, and a default route through the router 10.10.1.1.

    eth0, its other end wire0 and lo are up afterwards. Raise KernelError if the kernel refuses.
    """
    kernel.link_set("lo", up=True)
    kernel.link_add(NewLink("eth0", "veth", peer_name="wire0"))
    kernel.link_set("wire0", up=True)
    kernel.link_set("eth0", up=True)
    kernel.address_add(InterfaceAddress("eth0", OWN, 24))
    write_route(kernel, "0.0.0.0/0", RouteAttributes(device="eth0", gateway="10.10.1.1"))


def write_route(kernel: Kernel, destination: str, attributes: RouteAttributes) -> None:
    for failure in kernel.route_batch([RouteOperation("add", destination, attributes)]):
        raise failure.error


def route_to(kernel: Kernel, destination: str, table: int = 254) -> t.Optional[RouteAttributes]:
    return dict(kernel.routes(table=table)).get(destination)


def lines(changes: t.Iterable[Change]) -> list[str]:
    return [change.line() for change in changes]


def converge(driver: t.Any, kernel: Kernel, desired: t.Sequence[t.Any]) -> list[str]:
    """Apply the differences and return the plan's lines, [] if there was nothing to do or report.

    Raise ApplyError if a change fails, and AssertionError if something differs afterwards. Differences that are only
    reported (action "=") do not count then. Raise ObserveError or KernelError if the kernel cannot be read.
    """
    changes = driver.diff(desired, driver.observe(kernel, desired))
    driver.apply(kernel, changes)
    if hasattr(driver, "activate"):
        driver.activate(kernel, changes)
    again = [change for change in driver.diff(desired, driver.observe(kernel, desired)) if change.action != "="]
    assert lines(again) == []
    return lines(changes)


def fail(driver: t.Any, kernel: Kernel, desired: t.Sequence[t.Any]) -> str:
    """Return the text of the ApplyError that applying the differences raises. Fail the test if none is raised."""
    with pytest.raises(ApplyError) as caught:
        driver.apply(kernel, driver.diff(desired, driver.observe(kernel, desired)))
    return str(caught.value)
