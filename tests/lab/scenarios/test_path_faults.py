# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Paths that break between runs: status.yml names each within a minute, and says no more of it within a minute.

The agents watch. The faults are on the router between the subnets, on links, and on hosts, all at once:

| pool | what breaks it |
|---|---|
| web, direct | two ACLs on the router: against what node1 sends, and against ICMP's "too big" to node2 |
| db, direct | the router has no route to node3's block |
| files, direct | links with a smaller MTU: node3's, and the router's to it |
| overlay, VXLAN | another program's firewall on node2, against what it sends to node1 |

In `make soak` the fleet then lives for two hours, or for HOST_ROUTING_SOAK minutes: modes change, agents are restarted
and hosts reboot, and no agent raises a false alarm.
"""

from __future__ import annotations

import itertools
import json
import os
import re
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.derived import path_status

from tests.lab.handle import BaseLab
from tests.lab.measure.checks import Pool
from tests.lab.measure.observed import in_lab, observe
from tests.lab.shell import wait_until
from tests.lab.topology import NODES, LabError
from tests.pauses import pause

from . import inventory
from .conftest import LAB, Fleet, new_lab

NAME = f"{LAB}-faults"
#: node1 and node2 are in one subnet, node3 is in the other.
THREE = ("node1", "node2", "node3")
POOLS = (
    Pool("web", "10.244.0.0/16", "direct"),
    Pool("db", "10.245.0.0/16", "direct"),
    Pool("files", "10.246.0.0/16", "direct"),
    Pool("overlay", "10.247.0.0/16", "vxlan"),
)
#: The seconds within which the watch finds that a path is down, or up again.
WITHIN = 60.0
PATHS = len(POOLS) * len(THREE) * (len(THREE) - 1)
#: A sentence of status.yml about a path that is down.
_DOWN = re.compile(r"(node\d) -> (node\d) in pool (\S+): (.+?)(?:, says (\S+))?(?: \(lost on the way (\w+)\))?, since ")


class Loss(NamedTuple):
    """A path that is down, as status.yml says it: `by` and `direction` are "" if it does not say them."""

    pool: str
    source: str
    target: str
    reason: str
    by: str
    direction: str


class Fault(NamedTuple):
    """A fault on a host or the router: the commands that cause it there, and those that end it."""

    where: str
    cause: Sequence[str]
    end: Sequence[str]


class Watched:
    """A running fleet whose agents watch its paths. `blocks` is {(pool, node): the node's block of the pool}."""

    def __init__(self, lab: BaseLab, folder: Path) -> None:
        self.lab, self.fleet = lab, Fleet(lab)
        entries = [
            inventory.workload(f"{pool.name}-{name[-1]}", name, pool=pool.name) for pool in POOLS for name in THREE
        ]
        pools = [inventory.pool(pool) for pool in POOLS]
        self.inventory = inventory.write(folder, pools, entries, THREE, bgp_peers=inventory.ROUTER)
        self.fleet.site("-ecalico_node_soak_seconds=3", inventory=self.inventory).check()
        self.blocks = {
            (pool, name): block
            for name, node in observe(in_lab(lab), THREE).items()
            for block, pool in node.blocks.items()
        }

    def status(self) -> str:
        output: str = self.fleet.play("status.yml", inventory=self.inventory).check().output
        return output

    def until_good(self, since: float) -> None:
        """Wait until status.yml counts all paths as up and warns of nothing, WITHIN seconds after `since`."""
        said_soon(self.status, lambda output: f"{PATHS}/{PATHS} paths up" in output and not warnings(output), since)


def said_soon(status: Callable[[], str], right: Callable[[str], object], since: float) -> None:
    """Wait until an output of status.yml is `right`: at the latest one that is asked for WITHIN seconds after `since`.

    `status` returns such an output. `since` is a value of time.monotonic().
    """
    while True:
        began = time.monotonic()
        output = status()
        if right(output):
            return
        assert began < since + WITHIN, f"{output}\nThe losses:\n" + "\n".join(map(str, sorted(losses(output))))
        pause(began, 1, 3)


def warnings(output: str) -> list[str]:
    return [line for line in output.splitlines() if line.startswith("!")]


def losses(output: str) -> set[Loss]:
    """Return the paths that are down in the output of status.yml."""
    found = [match.groups(default="") for match in map(_DOWN.search, warnings(output)) if match]
    return {Loss(pool, source, target, *rest) for source, target, pool, *rest in found}


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    with new_lab(NAME, THREE) as lab:
        yield Watched(lab, tmp_path_factory.mktemp("faults"))


def faults(blocks: dict[tuple[str, str], str]) -> list[Fault]:
    """Return the faults that break paths."""
    no_route = f"to {blocks['db', 'node3']} unreachable"
    # The rule is in the table raw, because the kernel checks the MTU before the chain FORWARD.
    acl = f"PREROUTING -s {blocks['web', 'node1']} -d {blocks['web', 'node3']} -j DROP"
    too_big = f"OUTPUT -p icmp --icmp-type fragmentation-needed -d {blocks['web', 'node2']} -j DROP"
    chain, ends = "inet other forward", (blocks["overlay", "node2"], blocks["overlay", "node1"])
    return [
        Fault("router", [f"ip rule add pref 90 {no_route}"], [f"ip rule del pref 90 {no_route}"]),
        Fault("router", [f"iptables -t raw -A {acl}"], [f"iptables -t raw -D {acl}"]),
        Fault("router", [f"iptables -A {too_big}"], [f"iptables -D {too_big}"]),
        Fault("router", ["ip link set br2 mtu 1400"], ["ip link set br2 mtu 1500"]),
        Fault("node3", ["ip link set eth0 mtu 1400"], ["ip link set eth0 mtu 1500"]),
        Fault(
            "node2",
            [
                "nft add table inet other",
                f"nft add chain {chain} '{{ type filter hook forward priority -10; policy accept; }}'",
                f"nft add rule {chain} ip saddr {ends[0]} ip daddr {ends[1]} drop",
            ],
            ["nft delete table inet other"],
        ),
    ]


ROUTER1 = NODES["node1"].gateway
NO_ANSWER, TOO_LARGE = "no answer", "too large for the path"
EXPECTED = {
    Loss("web", "node1", "node3", NO_ANSWER, "", "there"),
    Loss("web", "node2", "node3", NO_ANSWER, "", "there"),
    Loss("db", "node1", "node3", "unreachable", ROUTER1, "there"),
    Loss("db", "node2", "node3", "unreachable", ROUTER1, "there"),
    Loss("files", "node1", "node3", TOO_LARGE, ROUTER1, "there"),
    Loss("files", "node2", "node3", TOO_LARGE, ROUTER1, "there"),
    *(
        Loss(pool, "node3", target, TOO_LARGE, NODES["node3"].address, "there")
        for pool in ("web", "db", "files")
        for target in ("node1", "node2")
    ),
    Loss("overlay", "node2", "node1", NO_ANSWER, "", "there"),
    Loss("overlay", "node1", "node2", NO_ANSWER, "", "back"),
}
SLOWER = (
    "node3: eth0 has MTU 1400, but the fleet uses 1500: packets in VXLAN tunnels over IPv4 are fragmented: slower, not"
    " down. Raise its MTU, or set calico_underlay_mtu: 1400 and run playbooks/site.yml."
)


def test_all_faults_at_once(watched: Watched) -> None:
    """Each fault shows with pool, pair, direction and reason, and nothing else does; all are gone with the faults."""
    lab = watched.lab
    watched.until_good(time.monotonic())
    made = faults(watched.blocks)
    try:
        for fault in made:
            lab.exec(fault.where, " && ".join(fault.cause))
        said_soon(watched.status, lambda output: losses(output) == EXPECTED and SLOWER in output, time.monotonic())
    finally:
        for fault in made:
            lab.exec(fault.where, " && ".join(fault.end), check=False)
    watched.until_good(time.monotonic())


def test_what_the_agent_repairs_breaks_no_path(watched: Watched) -> None:
    """Source checks that another program makes strict are as before within seconds, and no path is down.

    Nor does a FORWARD chain whose policy is DROP break a path: the product's rules accept packets before.
    """
    lab = watched.lab
    files = [f"/proc/sys/net/ipv4/conf/{name}/rp_filter" for name in ("eth0", "vxlan.calico")]
    lab.exec("node1", "iptables -P FORWARD DROP")
    lab.exec("node1", f"for file in {' '.join(files)}; do echo 1 > $file; done")
    wait_until("rp_filter is 2 again", lambda: lab.exec("node1", ["cat", *files]).stdout.split() == ["2", "2"], 20)
    watched.until_good(time.monotonic())
    lab.exec("node1", "iptables -P FORWARD ACCEPT")


class Alarm(NamedTuple):
    """What the agent of `node` said of the path to `target`, or of the whole of that node, and when it was read."""

    at: float
    node: str
    target: str
    text: str


class Alarms:
    """All alarms of the agents while the context is open; each running agent is asked every few seconds."""

    def __init__(self, lab: BaseLab) -> None:
        self.lab, self.found, self.asked = lab, list[Alarm](), 0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._ask, name="alarms")

    def __enter__(self) -> Alarms:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._over.set()
        self._thread.join()

    def _ask(self) -> None:
        while not self._over.wait(3):
            for name in THREE:
                # A host that reboots, and an agent that starts, do not answer.
                try:
                    done = self.lab.exec(name, ["calicoctl", "node", "status", "-o", "json"], check=False)
                    status = path_status.decode(json.loads(done.stdout)["paths"])
                except (LabError, ValueError, KeyError, TypeError):
                    continue
                now, self.asked = time.monotonic(), self.asked + 1
                self.found += [Alarm(now, name, node, f"{node} is down") for node in status.nodes]
                self.found += [Alarm(now, name, path.node, path_status.sentence(name, path)) for path in status.down]
                if status.fragmenting:
                    self.found.append(Alarm(now, name, name, str(status.fragmenting)))


@pytest.mark.soak
def test_no_false_alarm(watched: Watched) -> None:
    """No agent says that a path is down while it is up, whatever the fleet does to itself.

    A reboot's alarm is true: it names the host that reboots, or comes from it, and ends within WITHIN seconds.
    """
    lab = watched.lab
    watched.until_good(time.monotonic())
    end = time.monotonic() + 60 * float(os.environ.get("HOST_ROUTING_SOAK", "120"))
    reboots: list[tuple[str, float, float]] = []
    modes, hosts = itertools.cycle(("direct", "vxlan-crosssubnet", "vxlan")), itertools.cycle(THREE)
    with Alarms(lab) as alarms:
        while time.monotonic() < end:
            watched.fleet.switch(next(modes), pool="overlay", inventory=watched.inventory).check()
            for name in THREE:
                lab.exec(name, ["systemctl", "restart", "calico-agent.service"])
            rebooted, began = next(hosts), time.monotonic()
            lab.reboot(rebooted)
            reboots.append((rebooted, began, time.monotonic()))
            watched.until_good(time.monotonic())
    false = [
        alarm
        for alarm in alarms.found
        if not any(
            name in (alarm.node, alarm.target) and began <= alarm.at <= over + WITHIN for name, began, over in reboots
        )
    ]
    print(f"{len(reboots)} reboots, {alarms.asked} answers, {len(alarms.found)} true alarms")
    assert not false, "\n".join(f"{alarm.at:.0f} {alarm.text}" for alarm in false)
    assert alarms.asked > 0
