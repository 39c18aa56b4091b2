# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A new node behind two reflectors, by site.yml on simulated hosts with real BIRDs: the plan, and its result."""

from __future__ import annotations

import functools
import json
import pathlib
import subprocess

import pytest

from bench.site.simulated_hosts import SimulatedHosts
from bench.site_scale import write_inventory
from tests.integration.ansible_playbook import play_on_simulated_hosts

pytestmark = pytest.mark.root

REFLECTORS, NODES, NEW = ["host1", "host2"], ["host3", "host4"], "host5"

site = functools.partial(play_on_simulated_hosts, "site")


def test_it_touches_itself_and_the_reflectors(tmp_path: pathlib.Path) -> None:
    (tmp_path / "private").mkdir()
    inventory = tmp_path / "inventory"
    with SimulatedHosts(5, tmp_path / "private") as hosts:
        write_inventory(inventory, hosts, agent=False)
        whole = (inventory / "hosts.yml").read_text()
        few = json.loads(whole)
        del few["calico_nodes"]["hosts"][NEW]
        (inventory / "hosts.yml").write_text(json.dumps(few))
        variables = inventory / "group_vars" / "all" / "calico.yml"
        given = json.loads(variables.read_text())
        given["calico_workloads"] = [one for one in given["calico_workloads"] if one["node"] != NEW]
        variables.write_text(json.dumps(given))
        site(inventory)

        def state(host: str) -> tuple[str, str]:
            """Return bird.cfg with the time of its last change, and BIRD's lines on its sessions, with their times.

            Raise AssertionError unless there are sessions and all are established, and subprocess.CalledProcessError if
            BIRD does not answer.
            """
            root = pathlib.Path(f"/proc/{hosts.spaces[host].pid}/root")
            config = root / "etc/calico/bird.cfg"
            birdc = ["birdc", "-s", str(root / "run/calico/bird.ctl"), "show", "protocols"]
            said = subprocess.run(birdc, capture_output=True, text=True, check=True).stdout
            sessions = [line for line in said.splitlines() if " BGP " in line]
            assert sessions and all("Established" in line for line in sessions), said
            return f"{config.stat().st_mtime_ns} {config.read_text()}", "\n".join(sessions)

        before = {host: state(host) for host in (*REFLECTORS, *NODES)}
        (inventory / "hosts.yml").write_text(whole)
        planned = site(inventory, "--check")
        # The pool uses a tunnel, so the other nodes get entries for the new node; they keep their sessions.
        assert "touched host5: new · host1, host2: 1 more session · host3, host4: FDB, neighbours, sets" in planned
        assert "fleet 5 of 5 nodes change · 0 BGP sessions reset · 0 routes withdrawn" in planned
        assert {host: state(host) for host in before} == before

        done = site(inventory)
        assert "5/5 nodes" in done
        for host in NODES:
            assert state(host) == before[host]
        for host in REFLECTORS:  # a reflector has one more session, and none of its others has restarted
            assert set(before[host][1].splitlines()) < set(state(host)[1].splitlines())
