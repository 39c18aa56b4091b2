# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Refusals of the kernel, and the texts of the errors. Only FakeKernel can refuse on demand."""

from __future__ import annotations

import dataclasses
import errno

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.change import ApplyError, ObserveError
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.drivers import (
    ipset,
    iptables,
    sysctl,
    tunnel,
    workload,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.kernel.port import Completed
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.planning.apply import apply_node
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.planning.plan import plan_node
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_state import Sysctl

from tests.unit.dataplane.suites.drivers import converge, fail, underlay
from tests.unit.dataplane.suites.suite_firewall import FILTER, HOSTS, NAT
from tests.unit.dataplane.suites.suite_node import STATE
from tests.unit.dataplane.suites.suite_tunnel import IPIP, VXLAN
from tests.unit.dataplane.suites.suite_workload import WEB


def test_kernel_without_ipip(kernel):
    underlay(kernel)
    kernel.kinds.remove("ipip")
    assert fail(tunnel, kernel, [IPIP]).splitlines()[0] == (
        "device tunl0: This kernel cannot make a device of kind ipip, which the pool's mode needs."
        " The kernel said: Operation not supported (Unknown device type)."
        " Install a kernel that has the module ipip (Debian: linux-image-amd64), or choose another mode."
    )


def test_address_that_could_not_be_deleted_stays_on_record(kernel):
    underlay(kernel)
    converge(tunnel, kernel, [IPIP])
    kernel.fail_next("address_delete", errno.ENOMEM)
    assert fail(tunnel, kernel, []) == (
        "address 10.244.1.2/32: The kernel refused to delete address 10.244.1.2/32 from tunl0."
        " It said: Cannot allocate memory."
    )
    assert converge(tunnel, kernel, [])[0] == "- address  10.244.1.2/32  dev tunl0"
    assert kernel.addresses("tunl0") == []


def test_workload_that_stopped_half_way_is_completed(kernel):
    kernel.fail_next("address_add", errno.ENOBUFS)
    assert fail(workload, kernel, [WEB]) == (
        "workload default/web-1: Inside network namespace web-1, its pair cali111 - eth0 could not be set up at:"
        " add address 10.244.1.5/32 to eth0. The kernel said: No buffer space available. What runs there may be the"
        " cause. Its existing parts are kept; put that right, then run again to have it completed."
    )
    converge(workload, kernel, [WEB])


def test_address_that_went_by_itself_is_no_failure(kernel):
    converge(workload, kernel, [WEB])
    kernel.fail_next("address_delete", errno.EADDRNOTAVAIL)
    changed = [dataclasses.replace(WEB, address="10.244.1.50")]
    workload.apply(kernel, workload.diff(changed, workload.observe(kernel, changed)))
    assert kernel.inside("web-1").link("eth0").alias == "calico: address 10.244.1.50"
    kernel.fail_next("address_delete", errno.ENOMEM)
    assert "could not be set up at: delete address 10.244.1.50/32 from eth0. The kernel said: Cannot allocate" in fail(
        workload, kernel, [WEB]
    )


def test_sysctl_of_a_read_only_proc(kernel):
    kernel.fail_next("sysctl_write", errno.EROFS)
    assert fail(sysctl, kernel, [Sysctl("net/ipv4/ip_forward", "1")]) == (
        "sysctl net.ipv4.ip_forward: /proc/sys/net/ipv4/ip_forward cannot be written here."
        " The kernel said: Read-only file system."
        " In a container, mount /proc/sys writable or set the value outside of it."
    )


@pytest.mark.parametrize(
    "program, driver, desired, text",
    [
        (
            "ipset",
            ipset,
            HOSTS,
            "ipset cali40all-hosts-net: The program ipset is not installed, and the fleet's firewall rules need its"
            " sets. Install it with `apt-get install ipset` (Debian), then run again.",
        ),
        (
            "iptables-restore",
            iptables,
            NAT,
            "iptables nat cali-nat-outgoing: The program iptables-restore is not installed; NAT and the guard of the"
            " tunnels need it. Install it with `apt-get install iptables` (Debian), then run again.",
        ),
    ],
)
def test_program_that_is_not_installed(kernel, program, driver, desired, text):
    """Without the program a plan is made, for check mode; applying it fails and names the package to install."""
    kernel.programs.difference_update({program, "iptables-save"})
    assert driver.diff([desired], driver.observe(kernel, [desired]))[0].action == "+"
    assert fail(driver, kernel, [desired]) == text


def test_lock_that_somebody_holds(kernel):
    run = kernel.run

    def locked(argv, stdin="", timeout=60.0):
        if argv[0] == "iptables-restore":
            return Completed(4, "", "Another app is currently holding the xtables lock; still 0s 0us time ahead...\n")
        return run(argv, stdin, timeout)

    kernel.run = locked
    assert fail(iptables, kernel, [NAT]) == (
        "iptables nat cali-nat-outgoing: Another program has held the lock of iptables (/run/xtables.lock) for 10 s, so"
        " table nat was not written. See which one it is (lsof /run/xtables.lock), then run again."
    )


def test_table_that_somebody_else_wrote_at_the_same_time_is_tried_again(kernel):
    kernel.fail_next("run", errno.EAGAIN, "iptables-restore")
    converge(iptables, kernel, [NAT])


def test_kernel_without_sets(kernel):
    kernel.fail_next("run", errno.EPERM, "ipset")
    with pytest.raises(ObserveError) as caught:
        ipset.observe(kernel, [HOSTS])
    assert str(caught.value) == (
        "IP sets cannot be read (ipset save): ipset: Operation not permitted. The fleet's firewall rules need them."
        " Install a kernel with the module ip_set (Debian: linux-image-amd64), then run again."
    )
    kernel.fail_next("run", errno.EPERM, "ipset")
    assert ipset.observe(kernel, []) == {}


@pytest.mark.parametrize(("failures", "reads"), [(1, True), (2, True), (3, False)])
def test_rules_that_somebody_writes_at_the_same_time_are_read_again(kernel, failures, reads):
    class Busy(type(kernel)):
        left = failures

        def run(self, argv, stdin="", timeout=60.0):
            if argv[0] == "iptables-save" and self.left:
                self.left -= 1
                return Completed(4, "", "iptables-save: Resource temporarily unavailable")
            return super().run(argv, stdin, timeout)

    busy = Busy()
    if reads:
        assert iptables.observe(busy, [FILTER]).tables == {}
        return
    with pytest.raises(ObserveError) as caught:
        iptables.observe(busy, [FILTER])
    assert str(caught.value) == (
        "The iptables rules cannot be read (iptables-save): iptables-save: Resource temporarily unavailable. See that"
        " the kernel has nf_tables or iptables (Debian: linux-image-amd64), then run again."
    )


def test_table_that_nft_has_written(kernel):
    class Incompatible(type(kernel)):
        def run(self, argv, stdin="", timeout=60.0):
            done = super().run(argv, stdin, timeout)
            if argv[0] == "iptables-save":
                return done._replace(output=done.output + "# Table `nat' is incompatible, use 'nft' tool.\n")
            return done

    incompatible = Incompatible()
    assert iptables.observe(incompatible, [FILTER]).tables == {}
    with pytest.raises(ObserveError) as caught:
        iptables.observe(incompatible, [NAT])
    assert str(caught.value) == (
        "Table nat of iptables has rules that this host's iptables cannot read:"
        " Table `nat' is incompatible, use 'nft' tool. Something writes it with `nft` directly."
        " Move those rules to a table of their own, then run again."
    )


def test_nothing_is_made_reachable_without_the_firewall(kernel):
    underlay(kernel)
    kernel.programs.discard("iptables-restore")
    with pytest.raises(ApplyError, match="iptables-restore is not installed"):
        apply_node(kernel, plan_node(kernel, STATE))
    assert kernel.link("cali111") is None
    assert kernel.routes(protocol=179) == []


def test_other_failures_do_not_stop_the_rest(kernel):
    underlay(kernel)
    kernel.fail_next("link_add", errno.ENOMEM, "cali111")
    with pytest.raises(ApplyError) as caught:
        apply_node(kernel, plan_node(kernel, STATE))
    assert [change.subject for change, _reason in caught.value.failures] == [
        "default/web-1",
        "net.ipv4.neigh.cali111.proxy_delay",
        "net.ipv4.conf.cali111.proxy_arp",
        "net.ipv4.conf.cali111.forwarding",
        "10.244.1.5/32",
    ]
    assert kernel.link("vxlan.calico").up
    assert ("10.244.1.0/26") in dict(kernel.routes(protocol=179))


def test_first_of_two_vxlan_devices_is_named(kernel):
    underlay(kernel)
    kernel.fail_next("link_add", errno.EADDRINUSE)
    assert fail(tunnel, kernel, [VXLAN]).startswith(
        "device vxlan.calico: Another VXLAN device on this host uses VNI 4096 on UDP port 4789."
        " The kernel said: Address already in use."
    )


def test_a_device_that_is_no_vxlan_device_is_not_taken_for_one(kernel):
    """A refusal names another VXLAN device as cause only if a VXLAN device was refused because one exists."""
    underlay(kernel)
    kernel.fail_next("link_add", errno.EEXIST)
    text = fail(tunnel, kernel, [IPIP])
    assert "VXLAN" not in text
    assert text.startswith("device tunl0: The kernel refused to")
    converge(tunnel, kernel, [])
    kernel.fail_next("link_add", errno.EPERM)
    assert "Another VXLAN device" not in fail(tunnel, kernel, [VXLAN])
