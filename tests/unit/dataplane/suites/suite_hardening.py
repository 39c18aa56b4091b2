# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Devices that accept nothing of what is advertised to them, on FakeKernel and on the real kernel."""

from __future__ import annotations

import dataclasses

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane import hardening
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.drivers import sysctl, tunnel, workload
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.kernel.port import (
    InterfaceAddress,
    NewLink,
    RouteAttributes,
    RouteOperation,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.planning import attach
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.planning.apply import apply_node
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.planning.plan import plan_node
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_state import Sysctl, TunnelDevice

from tests.unit.dataplane.suites.drivers import OWN, converge, lines, underlay, write_route
from tests.unit.dataplane.suites.suite_attach import WEB, host, state

VXLAN = TunnelDevice("vxlan.calico", "vxlan", 1450, OWN, "10.244.1.1", "66:00:00:00:00:01", 4096, 4789)
POD = dataclasses.replace(WEB, netns="pod", netns_owned=False)
NET1 = dataclasses.replace(POD, name="web-2", interface="cali222", address="10.244.1.6", peer_interface="net1")


def settings(kernel, device):
    return {setting: kernel.sysctl_read(hardening.key(setting, device)) for setting in hardening.SETTINGS}


def open_all(kernel, device):
    for setting, value in settings(kernel, device).items():
        if value is not None:
            kernel.sysctl_write(hardening.key(setting, device), "1")


def closed(kernel, device):
    return set(settings(kernel, device).values()) <= {"0", None}


def trusting(kernel):
    """Make the host of suite_attach.py, and set the SETTINGS of hardening.py that the kernel has to 1 in `default`."""
    host(kernel)
    for setting in hardening.SETTINGS:
        if kernel.sysctl_read(hardening.key(setting, "default")) is not None:
            kernel.sysctl_write(hardening.key(setting, "default"), "1")


def test_a_link_says_what_is_open(kernel):
    kernel.link_add(NewLink("one", "veth", peer_name="other"))
    open_all(kernel, "one")
    there = [setting for setting, value in settings(kernel, "one").items() if value is not None]
    assert dict(kernel.link("one").open_settings) == dict.fromkeys(there, 1)
    kernel.sysctl_write("net/ipv6/conf/one/accept_ra", "2")
    assert dict(kernel.link("one").open_settings)["ipv6/accept_ra"] == 2
    assert {link.name: link.open_settings for link in kernel.links()}["one"] == kernel.link("one").open_settings
    hardening.close(kernel, "one")
    assert kernel.link("one").open_settings == ()
    assert closed(kernel, "one")


@pytest.mark.parametrize("how", ["attach", "plan"])
def test_a_host_end_is_closed_before_it_is_up(kernel, how):
    trusting(kernel)
    seen = []
    if hasattr(kernel, "watch"):  # only FakeKernel has watch()
        kernel.watch(lambda changed: seen.append((changed.link(WEB.interface), closed(kernel, WEB.interface))))
    if how == "attach":
        attach.attach(kernel, WEB)
    apply_node(kernel, plan_node(kernel, state(WEB)))
    assert closed(kernel, WEB.interface)
    assert all(shut for link, shut in seen if link is not None and link.up)


def test_a_tunnel_device_is_closed_before_it_is_up(kernel):
    underlay(kernel)
    trusting_default = hardening.key("ipv6/accept_ra", "default")
    kernel.sysctl_write(trusting_default, "1")
    seen = []
    if hasattr(kernel, "watch"):
        kernel.watch(lambda changed: seen.append((changed.link(VXLAN.name), closed(kernel, VXLAN.name))))
    converge(tunnel, kernel, [VXLAN])
    assert closed(kernel, VXLAN.name)
    assert all(shut for link, shut in seen if link is not None and link.up)


def test_open_devices_are_closed_and_what_was_advertised_there_removed(kernel):
    trusting(kernel)
    attach.attach(kernel, WEB)
    converge(tunnel, kernel, [VXLAN])
    router = RouteAttributes(gateway="fe80::bad", protocol=9, metric=1024)
    for device in (WEB.interface, VXLAN.name):
        open_all(kernel, device)
        for destination in ("::/0", "2001:db8::/32"):
            write_route(kernel, destination, router._replace(device=device, metric=1024 + len(device)))
        write_route(kernel, "2001:db8:1::/64", RouteAttributes(device=device, protocol=2, metric=256 + len(device)))
    there = [setting.replace("/", " ") for setting, value in settings(kernel, VXLAN.name).items() if value is not None]
    opened, shut = ("  ".join(f"{setting} {value}" for setting in there) for value in (1, 0))
    assert "ipv4 accept_redirects 1" in opened and "ipv6 seg6_enabled 1" in opened
    assert lines(tunnel.diff([VXLAN], tunnel.observe(kernel, [VXLAN]))) == [
        f"~ device   vxlan.calico  vni 4096 port 4789 local 10.10.1.11  mtu 1450  up  {opened}  "
        "advertised route 2001:db8:1::/64  advertised route 2001:db8::/32 via fe80::bad  "
        "advertised route ::/0 via fe80::bad  ->  "
        f"vni 4096 port 4789 local 10.10.1.11  mtu 1450  up  {shut}  nothing advertised"
    ]
    converge(tunnel, kernel, [VXLAN])
    converge(workload, kernel, [WEB])
    assert closed(kernel, WEB.interface) and closed(kernel, VXLAN.name)
    ours = [entry for entry in kernel.routes(table=254, family=6) if entry[1].device in (WEB.interface, VXLAN.name)]
    assert {destination for destination, attributes in ours} <= {"fe80::/64"}
    assert [to for to, through in kernel.routes(protocol=179)] == ["10.244.1.0/26", "10.244.1.5/32"]


def test_foreign_addresses_and_routes_on_our_devices_stay(kernel):
    """An administrator's addresses and routes stay: they have no lifetime, and were not advertised."""
    underlay(kernel)
    converge(tunnel, kernel, [VXLAN])
    kernel.address_add(InterfaceAddress(VXLAN.name, "2001:db8:7::1", 64))
    write_route(kernel, "2001:db8:8::/64", RouteAttributes(device=VXLAN.name, protocol=4, metric=1024))
    kernel.sysctl_write(hardening.key("ipv6/accept_ra", VXLAN.name), "1")
    converge(tunnel, kernel, [VXLAN])
    found = {to for to, through in kernel.routes(table=254, family=6) if through.device == VXLAN.name}
    assert found - {"fe80::/64"} == {"2001:db8:7::/64", "2001:db8:8::/64"}


def test_the_plan_says_why_rp_filter_of_the_underlay_is_loosened(kernel):
    underlay(kernel)
    key = "net/ipv4/conf/eth0/rp_filter"
    kernel.sysctl_write(key, "1")
    wanted = [Sysctl(key, "2")]
    assert lines(sysctl.diff(wanted, sysctl.observe(kernel, wanted))) == [
        "~ sysctl   net.ipv4.conf.eth0.rp_filter  1  ->  2    loose, or packets would be lost whenever a pool changes"
        " its mode; rules in table raw drop what comes here with the source of a workload of this node"
    ]
    kernel.sysctl_write(key, "0")
    assert lines(sysctl.diff(wanted, sysctl.observe(kernel, wanted))) == [
        "~ sysctl   net.ipv4.conf.eth0.rp_filter  0  ->  2"
    ]


def test_all_overrules_the_check_of_workloads(kernel):
    host(kernel)
    found = {}
    for have in "012":
        kernel.sysctl_write("net/ipv4/conf/all/rp_filter", have)
        for spoofing in (False, True):
            plan = plan_node(kernel, state(dataclasses.replace(WEB, source_spoofing=spoofing)))
            found[have, spoofing] = [(change.subject, change.before, change.after) for change in plan.problems]
    refused = ("net.ipv4.conf.all.rp_filter", "2", "at most 1")
    assert found == {
        ("0", False): [],
        ("0", True): [],
        ("1", False): [],
        ("1", True): [("net.ipv4.conf.all.rp_filter", "1", "at most 0")],
        ("2", False): [refused],
        ("2", True): [("net.ipv4.conf.all.rp_filter", "2", "at most 0")],
    }


def test_a_second_interface_answers_for_its_own_addresses(kernel):
    host(kernel)
    kernel.netns_add("pod", "")
    for one in (POD, NET1):
        attach.attach(kernel, one)
    inner = kernel.inside("pod")
    (rule,) = [rule for rule in inner.rules() if rule.source]
    assert (rule.source, rule.table, rule.priority, rule.protocol) == ("10.244.1.6", 179_000_101, 1790, 179)
    ((to, through),) = inner.routes(table=rule.table)
    assert (to, through.device, through.gateway) == ("0.0.0.0/0", "net1", "169.254.1.1")
    assert plan_node(kernel, state(POD, NET1)).changes == ()
    inner.route_batch([RouteOperation("delete", to, through)])
    assert lines(plan_node(kernel, state(POD, NET1)).changes) == [
        "~ workload default/web-2  no rule by source for net1  ->  rule by source for net1"
    ]
    apply_node(kernel, plan_node(kernel, state(POD, NET1)))
    assert plan_node(kernel, state(POD, NET1)).changes == ()
    # The rule stays when the interface is deleted, and does not prevent a new interface.
    assert not attach.detach_links(kernel, [NET1])
    attach.attach(kernel, NET1)
    assert [rule.source for rule in inner.rules() if rule.source] == ["10.244.1.6"]
