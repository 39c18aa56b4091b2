# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Modules on this machine's kernel, in a network namespace that stands for a host. They need root."""

from __future__ import annotations

import json

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.node import machine
from ansible_collections.baremetal.host_routing.plugins.module_utils.preflight import features
from ansible_collections.baremetal.host_routing.plugins.module_utils.preflight.files import Files

from tests.integration.host_under_test import HostKernel, host_under_test
from tests.unit.modules.harness import Host


class RealKernel(HostKernel):
    """A real kernel with the methods that tests call on a FakeKernel."""

    violations = []

    @property
    def kinds(self):
        return {kind for kind, known in features.observe(Files()).items() if known is not False}

    def watch(self, callback):
        """Do nothing, since a real kernel calls no one back."""

    def snapshot(self):
        """Return {subject: what iproute2, iptables-save, ipset or /proc shows of it}, without temporary properties.

        Left out are IPv6 routing rules, IPv6 routes of protocol kernel, IPv6 addresses of another scope than global,
        multicast entries (see `_passing`), the policies of built-in chains, and all sysctls but the interfaces'
        proxy_arp, forwarding and rp_filter of IPv4.
        """
        seen = {}
        for name, command in {
            "links": "ip -j -d link",
            "addresses": "ip -j -4 address",
            "routes": "ip -j -4 route show table all",
            "rules": "ip -j rule",
            "neighbors": "ip -j neighbor show nud permanent",
            "fdb": "bridge -j fdb",
        }.items():
            output = json.loads(self.run(command.split()).output or "[]")
            seen[name] = sorted(json.dumps(_lasting(entry), sort_keys=True) for entry in output if not _passing(entry))
        # IPv6 routes of protocol kernel are left out: the kernel adds them itself when a device has a carrier.
        routes6 = json.loads(self.run("ip -j -6 route show table all".split()).output or "[]")
        seen["routes6"] = sorted(json.dumps(_lasting(r), sort_keys=True) for r in routes6 if r["protocol"] != "kernel")
        seen["addresses6"] = sorted(
            (link["ifname"], address["local"], address["prefixlen"])
            for link in json.loads(self.run("ip -j -6 address show scope global".split()).output or "[]")
            for address in link.get("addr_info", ())
            if address  # iproute2 6.1 prints an empty entry for each address that it leaves out
        )
        for program in ("iptables", "ip6tables"):
            saved = self.run([f"{program}-save"]).output.splitlines()
            builtin = ("#", ":INPUT", ":OUTPUT", ":FORWARD", ":PREROUTING", ":POSTROUTING")
            seen[program] = [line for line in saved if not line.startswith(builtin)]
        seen["ipset"] = sorted(self.run(["ipset", "save"]).output.splitlines())
        settings = ("proxy_arp", "forwarding", "rp_filter")
        names = [link.name for link in self.links()]
        seen["sysctls"] = {
            key: self.sysctl_read(key) for name in names for key in (f"net/ipv4/conf/{name}/{s}" for s in settings)
        }
        seen["namespaces"] = self.netns_list()
        return seen


def _lasting(entry):
    """Return a copy of an entry of `ip -j` without fields that may follow from a carrier, and with `up`.

    The kernel changes these fields up to a second after a device is set up. `up` says whether the entry's flags have
    UP.
    """
    passing = ("operstate", "flags", "linkinfo", "qdisc", "state")
    lasting = {key: value for key, value in entry.items() if key not in passing}
    lasting["up"] = "UP" in entry.get("flags", ())
    return lasting


def _passing(entry):
    """Return whether an entry has the MAC address of an IP multicast group (RFC 1112, RFC 2464), as some of the FDB.

    A host joins some groups a moment after its device has a carrier.
    """
    return entry.get("mac", "").startswith(("01:00:5e:", "33:33:"))


@pytest.fixture
def host(tmp_path, monkeypatch, capsys):
    with host_under_test(tmp_path, RealKernel) as kernel:
        kernel.link_set("lo", up=True)
        made = Host(tmp_path / "files", kernel)
        made.stdout = capsys.readouterr
        monkeypatch.setattr(machine, "here", lambda agent=None: made.using(agent))
        yield made
