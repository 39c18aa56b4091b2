# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fleets of other kinds: VXLAN without BGP, CrossSubnet, pools per rack with small and large blocks, and growth.

One fleet grows, disables a pool and shrinks again under traffic. Each fleet is compared with Calico's documents
(tests/lab/measure/checks.py). Packets of all the others are captured on the wire.
"""

from __future__ import annotations

import dataclasses
import datetime
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from tests.bird_sessions import changed_sessions, established_since, younger_sessions
from tests.lab import Lab
from tests.lab.fleet import SPARING, mesh_of_streams, workloads
from tests.lab.handle import BaseLab
from tests.lab.measure import checks
from tests.lab.measure.checks import Pool
from tests.lab.measure.observed import Observed, in_lab, observe, send
from tests.lab.measure.streams import Report, Streams
from tests.lab.topology import NODES

from . import inventory
from .conftest import LAB, ROOT, Fleet, Run

FOUR = ("node1", "node2", "node3", "node4")
WORKLOADS = [inventory.workload(f"web-{name[-1]}", name) for name in FOUR]
NAME = f"{LAB}-modes"
#: The other nodes' session with node5.
NODE5 = "Mesh_10_10_1_13"


@pytest.fixture(scope="module")
def modes_lab() -> Iterator[BaseLab]:
    lab = Lab(NAME, machine="native")
    yield lab
    lab.down()


@pytest.fixture
def fresh(modes_lab: BaseLab) -> BaseLab:
    """The lab with freshly created hosts."""
    modes_lab.down()
    modes_lab.up()
    return modes_lab


def observed(lab: BaseLab, names: tuple[str, ...] = FOUR) -> dict[str, Observed]:
    return observe(in_lab(lab), names)


def converge(lab: BaseLab, path: str, *arguments: str) -> Run:
    return Fleet(lab).site(*arguments, inventory=path).check()


def unchanged(lab: BaseLab, path: str) -> None:
    converge(lab, path).unchanged()


def check_wire(lab: BaseLab, fleet: checks.Fleet, source: str, target: str, expected: str) -> None:
    """Assert that a ping of 1400 bytes between the first workloads of two nodes looks as `expected` on the underlay.

    `expected` is "udp" if VXLAN must carry it, "icmp" if it must not be encapsulated. Raise CommandFailed without an
    answer. Probes that agents send meanwhile have other addresses, or go to other nodes.
    """
    (first, *_), (second, *_) = fleet.nodes[source].workloads, fleet.nodes[target].workloads
    with lab.capturing(source, "udp port 4789 or icmp") as seen:
        lab.exec(source, ["ping", "-c", "3", "-W", "5", "-s", "1372", second["address"]], netns=first["netns"])
    asked = f"{first['address']} > {second['address']}: ICMP echo request"
    requests = [number for number, line in enumerate(seen.lines) if asked in line]
    assert requests, seen.lines
    outside = f"IP {NODES[source].address}.\\d+ > {NODES[target].address}.4789: VXLAN, .* vni 4096"
    if expected == "udp":
        # tcpdump prints an inner frame on a line of its own, below that of the packet that carries it.
        assert re.search(outside, seen.lines[requests[0] - 1]), seen.lines
    else:
        ends = (f"{NODES[source].address}.", f"{NODES[target].address}.")
        between = [line for line in seen.lines if all(end in line for end in ends)]
        assert "VXLAN" not in "".join(between), seen.lines
        assert "VXLAN" not in "".join(seen.lines[max(0, number - 1)] for number in requests), seen.lines


def under_traffic(lab: BaseLab, change: Callable[[], object], gone: tuple[str, ...] = ()) -> Report:
    """Run `change` under traffic between the nodes; assert that nothing was lost, and return the report.

    The streams are those of `mesh_of_streams`, without the workloads called `gone`, which `change` removes.
    Nothing lost means no byte, no connection, and no packet of `Report.lost_by_us`.
    """
    found = [workload for workload in workloads(lab) if workload.name not in gone]
    with Streams(lab, mesh_of_streams(lab, found, SPARING)) as streams:
        change()
        report = streams.stop()
    assert report.sent > 0 and not report.silent_hosts
    assert report.lost_by_us == 0, report.summary()
    assert report.resets == 0 and report.corrupt == 0 and report.bytes_missing == 0, report.summary()
    return report


@pytest.mark.parametrize("mode", ["vxlan", pytest.param("vxlan-crosssubnet", marks=pytest.mark.soak)])
def test_vxlan_without_bgp(fresh: BaseLab, tmp_path: Path, mode: str) -> None:
    pool = Pool("default-ipv4-ippool", "10.244.0.0/16", mode, nat_outgoing=True)
    path = inventory.write(tmp_path, [inventory.pool(pool)], WORKLOADS, bgp_enabled=False)
    converge(fresh, path)
    fleet = checks.Fleet([pool], observed(fresh), bgp=False)
    for node in fleet.nodes.values():
        checks.check_host(fleet, node)
        assert not [line for line in node.routes if "proto bird" in line]
        listening = fresh.exec(node.name, ["ss", "-Hltn"]).stdout
        assert ":179 " not in listening, listening
        assert fresh.exec(node.name, ["pidof", "bird"], check=False).returncode == 1
    checks.check_blocks(fleet)
    checks.check_traffic(fleet, in_lab(fresh))
    checks.check_pings(fleet, send(in_lab(fresh), checks.outgoing(fleet)))
    check_wire(fresh, fleet, "node1", "node2", "udp" if mode == "vxlan" else "icmp")
    check_wire(fresh, fleet, "node1", "node3", "udp")
    unchanged(fresh, path)


class TestReadme:
    """A fleet with a pool in a file of resources, and README's commands that change the pool's mode."""

    INVENTORY = "inventories/prod"
    POOL = Pool("default-ipv4-ippool", "10.244.0.0/16", "vxlan-crosssubnet", nat_outgoing=True)
    DOCUMENT = """\
# The only pool.
apiVersion: projectcalico.org/v3
kind: IPPool
metadata:
  name: default-ipv4-ippool
spec:
  cidr: 10.244.0.0/16
  vxlanMode: CrossSubnet
  natOutgoing: true
"""

    @pytest.fixture(scope="class")
    @classmethod
    def clone(cls, modes_lab: BaseLab, tmp_path_factory: pytest.TempPathFactory) -> Path:
        """A folder like a clone, with the inventory. The lab's hosts have been made routers by it."""
        modes_lab.down()
        modes_lab.up()
        clone = tmp_path_factory.mktemp("clone")
        for name in ("bin", "playbooks"):
            (clone / name).symlink_to(ROOT / name)
        prod = clone / cls.INVENTORY
        lockfile = str(prod / ".calico.lock.yml")
        inventory.write(prod, [], WORKLOADS, resource_files=["../resources"], lockfile=lockfile, node_soak_seconds=3)
        (clone / "inventories/resources").mkdir()
        (clone / "inventories/resources/pools.yml").write_text(cls.DOCUMENT)
        converge(modes_lab, str(prod))
        return clone

    def check(self, lab: BaseLab, clone: Path, pool: Pool, same_subnet: str) -> None:
        fleet = checks.Fleet([pool], observed(lab))
        for node in fleet.nodes.values():
            checks.check_host(fleet, node)
            checks.check_sessions(fleet, node)
            checks.check_learned(fleet, node)
        checks.check_traffic(fleet, in_lab(lab))
        check_wire(lab, fleet, "node1", "node2", same_subnet)
        check_wire(lab, fleet, "node1", "node3", "udp")
        unchanged(lab, str(clone / self.INVENTORY))

    def test_cross_subnet_with_bgp(self, modes_lab: BaseLab, clone: Path) -> None:
        self.check(modes_lab, clone, self.POOL, "icmp")

    def test_calico_s_commands_change_the_mode_without_a_lost_packet(self, modes_lab: BaseLab, clone: Path) -> None:
        block = re.search(r"<!-- pool: .*?```\n(.*?)```", (ROOT / "README.md").read_text("utf-8"), re.DOTALL)
        assert block is not None
        commands = block.group(1).splitlines()
        assert len(commands) == 4
        printed = []

        def change() -> None:
            for command in commands:
                done = subprocess.run(
                    ["sh", "-c", command],
                    cwd=clone,
                    env=Fleet(modes_lab).environment,
                    stdin=subprocess.DEVNULL,
                    capture_output=True,
                    text=True,
                    timeout=900,
                    check=False,
                )
                assert done.returncode == 0, f"{command}:\n{done.stdout[-6000:]}{done.stderr[-2000:]}"
                printed.append(done.stdout)

        under_traffic(modes_lab, change)
        assert "+  vxlanMode: Always" in printed[2]
        assert "Successfully applied 1 'IPPool' resource(s)" in printed[2]
        self.check(modes_lab, clone, dataclasses.replace(self.POOL, mode="vxlan"), "udp")
        written = (clone / "inventories/resources/pools.yml").read_text()
        assert written.startswith("# The only pool.\n") and "vxlanMode: Always\n" in written


def test_pools_by_rack_with_the_largest_and_the_smallest_blocks(fresh: BaseLab, tmp_path: Path) -> None:
    """All nodes route to all pools, whatever their block sizes.

    Rack 1 has a VXLAN pool with blocks of 4096 addresses. Rack 2 has a direct pool with blocks of one address, and a
    third pool for the workload that asks for it.
    """
    large = Pool("rack1", "10.240.0.0/14", "vxlan", block_size=20, nat_outgoing=True)
    single = Pool("rack2", "10.244.0.0/24", "direct", block_size=32)
    tunnelled = Pool("rack2-overlay", "10.245.0.0/24", "vxlan", block_size=32)
    pools = [large, single, tunnelled]
    path = inventory.write(
        tmp_path,
        [
            inventory.pool(large, nodeSelector="rack == 'rack1'"),
            inventory.pool(single, nodeSelector="rack == 'rack2'"),
            inventory.pool(tunnelled, nodeSelector="rack == 'rack2'"),
        ],
        [
            inventory.workload("web-1", "node1"),
            inventory.workload("web-2", "node2"),
            inventory.workload("db-1", "node3", pool="rack2"),
            inventory.workload("db-2", "node3", pool="rack2"),
            inventory.workload("db-3", "node4", pool="rack2"),
            inventory.workload("db-4", "node4", pool="rack2-overlay"),
        ],
        bgp_peers=inventory.ROUTER,
    )
    converge(fresh, path)
    nodes = observed(fresh)
    fleet = checks.Fleet(pools, nodes, external={name: [NODES[name].gateway] for name in FOUR})
    for name, node in nodes.items():
        names = {"rack1"} if NODES[name].rack == 1 else {"rack2", "rack2-overlay"}
        assert set(node.blocks.values()) <= names and set(node.spare_blocks.values()) <= names, (name, node.blocks)
        checks.check_host(fleet, node)
        checks.check_sessions(fleet, node)
        checks.check_learned(fleet, node)
    assert [workload["pool"] for name in FOUR for workload in nodes[name].workloads] == [
        *("rack1", "rack1", "rack2", "rack2", "rack2", "rack2-overlay")
    ]
    checks.check_blocks(fleet)
    checks.check_traffic(fleet, in_lab(fresh))
    check_wire(fresh, fleet, "node1", "node2", "udp")
    unchanged(fresh, path)


class TestMembersComeAndGo:
    """One fleet over several runs; each run changes only what it is about."""

    OLD = Pool("old", "10.244.0.0/17", "vxlan", nat_outgoing=True)
    NEW = Pool("new", "10.244.128.0/17", "vxlan-crosssubnet")
    POOLS = (OLD, NEW)
    WEB = tuple({**entry, "pool": "old"} for entry in WORKLOADS)
    BEFORE = (*WEB, inventory.workload("db-1", "node1", pool="new"))
    FIVE = (*FOUR, "node5")

    @pytest.fixture(scope="class")
    @classmethod
    def running(cls, modes_lab: BaseLab, tmp_path_factory: pytest.TempPathFactory) -> tuple[BaseLab, Path]:
        modes_lab.down()
        modes_lab.up()
        folder = tmp_path_factory.mktemp("members")
        converge(modes_lab, cls.inventory(folder, cls.BEFORE, FOUR))
        return modes_lab, folder

    @classmethod
    def inventory(cls, folder: Path, declared: object, nodes: tuple[str, ...], disabled: bool = False) -> str:
        pools = [inventory.pool(cls.OLD, disabled=disabled), inventory.pool(cls.NEW)]
        return inventory.write(folder, pools, declared, nodes)  # type: ignore[arg-type]

    def fleet(self, lab: BaseLab, names: tuple[str, ...]) -> checks.Fleet:
        fleet = checks.Fleet(self.POOLS, observed(lab, names))
        for node in fleet.nodes.values():
            checks.check_host(fleet, node)
            checks.check_sessions(fleet, node)
            checks.check_learned(fleet, node)
        checks.check_blocks(fleet)
        return fleet

    def since(self, node: Observed) -> dict[str, datetime.datetime]:
        """Return {name of a session of the mesh: time at which it was established}, of the Established ones."""
        found = established_since(node.raw["bird_protocols"])
        return {name: since for name, since in found.items() if name.startswith("Mesh_")}

    def test_a_node_joins_while_a_pool_is_disabled(self, running: tuple[BaseLab, Path]) -> None:
        lab, folder = running
        before = self.fleet(lab, FOUR)
        declared = [*self.BEFORE, inventory.workload("web-5", "node5"), inventory.workload("late", "node2")]
        path = self.inventory(folder, declared, self.FIVE, disabled=True)

        def change() -> None:
            lab.up(["node5"])
            converge(lab, path)

        under_traffic(lab, change)
        after = self.fleet(lab, self.FIVE)
        new = after.nodes["node5"]
        # The disabled pool gives out no new block, and the blocks that nodes have of it stay.
        assert set(new.blocks.values()) == {"new"} and set(new.spare_blocks.values()) <= {"new"}
        for name in FOUR:
            assert before.nodes[name].blocks.items() <= after.nodes[name].blocks.items()
            old = {block for block, pool in after.nodes[name].blocks.items() if pool == "old"}
            assert old == {block for block, pool in before.nodes[name].blocks.items() if pool == "old"}
        by_name = {w["name"]: (node.name, w["pool"]) for node in after.nodes.values() for w in node.workloads}
        assert (by_name["web-5"], by_name["late"], by_name["web-2"]) == (
            ("node5", "new"),
            ("node2", "new"),
            ("node2", "old"),
        )
        # node5 has a first block, and node2 one of another pool, each with an address for the probe endpoint.
        assert (set(new.probes), set(after.nodes["node2"].probes)) == ({"new"}, {"old", "new"})
        joined = {NODES["node5"].address, new.probes["new"], after.nodes["node2"].probes["new"]}
        # Each of the four other nodes has one more session and these addresses. It is otherwise unchanged, apart from
        # the workload "late" and node2's probe endpoint.
        for name in FOUR:
            one, other = before.nodes[name], after.nodes[name]
            assert younger_sessions(self.since(one), self.since(other)) == [], f"{name} reset a session"
            assert set(self.since(other)) - set(self.since(one)) == {NODE5}
            gone = checks.pool_routes(before, one) - checks.pool_routes(after, other)
            assert not gone, f"{name} dropped {gone}"
            assert _comparable(other, joined) == _comparable(one, joined), name
            assert name == "node2" or other.probes == one.probes
        checks.check_traffic(after, in_lab(lab))
        unchanged(lab, path)

    def test_a_workload_goes(self, running: tuple[BaseLab, Path]) -> None:
        lab, folder = running
        before = self.fleet(lab, self.FIVE)
        declared = [
            entry
            for entry in (*self.BEFORE, inventory.workload("web-5", "node5"), inventory.workload("late", "node2"))
            if entry["name"] not in ("db-1", "web-3")
        ]
        path = self.inventory(folder, declared, self.FIVE, disabled=True)
        under_traffic(lab, lambda: converge(lab, path), gone=("db-1", "web-3"))
        after = self.fleet(lab, self.FIVE)
        assert "db-1" in before.nodes["node1"].raw["namespaces"] and "web-3" in before.nodes["node3"].raw["namespaces"]
        assert set(after.nodes["node1"].raw["namespaces"]) == {"web-1", checks.PROBE_NETNS}
        assert set(after.nodes["node3"].raw["namespaces"]) == {checks.PROBE_NETNS}
        for name in self.FIVE:
            # The nodes of the removed workloads keep their blocks, so no session is reset.
            assert after.nodes[name].blocks == before.nodes[name].blocks
            one, other = self.since(before.nodes[name]), self.since(after.nodes[name])
            assert changed_sessions(one, other) == [], f"{name} reset a session"
        checks.check_traffic(after, in_lab(lab))
        unchanged(lab, path)

    def test_a_node_leaves(self, running: tuple[BaseLab, Path]) -> None:
        lab, folder = running
        before = self.fleet(lab, self.FIVE)
        blocks = {**before.nodes["node5"].blocks, **before.nodes["node5"].spare_blocks}
        declared = [entry for entry in (*self.WEB, inventory.workload("late", "node2")) if entry["name"] != "web-3"]
        path = self.inventory(folder, declared, FOUR, disabled=True)
        under_traffic(lab, lambda: converge(lab, path), gone=("web-5",))
        after = self.fleet(lab, FOUR)
        lockfile = yaml.safe_load((folder / inventory.LOCKFILE).read_text())
        assert "node5" not in lockfile["nodes"]
        assert {entry["cidr"]: entry["pool"] for entry in lockfile["quarantine"]} == blocks
        assert {entry["node"] for entry in lockfile["quarantine"]} == {"node5"}
        for name in FOUR:
            node = after.nodes[name]
            assert "10.10.1.13" not in str(node.raw["fdb"]) + str(node.raw["neighbors"]) + str(node.ipsets)
            assert "10.10.1.13" not in node.raw["bird_config"]
            assert not [line for line in node.routes if line.split()[0] in blocks]
            stay = {peer: since for peer, since in self.since(before.nodes[name]).items() if peer != NODE5}
            assert changed_sessions(stay, self.since(node)) == [], f"{name} reset a session"
        checks.check_traffic(after, in_lab(lab))
        unchanged(lab, path)


def _comparable(node: Observed, joined: set[str]) -> dict[str, object]:
    """Return what must be equal before and after another node, with the addresses `joined`, has joined.

    The workload "late" and the addresses of the probe endpoint are left out.
    """
    late = {workload["interface"] for workload in node.workloads if workload["name"] == "late"}
    return {
        "links": {
            name: (link["ifindex"], link["mtu"], link.get("address"), link["flags"])
            for name, link in node.links.items()
            if name not in late
        },
        "addresses": {name: found for name, found in node.addresses.items() if name not in late},
        "namespaces": {
            name: node.inside(name)["addresses"]
            for name in node.raw["namespaces"]
            if name not in ("late", checks.PROBE_NETNS)
        },
        "chains": node.chains,
        "ipsets": {name: members - joined for name, members in node.ipsets.items()},
        "rules": node.raw["rules"],
        "bird": node.raw["bird_processes"],
        "sysctls": {
            key: value for key, value in node.raw["sysctls"].items() if not any(f"/{name}/" in key for name in late)
        },
    }
