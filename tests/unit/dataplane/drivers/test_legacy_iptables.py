# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The suite of chains on the legacy backend, whose kernel refuses tables without saying which rule is bad."""

from __future__ import annotations

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.drivers import iptables
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_state import Hook, IptablesTable

from tests.unit.dataplane.suites.suite_chains import *  # noqa: F403


@pytest.fixture(autouse=True)
def legacy(kernel) -> None:
    kernel.netfilter.default = "legacy"


def test_a_kernel_without_ipv6_has_no_tables_of_it(kernel, monkeypatch) -> None:
    tables = [IptablesTable("raw", {"cali-x": ("-j DROP",)}, (Hook("PREROUTING", "-j cali-x"),), one) for one in (4, 6)]
    kernel._sysctls = {key: value for key, value in kernel._sysctls.items() if not key.startswith("net/ipv6/")}
    run = kernel.run

    def without_ipv6(argv, *rest, **more):
        assert argv[0] != "ip6tables-restore"
        if argv[0].startswith("ip6tables"):
            return run(["/no/such/program"])._replace(code=3, errors="can't initialize ip6tables table `raw'")
        return run(argv, *rest, **more)

    monkeypatch.setattr(kernel, "run", without_ipv6)
    iptables.apply(kernel, iptables.diff(tables, iptables.observe(kernel, tables)))
    assert "-A PREROUTING" in run(["iptables-legacy-save"]).output
    assert iptables.diff(tables, iptables.observe(kernel, tables)) == []
