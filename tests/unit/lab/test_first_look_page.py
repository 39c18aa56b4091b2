# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""docs/tutorials/first-look.md shows what `make demo` prints: its steps, its texts and the lab's routes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_state import PROBE_INTERFACE

from tests.run import live_change
from tests.unit.fleet.compiler.test_compiler import bird_lines
from tests.unit.fleet.fleets import build, pool, states

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs" / "tutorials" / "first-look.md").read_text("utf-8")
INVENTORY = ROOT / "inventories" / "lab"
#: Texts of the page, by the file that prints them.
PRINTED = {
    "tests/run/demonstration.py": (
        "$ birdc -s /run/calico/bird.ctl show protocols",
        "How long it took",
        "Both switches",
        "Every workload reaches every other one; both switches lost nothing; ",
        "policy followed; a live change touched nothing else.",
        "NOT as promised, see above.",
    ),
    "tests/run/live_policy.py": (
        ", and lets app == 'shop' in alone. No playbook runs from here on.",
        ", app=shop) attached; in the sets of ",
        ": till reaches it: ",
        ": till loses its label; out of the sets after ",
    ),
    "tests/run/live_change.py": (
        " packets of till were sent, and none passed",
        " ms after the write, passed again ",
        " packets of desk and between all nodes: ",
    ),
    "plugins/module_utils/live/fleet_answer.py": (
        "Connections that stand and would be denied: ",
        "They would be cut.",
    ),
    "tests/lab/measure/streams.py": (" packets sent in ", " of them by us", " TCP transfers, "),
    "plugins/module_utils/report/lines/phase_lines.py": (
        "receive paths of both modes in place, packets held at the smaller MTU",
        "(probes only, live traffic untouched)",
        "routes replaced",
        " since before the flip",
        "the old mode is gone",
    ),
    "plugins/action/pool_mode_in_inventory.py": ("To keep it, set in ",),
}


def test_the_page_has_a_heading_for_each_step() -> None:
    source = (ROOT / "tests" / "run" / "demonstration.py").read_text("utf-8")
    titles = {title.replace("{mode}", "ipip") for title in re.findall(r'steps\.step\(f?"([^"]+)"\)', source)}
    headings = re.findall(r"^### \d+\. (.*)$", PAGE, re.MULTILINE)
    assert len(headings) == len(titles) == 10 and set(headings) == titles


@pytest.mark.parametrize("path", PRINTED)
def test_the_page_quotes_what_is_printed(path: str) -> None:
    source = (ROOT / path).read_text("utf-8")
    for text in PRINTED[path]:
        assert text in source and text in PAGE, text


def test_the_page_shows_the_document_that_the_operator_applies() -> None:
    [diff] = re.findall(r"^@@ .*\n((?:\+.*\n)+)", PAGE, re.MULTILINE)
    [address] = re.findall(r"- (\S+)/32$", diff, re.MULTILINE)
    shown = yaml.safe_load("".join(f"{line[1:]}\n" for line in diff.splitlines()))
    assert shown == yaml.safe_load(live_change.DOCUMENT.format(address=address))


@pytest.mark.parametrize("mode", ["ipip", "direct"])
def test_the_page_shows_the_routes_of_the_lab(mode: str) -> None:
    hosts = yaml.safe_load((INVENTORY / "hosts.yml").read_text("utf-8"))["all"]["children"]["calico_nodes"]["hosts"]
    variables = yaml.safe_load((INVENTORY / "group_vars" / "all" / "calico.yml").read_text("utf-8"))
    fleet = build(
        pool(mode, name="default-ipv4-ippool", natOutgoing=True),
        nodes={name: own["calico_node_address"] for name, own in hosts.items()},
        own=hosts,
        workloads=variables["calico_workloads"],
        bgp_as_number=variables["calico_bgp_as_number"],
        bgp_peers=variables["calico_bgp_peers"],
    )
    node1 = states(fleet)["node1"]
    for line in bird_lines(node1):
        assert f"\n  {line.replace('{router}', '10.10.1.1')}\n" in PAGE
    for name in (peer.name for peer in node1.bird.peers):
        assert f"\n  {name} BGP  " in PAGE
    [web] = node1.workloads
    assert f"blackhole {node1.ipam.blocks[0].cidr} proto 179\n" in PAGE
    [probe] = node1.ipam.probes.values()
    for address, interface in ((web.address, web.interface), (probe, PROBE_INTERFACE)):
        assert mode == "direct" or f"  {address} dev {interface} proto 179 scope link\n" in PAGE
