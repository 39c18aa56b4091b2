# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests with real packets that the check of a packet's source looks up the kernel's routes at most once.

Lookups are counted by rules without a target. One stands in front of each rule with the match rpfilter, and has all
other matches of that rule. The sysctl rp_filter also looks up each IPv4 packet that passes the table raw; a rule in the
table mangle counts these.
"""

from __future__ import annotations

import pathlib
import re
import shlex
import typing as t

import pytest

from tests.integration.attacks.attacked_node import KINDS, AttackedNode, attacked_node
from tests.integration.policy.node_in_namespace import workload_interface
from tests.integration.policy.policed_node import HOST, HOST_V6, OUTSIDE, OUTSIDE_V6, W0, W0_V6, W1, W1_V6, udp

_FORGED = "-m rpfilter --validmark --invert"
_COMMENT = ("-m", "comment", "--comment", "lookup of a source")
CALI0 = workload_interface(0)


@pytest.fixture(params=KINDS)
def attacked(
    request: pytest.FixtureRequest, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> t.Iterator[AttackedNode]:
    yield from attacked_node(request.param, tmp_path, monkeypatch)


class Lookups:
    """Counters of the lookups for one IP version; the constructor adds their rules to the node's tables.

    `rules` is the number of rules with the match rpfilter. Raise AssertionError if a command fails, or if a rule uses
    rpfilter with other options than _FORGED.
    """

    def __init__(self, attacked: AttackedNode, family: int) -> None:
        self._attacked = attacked
        self._program = "iptables" if family == 4 else "ip6tables"
        self._tables = ("raw", "mangle") if family == 4 else ("raw",)
        self.rules = 0
        positions: dict[str, int] = {}
        for line in self._run("-save", "-t", "raw"):
            words = shlex.split(line)
            if words[:1] != ["-A"]:
                continue
            chain = words[1]
            positions[chain] = positions.get(chain, 0) + 1
            if "rpfilter" in words:
                assert _FORGED in line
                matches = words[2 : words.index("rpfilter") - 1]
                if "--comment" in matches:  # the driver would take a copy with the same comment for a rule of its own
                    word = matches.index("--comment")
                    del matches[word - 2 : word + 2]
                self._run("", "-t", "raw", "-I", chain, str(positions[chain]), *matches, *_COMMENT)
                positions[chain] += 1
                self.rules += 1
        if family == 4:
            self._run("", "-t", "mangle", "-I", "PREROUTING", "1", *_COMMENT)

    def _run(self, program: str, *arguments: str) -> list[str]:
        done = self._attacked.node.kernel.run([self._program + program, *arguments])
        assert done.code == 0, (arguments, done.errors)
        return done.output.splitlines()

    def of(self, source: str, destination: str, by: str) -> int:
        """Send a UDP packet that arrives on the interface `by`; return how often its source is looked up."""
        before = self._count()
        flow = udp(source, destination)
        self._attacked.send(flow, by)
        self._attacked._await(())
        return self._count() - before

    def _count(self) -> int:
        """Return the number of all packets' lookups since the counting rules were added."""
        found = 0
        for table in self._tables:
            for line in self._run("-save", "-t", table, "-c"):
                if _COMMENT[-1] in line:
                    packets = re.match(r"\[(\d+):\d+\]", line)
                    assert packets
                    found += int(packets.group(1))
        return found


def test_a_packet_is_looked_up_once(attacked: AttackedNode) -> None:
    attacked.defend()
    for family, own, other, host, outside, foreign in (
        (4, W0, W1, HOST, OUTSIDE, "8.8.8.8"),
        (6, W0_V6, W1_V6, HOST_V6, OUTSIDE_V6, "2001:4860:4860::8888"),
    ):
        lookups = Lookups(attacked, family)
        assert lookups.rules == 2
        for destination in (other, host, outside):
            assert lookups.of(own, destination, CALI0) == 1, destination
            assert lookups.of(other, destination, CALI0) == 1, destination
            assert lookups.of(foreign, destination, CALI0) == 1, destination
        for destination in (own, host):
            # On eth0 the rules look up only sources in the node's own blocks; rp_filter looks up other IPv4 sources.
            assert lookups.of(outside, destination, "eth0") == (1 if family == 4 else 0), destination
            assert lookups.of(other, destination, "eth0") == 1, destination
