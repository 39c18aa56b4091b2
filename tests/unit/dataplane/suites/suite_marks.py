# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Marks: a table that does not change keeps its mark, and one that changes gets another."""

from __future__ import annotations

from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.kernel.port import (
    NewLink,
    RouteAttributes,
    RouteOperation,
)

from tests.unit.dataplane.suites.drivers import underlay


def marks(kernel):
    return kernel.ruleset_mark(), kernel.ipset_mark("cali40x"), kernel.routes_mark(179)


def test_marks_change_with_what_they_stand_for_and_with_nothing_else(kernel):
    underlay(kernel)

    def done(*argv, stdin=""):
        found = kernel.run(list(argv), stdin=stdin)
        assert found.code == 0, found

    def route(action, protocol, gateway="10.10.1.9"):
        attributes = RouteAttributes(device="eth0", gateway=gateway, protocol=protocol)
        assert kernel.route_batch([RouteOperation(action, "10.244.1.5/32", attributes)]) == []

    def differs(*which):
        nonlocal before
        now = marks(kernel)
        assert [name for name, old, new in zip(("rules", "set", "routes"), before, now) if old != new] == list(which)
        assert marks(kernel) == now
        before = now

    before = marks(kernel)
    done("iptables-restore", "--noflush", stdin="*filter\n:theirs - [0:0]\n-A theirs -j ACCEPT\nCOMMIT\n")
    differs("rules")
    done("iptables-restore", "--noflush", stdin="*filter\n-F theirs\nCOMMIT\n")
    differs("rules")
    done("ipset", "create", "cali40y", "hash:net")
    differs()
    done("ipset", "create", "cali40x", "hash:net")
    differs("set")
    done("ipset", "add", "cali40x", "10.10.1.11")
    differs("set")
    done("ipset", "del", "cali40x", "10.10.1.11")
    differs("set")
    route("add", 179)
    differs("routes")
    route("replace", 179, "10.10.1.8")
    differs("routes")
    route("replace", 12)
    differs("routes")
    route("delete", 12)
    differs()


def test_a_namespace_in_which_nothing_was_made_has_marks_too(kernel):
    assert marks(kernel) == marks(kernel)


def test_the_mark_of_devices_changes_with_their_settings(kernel):
    """Other devices, and packets, do not change it."""
    underlay(kernel)
    kernel.link_add(NewLink("cali1", "veth", peer_name="inner1"))
    kernel.link_add(NewLink("theirs", "bridge"))

    def ours():
        return kernel.links_mark(("cali1", "cali2", "vxlan.calico"))

    assert kernel.links_mark(()) == kernel.links_mark(("nowhere",)) != ours()
    seen = [ours()]
    for change in (
        lambda: kernel.sysctl_write("net/ipv6/conf/cali1/accept_ra", "2"),
        lambda: kernel.sysctl_write("net/ipv4/conf/cali1/route_localnet", "1"),
        lambda: kernel.link_set("cali1", mtu=1400),
        lambda: kernel.link_add(NewLink("cali2", "veth", peer_name="inner2")),
        lambda: kernel.links_delete(["cali2"]),
    ):
        change()
        assert ours() == ours() != seen[-1]
        seen.append(ours())
    kernel.link_set("theirs", mtu=1400)
    kernel.sysctl_write("net/ipv6/conf/theirs/accept_ra", "2")
    assert ours() == seen[-1]


def test_the_sizes_of_legacy_tables_change_with_what_is_in_them(kernel):
    def legacy(program, *lines):
        text = "\n".join(["*filter", *lines, "COMMIT", ""])
        done = kernel.run([f"{program}-legacy-restore", "--noflush"], stdin=text)
        assert done.code == 0, done

    seen = {kernel.legacy_mark()}
    for number, (program, line) in enumerate(
        [
            ("iptables", ":theirs - [0:0]"),
            ("iptables", "-A theirs -s 192.0.2.1 -j ACCEPT"),
            ("ip6tables", "-A INPUT -s 2001:db8::1 -j ACCEPT"),
            ("iptables", "-A theirs -s 192.0.2.1 -j ACCEPT"),
            ("ip6tables", "-A INPUT -s 2001:db8::2 -j ACCEPT"),
        ],
        start=1,
    ):
        legacy(program, line)
        assert kernel.legacy_mark() == kernel.legacy_mark()
        seen.add(kernel.legacy_mark())
        assert len(seen) == number + 1, line
