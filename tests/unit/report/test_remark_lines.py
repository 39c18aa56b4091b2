# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Remarks about hosts are said once, with the hosts about which they are true."""

from __future__ import annotations

from ansible_collections.baremetal.host_routing.plugins.module_utils.report.lines import remark_lines

CUT = (
    "a new connection like ssh from 10.0.0.9 to {address} port 22 would be cut by hosts#1 (ingress, HostEndpoint "
    "{host}-all)"
)


def test_a_remark_names_the_hosts_about_which_it_is_true() -> None:
    remarks = {
        "node1": ["no inotify instances are left.", "node1 is slow."],
        "node2": ["node2 is slow.", "no inotify instances are left."],
        "node10": ["node1 is slow."],
        "node3": ["another thing.", "another thing."],
    }
    assert remark_lines.grouped(remarks) == [
        "node1, node2: no inotify instances are left.",
        "node1, node2: node1 is slow. (This is node1's.)",
        "node10: node1 is slow.",
        "node3: another thing.",
    ]


def test_a_lockout_is_one_remark_and_a_long_list_is_counted() -> None:
    said = {f"node{n:02}": [CUT.format(address=f"10.0.0.{n}", host=f"node{n:02}")] for n in range(1, 21)}
    names = ", ".join(f"node{n:02}" for n in range(1, 9))
    assert remark_lines.grouped(said) == [f"{names} and 12 more: {said['node01'][0]} (This is node01's.)"]


def test_a_host_says_no_more_than_it_may() -> None:
    """Many, long and hostile remarks are cut before they are anywhere."""
    assert remark_lines.bounded([]) == []
    found = remark_lines.bounded(["x" * 5000, "a\x1b[2Jb\nc", *(f"{n}" for n in range(60))])
    assert len(found) == 50 and len(found[0]) == 1000 and found[1] == "a\\x1b[2Jb\\nc"
    assert found[-1] == "13 more warnings are left out."
