# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How often site.yml asks a host: twice where nothing differs, and after a barrier where something does."""

from __future__ import annotations

import re
import typing as t

import pytest
import yaml

from tests.integration.playbooks.simulated_fleet import HOSTS, SimulatedFleet, simulated_fleet

pytestmark = pytest.mark.root

LATER = "Wait for sessions and routes"
CALL = r"<(host\d)> EXEC nsenter "


class Fleet(SimulatedFleet):
    """Three nodes, two of them with a workload each."""

    def variables(self) -> dict[str, t.Any]:
        return {
            "calico_ip_pools": [{"name": "pool", "cidr": "10.244.0.0/16", "vxlanMode": "Always"}],
            "calico_workloads": [{"name": f"web-{name}", "node": name} for name in HOSTS[:2]],
        }

    def site(self, *options: str, failed: bool = False) -> tuple[str, dict[str, int]]:
        """Run site.yml; return its stdout as one line, and {host: how often it was asked}.

        Raise AssertionError if the run fails, or with `failed` if it succeeds, and subprocess.TimeoutExpired after 300
        seconds.
        """
        printed = self.run("site", "-vvv", *options, failed=failed)
        calls = re.findall(CALL, printed)
        return re.sub(r"\s+", " ", printed), {host: calls.count(host) for host in HOSTS}


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> t.Iterator[Fleet]:
    with simulated_fleet(Fleet, tmp_path_factory) as made:
        printed, calls = made.site()
        assert LATER in printed and min(calls.values()) > 2
        yield made


def test_a_steady_run_asks_each_host_twice(fleet: Fleet) -> None:
    printed, calls = fleet.site()
    assert "converged 3/3 nodes · 3/3 sessions Established" in printed
    assert "6/6 paths answer · 0 lost of 18 probes" in printed
    assert calls == dict.fromkeys(HOSTS, 2) and LATER not in printed


def test_check_mode_asks_each_host_twice(fleet: Fleet) -> None:
    printed, calls = fleet.site("--check")
    assert "nothing to change on 3 of 3 nodes" in printed
    assert calls == dict.fromkeys(HOSTS, 2)


def test_all_hosts_are_asked_after_a_drifted_one_is_repaired(fleet: Fleet) -> None:
    """A host that has lost something is repaired first, and then all hosts look and probe, after the barrier."""
    fleet.inside("host2", "ip", "link", "delete", "vxlan.calico")
    printed, calls = fleet.site()
    assert LATER in printed and "converged 3/3 nodes" in printed and "0 lost of" in printed
    assert calls == dict.fromkeys(HOSTS, 4)
    dummy, calls = fleet.site()
    assert calls == dict.fromkeys(HOSTS, 2)


def test_all_hosts_are_asked_after_the_barrier_if_the_inventory_differs(fleet: Fleet) -> None:
    more = yaml.safe_load((fleet.folder / "hosts.yml").read_text())
    more["calico_nodes"]["vars"]["calico_workloads"].append({"name": "late", "node": "host3"})
    (fleet.folder / "hosts.yml").write_text(yaml.safe_dump(more))
    printed, calls = fleet.site()
    assert LATER in printed and "converged 3/3 nodes" in printed and min(calls.values()) >= 4
    dummy, calls = fleet.site()
    assert calls == dict.fromkeys(HOSTS, 2)


def test_hosts_of_a_limited_run_settle_among_themselves(fleet: Fleet) -> None:
    """With --limit, the hosts of the run are settled among themselves."""
    printed, calls = fleet.site("--limit", "host1,host2")
    assert "converged 2/2 nodes" in printed
    assert calls == {"host1": 2, "host2": 2, "host3": 0} and LATER not in printed


def test_an_unreachable_host_holds_no_other_up(fleet: Fleet) -> None:
    """The hosts that can be reached are settled without the other one, which the run names."""
    inventory = fleet.folder / "hosts.yml"
    before = inventory.read_text()
    down = yaml.safe_load(before)
    down["calico_nodes"]["hosts"]["host3"].update(ansible_connection="ssh", ansible_host="192.0.2.1", ansible_timeout=1)
    inventory.write_text(yaml.safe_dump(down))
    try:
        printed, calls = fleet.site(failed=True)
    finally:
        inventory.write_text(before)
    assert "unreachable=1" in printed and "! host3: unreachable" in printed
    assert calls["host1"] == calls["host2"] == 2 and LATER not in printed
