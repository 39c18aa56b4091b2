# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The verdicts of runs on the paths of each pool: dead ones fail a run, and what it did not try is named.

In each case a pool without a tunnel lies beside one with a tunnel, whose paths answer all the time.
"""

from __future__ import annotations

import contextlib
import ipaddress
import json
import re
import subprocess
import typing as t

import pytest

from tests.integration.playbooks.simulated_fleet import HOSTS, SimulatedFleet, simulated_fleet

pytestmark = pytest.mark.root

_ROUTER_AS = 64600


class Fleet(SimulatedFleet):
    """Three nodes in three subnets, with a tunnelled pool, a direct pool, and a router that can run BGP."""

    peers: t.Sequence[dict[str, t.Any]] = ()

    def variables(self) -> dict[str, t.Any]:
        return {
            "calico_node_soak_seconds": 2,
            "calico_node_convergence_timeout": 20,
            "calico_ip_pools": [
                {"name": "default", "cidr": "10.244.0.0/16", "vxlanMode": "Always"},
                {"name": "racks", "cidr": "10.245.0.0/16"},
            ],
            "calico_workloads": [{"name": f"w{name[-1]}", "node": name, "pool": "racks"} for name in HOSTS],
            **({"calico_bgp_peers": self.peers} if self.peers else {}),
        }

    def play(self, playbook: str, *options: str, failed: bool = False) -> str:
        """Return what `run` returns, as one line with single spaces."""
        return re.sub(r"\s+", " ", self.run(playbook, *options, failed=failed))

    @property
    def routers(self) -> list[dict[str, t.Any]]:
        """The router as a BGPPeer of each node."""
        return [
            {"name": f"router-{name}", "node": name, "peerIP": gateway(self, name), "asNumber": _ROUTER_AS}
            for name in HOSTS
        ]


def gateway(fleet: Fleet, host: str) -> str:
    """Return the router's address in the subnet of a host."""
    network = ipaddress.ip_interface(fleet.hosts.addresses[host]).network
    return str(next(network.hosts()))


@contextlib.contextmanager
def router_with_bgp(fleet: Fleet) -> t.Iterator[None]:
    """Run BIRD in the router, which learns the blocks of the nodes that peer with it."""
    sessions = "".join(
        f"protocol bgp {name} {{ local {gateway(fleet, name)} as {_ROUTER_AS};"
        f" neighbor {ipaddress.ip_interface(fleet.hosts.addresses[name]).ip} as 64512;"
        " connect retry time 1; error wait time 1, 2; ipv4 { import all; export none; }; }\n"
        for name in HOSTS
    )
    config = fleet.folder / "router.conf"
    config.write_text(
        "router id 172.20.255.1;\nprotocol device {}\n"
        f"protocol kernel {{ ipv4 {{ import none; export all; }}; }}\n{sessions}"
    )
    enter = ["setpriv", "--pdeathsig", "KILL", "nsenter", f"--target={fleet.hosts.router.pid}", "--net", "--"]
    bird = subprocess.Popen([*enter, "bird", "-f", "-c", str(config), "-s", str(fleet.folder / "router.ctl")])
    try:
        yield
    finally:
        bird.terminate()
        bird.wait()


@pytest.fixture
def fleet(tmp_path_factory: pytest.TempPathFactory) -> t.Iterator[Fleet]:
    with simulated_fleet(Fleet, tmp_path_factory) as fleet:
        yield fleet


#: The sentences about the six paths of the direct pool. The router has no way back for an ICMP error either. On a busy
#: machine hosts may probe at different times, and the direction is unknown then.
DEAD = [f"! pool racks: {one} -> {other}: no answer" for one in HOSTS for other in HOSTS if other != one]


def test_a_pool_whose_packets_no_router_forwards_fails_each_run_and_is_named(fleet: Fleet) -> None:
    """So does a run that changes nothing. The report has the paths, and a status says that it tried none.

    Without host3, the paths between the nodes that stay are judged. The removal is done all the same, and says so.
    """
    report = fleet.folder / "report.html"
    for options in ((), ("-e", f"report={report}")):
        printed = fleet.play("site", *options, failed=True)
        assert [line for line in DEAD if line not in printed] == [], printed[-3000:]
        assert "(lost on the way back)" not in printed
        assert "incomplete 3/3 nodes" in printed and "6/12 paths answer" in printed and "pool default:" not in printed
        assert "6 paths get no answer, see above: packets of workloads may not arrive there." in printed
    words = re.sub(r"<[^>]+>|\s+", " ", report.read_text())
    assert re.search(r"Paths with losses .* racks\s+3 of 3\s+[0-9.]+ ms\s+no answer", words), words[-4000:]
    assert re.search(r"workloads · paths not (tried|watched)", fleet.play("status"))
    limited = fleet.play("site", "--limit", "host1")
    assert "no answer on 2 paths to host2, host3, not in this run or failed in it" in limited
    assert "paths of host2, host3 (not in this run)" in limited and "converged 1/1 nodes" in limited
    fleet.write(calico_workloads=[])
    printed = fleet.play("remove_node", "-e", "node=host3", "-e", "confirm=true", failed=True)
    assert DEAD[0] in printed and DEAD[2] in printed and "incomplete 2/2 nodes" in printed, printed[-3000:]
    assert "host3 left the fleet. Delete it from the inventory" in printed, printed[-3000:]


def test_a_pool_that_is_not_probed_is_named_by_runs_and_by_a_status(fleet: Fleet) -> None:
    fleet.write(calico_unprobed_pools=["racks"])
    untried = "6 paths of pool racks (no node has a probe address in it)"
    for printed in (fleet.play("site"), fleet.play("site")):
        assert f"not tried {untried} converged 3/3 nodes" in printed
        assert "6/6 paths answer" in printed and "6 paths not tried" in printed
    printed = fleet.play("switch_pool_mode", "-e", "pool=default", "-e", "mode=vxlan-crosssubnet")
    # Each host has tried its paths in the call of the last phase.
    assert re.search(r"Probe the paths between all nodes\] \*+ skipping: ", printed) is not None
    assert f"live traffic untouched) · not tried: {untried}" in printed
    assert f"not tried {untried} converged 3/3 nodes" in printed
    found = json.loads(re.search(r"\{ \"good\".*?\} \} \}", fleet.play("status", "-e", "output=json")).group())
    assert [(gap["pool"], gap["count"]) for gap in found["not_tried"]] == [("", 3), ("racks", 6)]


def test_without_its_routers_a_pool_fails_the_run_which_returns(fleet: Fleet) -> None:
    """The removal of the last peers needs approval, kills the pool's paths at the flip, and is taken back."""
    fleet.peers = fleet.routers
    fleet.write()
    with router_with_bgp(fleet):
        assert "12/12 paths answer" in fleet.play("site")
        fleet.peers = ()
        fleet.write()
        refused = fleet.play("site", failed=True)
        approval = re.search(r"approve=(\w+)", refused)
        assert approval is not None and "pool racks" in refused, refused[-3000:]
        printed = fleet.play("site", "-e", f"approve={approval.group(1)}", failed=True)
        assert "prove 12/12 paths answer" in printed
        assert "The change of sessions did not go through." in printed
        assert "pool racks: " in printed and "pool default: " not in printed, printed[-4000:]
        assert "3 of 3 nodes run as before." in printed and "All 12 paths answer as before." in printed
        fleet.peers = fleet.routers
        fleet.write()
        assert "12/12 paths answer" in fleet.play("site")


def test_a_return_has_the_verdict_and_the_exit_status_of_a_run(fleet: Fleet) -> None:
    """A rollback towards peers of a router that has gone is red, and so is the same run of `site.yml`."""
    fleet.peers = fleet.routers
    fleet.write()
    with router_with_bgp(fleet):
        fleet.play("site")
        fleet.write(calico_workloads=[])
        fleet.play("site")
        assert "12/12 paths answer" in fleet.play("rollback", "-e", "plan=previous")
        prefix = fleet.inside("host2", "ip", "-o", "route", "show", "type", "blackhole", "root", "10.245.0.0/16")
        block = re.search(r"10\.245\.\S+", prefix)
        assert block is not None, prefix
        fleet.hosts.router.run("iptables", "-I", "FORWARD", "-d", block.group(), "-j", "DROP")
        for playbook, options in (("rollback", ("-e", "plan=previous")), ("site", ())):
            printed = fleet.play(playbook, *options, failed=True)
            for other in ("host1", "host3"):
                assert f"! pool racks: {other} -> host2: no answer" in printed, printed[-3000:]
                assert f"! pool racks: host2 -> {other}: no answer" in printed
                assert f"{other} -> host2: no answer (lost on the way back)" not in printed
                assert f"host2 -> {other}: no answer (lost on the way there)" not in printed
            assert "incomplete 3/3 nodes" in printed and "8/12 paths answer" in printed
            assert "4 paths get no answer, see above: packets of workloads may not arrive there." in printed
