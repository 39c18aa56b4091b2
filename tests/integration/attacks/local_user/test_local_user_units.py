# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Attacks by a local user, and by any host while this host boots.

The host has a state on its disk. A boot is the command `firewall`, which calico-firewall.service runs.
tests/lab/scenarios/test_policy.py has the same attacks on hosts that really boot.
"""

from __future__ import annotations

import os
import pathlib
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.kernel.linux import LinuxKernel
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.planning.apply import apply_node
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.planning.plan import plan_node
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.planning.registry import REGISTRY
from ansible_collections.baremetal.host_routing.plugins.module_utils.node import desired
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.change import command
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.machine import Machine
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.store.store import Store, Stored
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.store.unconfirmed import (
    Unconfirmed,
    UnconfirmedStore,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.model import Failsafe
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.policy_state import PolicySettings

from tests.integration import iptables_backend
from tests.integration.host_under_test import HostKernel, host_under_test
from tests.integration.policy.documents import ALLOW, DENY, WORKLOADS, Document, global_policy, host_endpoint
from tests.integration.policy.node_in_namespace import Node
from tests.integration.policy.policed_node import (
    HOST,
    HOST_V6,
    OUTSIDE,
    OUTSIDE_V6,
    W0,
    W0_V6,
    PolicedNode,
    tcp,
    udp,
)

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root, for network namespaces"),
]

CLOSED, OPEN = 5000, 5001
FAILSAFES = PolicySettings(failsafe_inbound=(Failsafe("tcp", 22),), failsafe_outbound=(Failsafe("udp", 53),))
#: A policy for all host and workload endpoints that allows everything except incoming UDP to the port CLOSED.
ALL_BUT_ONE = global_policy(
    "all-but-one",
    types=["Ingress", "Egress"],
    applyOnForward=True,
    ingress=[{**DENY, "protocol": "UDP", "destination": {"ports": [CLOSED]}}, ALLOW],
    egress=[ALLOW],
)


class BootingHost:
    """A host that boots: `policed` sends packets to it, and `machine` has its kernel and a disk below `folder`."""

    def __init__(self, policed: PolicedNode, folder: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.policed = policed
        self._capsys = capsys
        self.machine = Machine(
            policed.node.kernel,
            store=str(folder / "calico"),
            lock=str(folder / "run" / "node.lock"),
            writer_lock=str(folder / "run" / "writer.lock"),
            workloads=str(folder / "run" / "workloads"),
            ipam=str(folder / "calico" / "ipam"),
        )

    def store(self, *documents: Document, settings: PolicySettings = FAILSAFES) -> Stored:
        """Store a state with this policy on the disk, and return it. The kernel then has no policy.

        Raise what `PolicedNode.apply` raises.
        """
        self.policed.apply(*documents, settings=settings)
        stored = Stored(self.policed.state, complete=True)
        self.policed.without_policy()
        self.policed.node.forget_connections()
        Store(self.machine.store).save(stored)
        return stored

    def boot(self) -> None:
        """Run the command of calico-firewall.service.

        Raise AssertionError unless it succeeds, writes nothing to stderr and says that it changed the firewall.
        """
        status = command.main(["firewall"], self.machine)
        said = self._capsys.readouterr()
        assert (status, said.err) == (0, ""), said
        assert "changes made to the firewall" in said.out
        self.policed.forget()

    def complete(self) -> None:
        """Write the stored firewall as calico-node-state.service does, for the addresses that interfaces have now.

        Raise AssertionError if no state is stored, ApplyError if a change fails, and ObserveError or KernelError if the
        kernel cannot be read.
        """
        stored = Store(self.machine.store).load()
        assert stored is not None
        kernel = self.machine.kernel
        plan = plan_node(kernel, desired.of_machine(self.machine, stored.state), REGISTRY.guards)
        apply_node(kernel, plan)


@pytest.fixture(params=["nft", "legacy"])
def host(
    request: pytest.FixtureRequest,
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> t.Iterator[BootingHost]:
    iptables_backend.choose(request.param, tmp_path, monkeypatch)
    with host_under_test(tmp_path, HostKernel) as kernel:
        policed = PolicedNode(Node(kernel, str(tmp_path / "netns"), request.param))
        # The command closes its kernel, but the test still needs this one.
        monkeypatch.setattr(kernel, "close", lambda: None)
        yield BootingHost(policed, tmp_path / "host", capsys)
        monkeypatch.undo()
        policed.close()


def test_a_port_that_policy_closes_is_closed_while_the_host_boots(host: BootingHost) -> None:
    """Reach a forbidden port of a host and its workloads after the network is up, before the boot unit has run.

    Gain: Services that policy closes, for the seconds that a boot takes.
    Precedent: CWE-696 (incorrect behavior order).
    Closed: 0.2.0
    Result: The firewall is in place before the first interface is up.
    """
    host.store(*WORKLOADS, host_endpoint("eth0"), ALL_BUT_ONE)
    host.policed.expect([udp(OUTSIDE, HOST, CLOSED), udp(OUTSIDE_V6, HOST_V6, CLOSED)])
    host.policed.node.forget_connections()
    host.boot()
    ends = [(OUTSIDE, HOST), (OUTSIDE_V6, HOST_V6), (OUTSIDE, W0), (OUTSIDE_V6, W0_V6)]
    host.policed.expect([udp(*end, OPEN) for end in ends], [udp(*end, CLOSED) for end in ends])


def test_a_host_endpoint_known_by_address_is_closed_until_addresses_are_known(host: BootingHost) -> None:
    """Reach a host whose HostEndpoint has no interface name, before its address is configured.

    Gain: All ports of a host that policy closes, until its addresses are configured.
    Precedent: CWE-636 (not failing securely).
    Closed: 0.2.0
    Result: All interfaces are closed except for failsafe ports, whatever other policy says, until the boot unit knows
    the interface.
    """
    by_address = host_endpoint("eth0", interfaceName="", expectedIPs=[HOST, HOST_V6])
    before_dnat = global_policy("dnat", preDNAT=True, applyOnForward=True, types=["Ingress"], ingress=[ALLOW])
    host.store(*WORKLOADS, by_address, host_endpoint("*"), before_dnat, ALL_BUT_ONE)
    host.boot()
    ends = [(OUTSIDE, HOST), (OUTSIDE_V6, HOST_V6), (OUTSIDE, W0)]
    host.policed.expect(
        [tcp(OUTSIDE, HOST, 22), tcp(OUTSIDE_V6, HOST_V6, 22), udp(HOST, OUTSIDE, 53)],
        [udp(*end, port) for end in ends for port in (CLOSED, OPEN)],
    )
    host.complete()
    host.policed.expect([udp(*end, OPEN) for end in ends])


def test_a_restart_does_not_keep_an_unconfirmed_change(host: BootingHost) -> None:
    """Make a host boot with the policy of an unconfirmed change.

    Gain: A time in which the host has a policy that it reverts later.
    Precedent: none known.
    Closed: 0.2.0
    Result: From the first packet on, the firewall is that of the state to which the host reverts.
    """
    before = host.store(*WORKLOADS, host_endpoint("eth0"), ALL_BUT_ONE)
    host.store(*WORKLOADS)
    plan = before.state.plan
    pending = Unconfirmed(("change",), before, plan, boot="before the restart", deadline=1e9, within=20, bgp=False)
    UnconfirmedStore(host.machine.store).save(pending)
    host.boot()
    host.policed.expect([udp(OUTSIDE, HOST, OPEN)], [udp(OUTSIDE, HOST, CLOSED), udp(OUTSIDE_V6, HOST_V6, CLOSED)])
    assert UnconfirmedStore(host.machine.store).any()  # the boot unit reverts it later


@pytest.mark.parametrize("umask", [0o000, 0o077])
def test_folders_of_namespaces_have_their_modes_whatever_the_units_umask_is(umask: int, tmp_path: pathlib.Path) -> None:
    """Replace a workload's network namespace where the unit's umask lets others write.

    Gain: the host's routes and policy for a namespace that the user controls.
    Precedent: CWE-276 (incorrect default permissions).
    Closed: 0.2.0
    Result: Only root can write to the folders, and all users can list them.
    """
    kernel = LinuxKernel(netns_folder=str(tmp_path / "netns"), marker_folder=str(tmp_path / "run" / "markers"))
    before = os.umask(umask)
    try:
        kernel.netns_add("web", "default/web")
    finally:
        os.umask(before)
    try:
        modes = [(tmp_path / name).stat().st_mode & 0o777 for name in ("netns", "run/markers")]
        assert modes == [0o755, 0o755]
    finally:
        kernel.netns_delete("web")
        kernel.close()
