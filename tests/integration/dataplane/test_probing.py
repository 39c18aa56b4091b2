# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Probes of both IP versions from one process, on a real kernel."""

from __future__ import annotations

from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.kernel.port import (
    InterfaceAddress,
    RouteAttributes,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.probe.probing import Target, probe

from tests.unit.dataplane.suites.drivers import OWN, write_route
from tests.unit.dataplane.suites.suite_ipv6 import OWN6, dual_stack

NOBODY, TOO_FAR = "fd00:10:10::99", "fd00:99::1"


def test_both_versions_at_once_and_why_one_does_not_answer(kernel):
    dual_stack(kernel)
    kernel.address_add(InterfaceAddress("lo", "fd00:77::1", 128))
    write_route(kernel, f"{TOO_FAR}/128", RouteAttributes("unreachable", metric=1024))
    wishes = [
        Target(OWN, 84),
        Target(OWN6, 1500),
        Target("fd00:77::1", 72),
        Target(NOBODY, 1501),
        Target(TOO_FAR),
        Target(NOBODY),
    ]
    answers = kernel._there(lambda: probe(wishes, count=2, interval=0.05, timeout=1.5))
    assert [(one.received, one.reason) for one in answers[:3]] == [(2, "")] * 3
    assert answers[3].reason == "too large for the interface"
    assert answers[4].reason == "no route to host"
    assert (answers[5].received, answers[5].lost) == (0, 2)


def test_source_and_mark_hold_for_both(kernel):
    dual_stack(kernel)
    answers = kernel._there(lambda: probe([Target(OWN6), Target(OWN)], 1, 0.01, 5.0, mark=7, source=OWN6))
    assert [one.received for one in answers] == [1, 1]
