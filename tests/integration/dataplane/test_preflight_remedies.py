# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The commands that preflight names as remedies: forwarded packets pass after them."""

from __future__ import annotations

import copy
import re
import time
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.preflight import firewall, judge
from ansible_collections.baremetal.host_routing.plugins.module_utils.preflight.files import Files

from tests.pauses import pause
from tests.unit.preflight.test_judge import DUAL, GOOD

_PROGRAMS = re.compile(r"(?:nft chain [^{]*'\{[^}]*\}'|ip6?tables-\w+ -P FORWARD ACCEPT)")
_NFT = "table {family} {table} {{\n chain {chain} {{\n  type filter hook forward priority {at}; policy drop;\n }}\n}}\n"

_FIREWALLD = """table inet firewalld {
 chain filter_FORWARD {
  type filter hook forward priority 10; policy accept;
  reject with icmpx type admin-prohibited
 }
}
"""


class FilesInside(Files):
    """The files as processes in the namespace of `kernel` see them, such as /proc/net."""

    def __init__(self, kernel: t.Any) -> None:
        super().__init__()
        self._kernel = kernel

    def read(self, path: str, limit: int = -1) -> str:
        return str(self._kernel.run(["cat", path]).output)


class Path:
    """A host that forwards between the namespaces `left` and `right`."""

    def __init__(self, kernel: t.Any, netns_path: t.Callable[[str], str]) -> None:
        self.kernel = kernel
        self._left = netns_path("left")
        self.run("sysctl -qw net.ipv6.conf.default.accept_dad=0 net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1")
        for number, (name, path) in enumerate([("left", self._left), ("right", netns_path("right"))]):
            inside = f"nsenter --net={path}"
            self.run(f"ip link add {name} type veth peer name eth0 netns {path}")
            self.run(f"ip address add 192.0.2.{number * 8 + 1}/29 dev {name}")
            self.run(f"ip address add 2001:db8:{number}::1/64 dev {name} nodad; ip link set {name} up")
            self.run(f"{inside} ip address add 192.0.2.{number * 8 + 2}/29 dev eth0")
            self.run(f"{inside} ip address add 2001:db8:{number}::2/64 dev eth0 nodad; {inside} ip link set eth0 up")
            self.run(f"{inside} ip route add default via 192.0.2.{number * 8 + 1}")
            self.run(f"{inside} ip route add default via 2001:db8:{number}::1")

    def run(self, text: str, stdin: str = "") -> None:
        done = self.kernel.run(["sh", "-ec", text], stdin)
        assert done.code == 0, (text, done)

    def passes(self) -> list[bool]:
        """Return whether packets of IPv4 and of IPv6 pass."""
        command = ["nsenter", f"--net={self._left}", "ping", "-n", "-c", "1", "-W"]
        return [
            self.kernel.run([*command, wait, address]).code == 0
            for address, wait in (("192.0.2.10", "1"), ("2001:db8:1::2", "1"))
        ]

    def remedy(self) -> str:
        """Return the finding about dropped packets, "" if there is none."""
        facts = copy.deepcopy(GOOD)
        facts["firewall"] = firewall.observe(FilesInside(self.kernel), self.kernel.run)
        found = [one.message("node7") for one in judge.judge(facts, DUAL) if one.id == "forward-drop"]
        return "".join(found)


@pytest.mark.parametrize(
    "dropping",
    [
        [_NFT.format(family="inet", table="filter", chain="forward", at=0)],
        [_NFT.format(family="ip", table="mine-4", chain="fwd.a", at=10), "table ip6 other { }"],
        ["iptables-nft -P FORWARD DROP"],
        ["iptables-legacy -P FORWARD DROP", "ip6tables-legacy -P FORWARD DROP"],
        [_NFT.format(family="inet", table="filter", chain="forward", at=0), "ip6tables-nft -P FORWARD DROP"],
    ],
    ids=["nft", "nft of one version", "iptables", "legacy", "both"],
)
def test_packets_pass_after_the_remedy_for_a_drop(
    kernel: t.Any, netns_path: t.Callable[[str], str], dropping: list[str]
) -> None:
    path = Path(kernel, netns_path)
    began = time.monotonic()
    while path.passes() != [True, True]:  # Duplicate address detection may take a second.
        assert time.monotonic() < began + 30
        pause(began)
    assert path.remedy() == ""
    for one in dropping:
        path.run("nft -f -" if one.startswith("table") else one, one)
    assert False in path.passes()
    commands = _PROGRAMS.findall(path.remedy())
    assert commands, path.remedy()
    for command in commands:
        path.run(command)
    assert path.passes() == [True, True] and path.remedy() == ""


def test_packets_pass_after_the_remedy_for_what_firewalld_left(
    kernel: t.Any, netns_path: t.Callable[[str], str]
) -> None:
    path = Path(kernel, netns_path)
    path.run("nft -f -", _FIREWALLD)
    facts = copy.deepcopy(GOOD)
    facts["firewall"] = firewall.observe(FilesInside(kernel), kernel.run)
    (message,) = [one.message("node7") for one in judge.judge(facts, DUAL) if one.id == "firewalld-table"]
    assert path.passes() == [False, False]
    path.run(re.findall(r"\((nft [^)]*)\)", message)[0])
    assert path.passes()[0]
