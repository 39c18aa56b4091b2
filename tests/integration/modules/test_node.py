# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of a whole node on a real kernel: planned, made, unchanged, restored after a restart, and probed."""

from __future__ import annotations

import dataclasses
import json
import pathlib
import signal
import subprocess
import sys
import threading
import time

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.base import naming
from ansible_collections.baremetal.host_routing.plugins.module_utils.bgp.bird_state import BirdRoute
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet import firewall
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.change import command
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.engine import bundle
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.store.store import Store
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_state import (
    PROBE_TOS,
    UNDERLAY,
    Block,
    FdbEntry,
    IpSet,
    Neighbor,
    NodeIpam,
    NodeState,
    Pool,
    Route,
    RoutingRule,
    Sysctl,
    TunnelDevice,
    VethEndpoint,
)
from ansible_collections.baremetal.host_routing.plugins.modules import node, node_info, probe

from tests.fakes.forged_engine import whole_engine
from tests.integration.bird.network import wait_for

POOLS = (Pool("pool", "10.244.0.0/16", 26, "VXLAN", nat_outgoing=True),)
VXLAN = TunnelDevice("vxlan.calico", "vxlan", 1450, "10.10.1.11", "10.244.3.0", naming.vtep_mac("node1"), 4096, 4789)


def workload(name, address):
    interface = naming.interface_name("default", name)
    return VethEndpoint(name, interface, address, 1450, "pool", netns=name)


WORKLOADS = (workload("web-1", "10.244.3.1"), workload("web-2", "10.244.3.2"))
STATE = NodeState(
    "node1",
    "10.10.1.11/24",
    plan="7f3a91",
    pools=POOLS,
    ipam=NodeIpam(1, (Block("10.244.3.0/26", "pool"),), tunnels={"vxlan": "10.244.3.0"}),
    devices=(VXLAN,),
    neighbors=(Neighbor("vxlan.calico", "10.10.1.12", naming.vtep_mac("node2")),),
    fdb=(FdbEntry("vxlan.calico", naming.vtep_mac("node2"), "10.10.1.12"),),
    workloads=WORKLOADS,
    routes=(
        Route("10.244.3.0/26", "blackhole"),
        *(Route(f"{w.address}/32", device=w.interface) for w in WORKLOADS),
        Route("10.244.7.0/26", device="vxlan.calico", gateway="10.10.1.12", onlink=True, table=179),
    ),
    rules=(RoutingRule(0xCA11, 179, 179),),
    sysctls=(
        Sysctl("net/ipv4/ip_forward", "1"),
        Sysctl(f"net/ipv4/conf/{UNDERLAY}/rp_filter", "2"),
        *(
            Sysctl(key.format(w.interface), value)
            for w in WORKLOADS
            for key, value in (
                ("net/ipv4/neigh/{}/proxy_delay", "0"),
                ("net/ipv4/conf/{}/proxy_arp", "1"),
                ("net/ipv4/conf/{}/forwarding", "1"),
            )
        ),
    ),
    ipsets=(IpSet(firewall.ALL_HOSTS[4], "hash:net", ("10.10.1.11", "10.10.1.12")),),
    iptables=firewall.tables(POOLS, (VXLAN,)),
    bird_routes=(BirdRoute("10.244.7.0/26", "10.10.1.12", "vxlan.calico", True, "node2", next_hop="10.10.1.12"),),
)


def ping(host, source, target):
    """Return whether the address `target` answers a ping from inside the workload `source` within 2 seconds."""
    inside = host.kernel.inside(source)
    return inside.run(["ping", "-c", "1", "-W", "2", target]).code == 0


def test_check_do_check_do(host):
    host.four_times(node, state=STATE.to_dict(), who="me@here")
    assert ping(host, "web-1", "10.244.3.2")


def test_the_kernel_has_the_routes_and_links_of_the_documentation(host):
    host.run(node, state=STATE.to_dict())
    routes = host.kernel.run(["ip", "route"]).output.splitlines()
    first = WORKLOADS[0].interface
    assert "blackhole 10.244.3.0/26 proto 179" in [line.strip().replace("calico", "179") for line in routes]
    assert any(line.startswith(f"10.244.3.1 dev {first} ") and "scope link" in line for line in routes)
    link = host.kernel.run(["ip", "-d", "link", "show", first]).output
    assert "ee:ee:ee:ee:ee:ee" in link and "mtu 1450" in link
    inside = host.kernel.inside("web-1").run(["ip", "route"]).output
    assert "default via 169.254.1.1 dev eth0" in inside and "169.254.1.1 dev eth0 scope link" in inside


def test_a_restarted_host_is_restored_without_ansible(host):
    """A restarted host is restored without Ansible from its disk, as after a boot."""
    host.run(node, state=STATE.to_dict())
    wanted = host.run(node_info, gather=["devices", "routes", "workloads"])
    for endpoint in WORKLOADS:
        host.kernel.netns_delete(endpoint.netns)
    # The kernel removes a namespace's devices a moment after the namespace's last user.
    wait_for("the devices have gone", lambda: not any(host.kernel.link(w.interface) for w in WORKLOADS))
    host.kernel.link_delete("vxlan.calico")
    host.kernel.run(["iptables", "-t", "nat", "-F"])
    host.kernel.run(["ip", "route", "flush", "proto", "179"])
    assert host.run(node, check=True, state=STATE.to_dict())["changed"] is True
    assert command.main(["apply"], host.machine) == 0
    assert host.run(node_info, gather=["devices", "routes", "workloads"]) == wanted
    assert host.run(node, state=STATE.to_dict())["changed"] is False
    assert ping(host, "web-1", "10.244.3.2")


#: The paths of a Machine to which the killed process writes, or from which it reads; all are the test's own.
PATHS = ("root", "store", "lock", "writer_lock", "engine", "workloads", "ipam", "agent_socket", "cni_deleted")
KILLED = """
import sys
sys.path[:0] = {path!r}
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.kernel.linux import LinuxKernel
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_state import NodeState
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.change import apply
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.machine import Machine
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.store.store import Stored
import json, os, signal
class Dying(LinuxKernel):
    left = {left}
def counted(name):
    real = getattr(LinuxKernel, name)
    def call(self, *arguments, **options):
        Dying.left -= 1
        if Dying.left < 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return real(self, *arguments, **options)
    setattr(LinuxKernel, name, call)
for name in ("link_add", "link_set", "address_add", "route_batch", "neighbor_replace", "fdb_replace", "rule_add"):
    counted(name)
kernel = Dying({netns!r}, netns_folder={netns_folder!r}, marker_folder={marker_folder!r})
state = NodeState.from_dict(json.loads({state!r}))
machine = Machine(kernel, **{paths!r})
apply.bring_to(machine, Stored(state, None, (), "killed"))
"""


@pytest.mark.parametrize("left", [0, 1, 3, 6, 10, 16])
def test_killed_half_way_and_completed_by_the_boot_unit(host, left, tmp_path):
    paths = {name: getattr(host.machine, name) for name in PATHS}
    script = KILLED.format(
        path=sys.path,
        left=left,
        netns="host-under-test",
        netns_folder=str(tmp_path / "netns"),
        marker_folder=str(tmp_path / "markers"),
        state=json.dumps(STATE.to_dict()),
        paths=paths,
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert Store(host.machine.store).load().complete is False
    assert command.main(["apply"], host.machine) == 0
    assert Store(host.machine.store).load().complete is True
    assert host.run(node, state=STATE.to_dict())["changed"] is False
    assert ping(host, "web-1", "10.244.3.2")


def test_a_workload_that_goes_takes_nothing_else_along(host):
    host.run(node, state=STATE.to_dict())
    first = WORKLOADS[0]
    fewer = dataclasses.replace(
        STATE,
        workloads=(first,),
        routes=tuple(route for route in STATE.routes if route.destination != "10.244.3.2/32"),
        sysctls=tuple(s for s in STATE.sysctls if WORKLOADS[1].interface not in s.key),
        rules=(),
    )
    seen = host.four_times(node, state=fewer.to_dict())[0]["plan"]
    assert sum(line.startswith("-") for line in seen) == 3  # a workload, a route and a rule are removed
    assert host.kernel.netns_list() == ["web-1"]
    assert ping(host, "web-1", "10.10.1.11")


class TestProbe:
    """Probes between the host and its workloads; `in_host` runs the module probe inside the host's namespace."""

    def in_host(self, host, **params):
        answers = []

        def work():
            answers.append(host.run(probe, **params))

        thread = threading.Thread(target=lambda: host.kernel._there(work))
        thread.start()
        thread.join(120)
        return answers[0]

    def test_a_probe_reports_answers_and_reasons_for_losses(self, host):
        host.run(node, state=STATE.to_dict())
        targets = [
            {"name": "web-1", "address": "10.244.3.1", "size": 1450},
            {"name": "too large", "address": "10.244.3.2", "size": 1451},
            {"name": "blackhole", "address": "10.244.3.9"},
        ]
        answer = self.in_host(host, targets=targets, count=4, interval=50, timeout=300)
        assert [(t["name"], t["sent"], t["received"], t["reason"]) for t in answer["targets"]] == [
            ("web-1", 4, 4, ""),
            ("too large", 4, 0, "too large"),
            ("blackhole", 4, 0, "no route"),
        ]
        assert (answer["changed"], answer["sent"], answer["lost"]) == (False, 12, 8)

    def test_a_tos_takes_another_table(self, host):
        """A probe with the TOS takes table 179, in which the address is unreachable, although 10.244.3.1 answers."""
        nowhere = Route("10.244.3.1/32", "blackhole", table=179)
        own = RoutingRule(0, 179, 179, interface="lo", tos=PROBE_TOS)  # the interface of packets of the host itself
        state = dataclasses.replace(STATE, routes=(*STATE.routes, nowhere), rules=(own,))
        host.run(node, state=state.to_dict())
        targets = [{"address": "10.244.3.1"}]
        assert self.in_host(host, targets=targets, count=2, interval=50)["lost"] == 0
        assert self.in_host(host, targets=targets, count=2, interval=50, timeout=300, tos=PROBE_TOS)["lost"] == 2

    def test_hundreds_of_targets_are_probed_at_once(self, host):
        """600 targets are probed beside each other: one after the other they would take ten minutes."""
        host.run(node, state=STATE.to_dict())
        host.kernel.run(["ip", "address", "add", "127.1.0.0/16", "dev", "lo"])
        targets = [{"address": f"127.1.{n // 200}.{n % 200 + 1}"} for n in range(600)]
        started = time.monotonic()
        answer = self.in_host(host, targets=targets, count=5, interval=200)
        assert (answer["sent"], answer["lost"]) == (3000, 0)
        assert time.monotonic() - started < 120


def test_the_engine_that_is_shipped_runs_by_itself(host, tmp_path):
    """The shipped engine runs by itself, in an isolated interpreter as for the boot unit: it finds no stored state."""
    source = str(pathlib.Path(bundle.__file__).resolve().parents[2])
    bundle.install(whole_engine(), bundle.bundle_digest(source), str(tmp_path / "lib"))
    # /var/lib is hidden, so that a state of this machine itself is not found.
    alone = 'mount -t tmpfs none /var/lib && exec "$0" "$@"'
    run = subprocess.run(
        ["unshare", "--net", "--mount", "sh", "-c", alone]
        + [sys.executable, "-I", str(tmp_path / "lib" / "current"), "plan"],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (run.returncode, run.stdout, run.stderr) == (0, "nothing is stored in /var/lib/calico\n", "")
