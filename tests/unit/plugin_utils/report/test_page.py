# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The page of a report: its parts, its size, and texts of hostile nodes that stay texts."""

from __future__ import annotations

import dataclasses
import html.parser
import pathlib
import re
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.report import (
    drawing,
    run_report,
    sections,
    status_report,
    switch_loss,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.report.lines.heartbeat_lines import HeartbeatStatus
from ansible_collections.baremetal.host_routing.plugins.module_utils.report.model import FleetReport, ShownNode
from ansible_collections.baremetal.host_routing.plugins.module_utils.report.places import Places
from ansible_collections.baremetal.host_routing.plugins.module_utils.report.shown_text import cut
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.report import page
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.report.origin import local_time
from markupsafe import Markup

from tests.unit.plugin_utils.report import hostile, simulated

LARGEST = 5_000_000


class Elements(html.parser.HTMLParser):
    """The elements, attributes and texts of a page; `wrong` has tags that are closed out of order."""

    def __init__(self, page_text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.wrong: list[str] = []
        self.tags: dict[str, int] = {}
        self.attributes: set[tuple[str, str]] = set()
        self.texts: list[str] = []
        self.feed(page_text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, t.Optional[str]]]) -> None:
        self.tags[tag] = self.tags.get(tag, 0) + 1
        self.attributes.update((tag, name) for name, dummy in attrs)
        if tag not in ("meta", "wbr"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, t.Optional[str]]]) -> None:
        self.tags[tag] = self.tags.get(tag, 0) + 1
        self.attributes.update((tag, name) for name, dummy in attrs)

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.wrong.append(tag)

    def handle_data(self, data: str) -> None:
        if self.open[-1:] != ["style"]:
            self.texts.append(data)

    @property
    def words(self) -> str:
        return re.sub(r"\s+", " ", " ".join(self.texts))


@pytest.fixture(scope="module")
def reports() -> dict[str, FleetReport]:
    """Reports of each kind about a small fleet."""
    fleet = simulated.fleet(4, 2, reflectors=1, routers=True)
    beats = simulated.heartbeats(fleet, 1e6)
    hosts = list(fleet.nodes)
    return {
        "status": simulated.status_of(fleet, down={("node1", "node3")}, gone={"node4"}),
        "heartbeats": status_report.by_heartbeats(
            simulated.ORIGIN,
            HeartbeatStatus(hosts, set(hosts), beats, {"node4": "it is torn"}, 1e6),
            Places(fleet, hosts),
        ),
        "plan": simulated.plan_of(fleet, {"node1", "node2"}),
        "switch": simulated.switch_of(fleet, {("node1", "node3"): 9, ("node3", "node1"): 4}),
        "no switch": simulated.switch_of(fleet, {("node1", "node3"): 9}, switched=False),
    }


KINDS = ("status", "heartbeats", "plan", "switch", "no switch")


def test_a_text_of_the_page_is_escaped_for_elements_and_attributes() -> None:
    assert page.text("<b a='1' c=\"2\">&") == "&lt;b a=&#39;1&#39; c=&#34;2&#34;&gt;&amp;"
    assert page.text(Markup("<i></i>")) == "<i></i>"
    assert page.text("<" * 600) == "&lt;" * 100 + "..."


def test_templates_write_attributes_in_double_quotes_and_switch_no_escaping_off() -> None:
    """No template marks a text as safe, and each value in a tag stands between double quotes."""
    for path in sorted(pathlib.Path(page.__file__).with_name("templates").iterdir()):
        source = re.sub(r"\{#.*?#\}", "", path.read_text("utf-8"), flags=re.DOTALL)
        assert not re.search(r"\bsafe\b|autoescape|\|\s*(e|escape|forceescape)\b", source), path.name
        written = re.sub(r"\{%.*?%\}", "", source, flags=re.DOTALL)
        for tag in re.findall(r"<[a-z][^<>]*?\{\{[^<>]*>", written):
            outside = re.sub(r'"[^"]*"', "", re.sub(r"\{\{.*?\}\}", "VALUE", tag))
            assert "VALUE" not in outside and "'" not in outside, (path.name, tag)


def test_a_text_is_one_line_without_control_characters_and_cut() -> None:
    assert cut("a\nb\x1b\u202e\x00") == r"a\nb\x1b\u202e\x00"
    assert cut("x" * 600) == "x" * 500 + "..."
    assert cut("\x1b" * 600).startswith(r"\x1b\x1b") and len(cut("\x1b" * 600)) == 503
    assert cut(7, 3) == "7"


@pytest.mark.parametrize("kind", KINDS)
def test_a_page_is_whole_and_well_formed(reports: t.Mapping[str, FleetReport], kind: str) -> None:
    text = page.html(reports[kind])
    found = Elements(text)
    assert found.open == [] and found.wrong == []
    assert text.startswith('<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"/>')
    assert "script" not in found.tags and "a" not in found.tags and "img" not in found.tags
    assert not [name for dummy, name in found.attributes if name.startswith("on") or name in ("src", "style")]
    assert re.findall(r"(?:href|url)[=(]\W?([^\"')]+)", text.replace('href="#', 'href="')) and "http" not in (
        text.replace("http-equiv", "").replace("http://www.w3.org", "")
    )
    assert f'content="{page.text(page.POLICY)}"' in text
    ids = re.findall(r' id="([^"]+)"', text)
    assert len(ids) == len(set(ids))


def test_a_status_names_what_is_down(reports: t.Mapping[str, FleetReport]) -> None:
    words = Elements(page.html(reports["status"])).words
    for said in (
        "Degraded: 1 of 4 nodes good",
        "Made 2026-11-27 14:02:11 UTC by ops@controller",
        "Inventory inventories/prod",
        "Command ansible-playbook playbooks/status.yml -i inventories/prod -e report=report.html",
        "Collection baremetal.host_routing 0.2.0",
        "node1 - node3: 0 of 1 sessions Established; routes: IPIP, VXLAN; 1 route missing",
        "node4 unreachable",
        "Sessions that are down (2)",
        "IPIPCrossSubnet",
        "tor-01",
    ):
        assert said in words, said


def test_heartbeats_say_how_old_they_are(reports: t.Mapping[str, FleetReport]) -> None:
    words = Elements(page.html(reports["heartbeats"])).words
    assert "1h old" in words and "3s old" in words and "old heartbeat" in words and "it is torn" in words
    assert "BGP sessions Established, counted at both ends" in words and "-e source=nodes" in words


def test_a_plan_says_what_changes_where(reports: t.Mapping[str, FleetReport]) -> None:
    words = Elements(page.html(reports["plan"])).words
    for said in (
        "Plan, nothing was changed: 2 of 4 nodes change",
        "Approval 7f3a91c02b1e",
        "! session: 2 objects on 2 nodes",
        "+ device: 2 objects on 2 nodes",
        "tunl0 mtu 1480 up on node1, node2",
        "node3 0 changes",
        "prepare ",
    ):
        assert said in words, said


def test_a_switch_has_phases_losses_and_seconds(reports: t.Mapping[str, FleetReport]) -> None:
    words = Elements(page.html(reports["switch"])).words
    for said in (
        "Switched, 13 of 5,784 probes lost",
        "12 s: 8 lost",
        "node1 -> node3 default-ipv4-ippool 9 of 482 461.7 ms no answer",
        "retire done",
        "gaps shorter than 51 ms may be missed",
        "12 paths in all.",
    ):
        assert said in words, said
    words = Elements(page.html(reports["no switch"])).words
    assert (
        "Not switched" in words and "soak stopped here" in words and "retire" not in words.partition("Nodes")[0][:200]
    )


def test_a_run_shows_paths_with_losses_and_where_they_are_lost() -> None:
    """Dead paths come first, with their pool, the reason and the direction, and addresses with the node's name."""
    target = {"address": "10.244.0.1", "source": "10.244.0.1", "pool": "racks", "sent": 3, "lost": 3}
    answers = {
        "node1": {
            "targets": [
                {**target, "name": "node2", "pool": "web", "lost": 1, "reason": "no answer"},
                {**target, "name": "node3", "reason": "unreachable", "by": "10.10.1.12"},
                {**target, "name": "node4", "reason": "no answer"},
            ]
        },
        "node4": {"targets": [{**target, "name": "node1", "lost": 0, "heard": 3}]},
    }
    made = simulated.fleet(4, 2)
    report = run_report.report(
        simulated.ORIGIN, list(made.nodes), simulated.plans(made, ()), {}, answers, Places(made, list(made.nodes)),
        run_report.RunFacts(False, names={"10.10.1.12": "node2"}), ["incomplete  4/4 nodes"],
    )  # fmt: skip
    words = Elements(page.html(report)).words
    assert (
        "Paths with losses Probes have the full size that fits the path. A path without any answer carries no packets "
        "of workloads. Path Pool Lost Longest gap Why "
        "node1 -> node3 racks 3 of 3 0.0 ms unreachable, says node2 (10.10.1.12) "
        "node1 -> node4 racks 3 of 3 0.0 ms no answer (lost on the way back) "
        "node1 -> node2 web 1 of 3 0.0 ms no answer"
    ) in words


def test_a_switch_that_ended_before_the_flip_lost_no_live_traffic() -> None:
    """Only the probes of the proof used the new routes, and a gate that was skipped was not passed."""
    gates = {
        "prepare": {"line": "prepare   4/4", "ok": True, "at": 7.0},
        "prove": {"line": "prove     0/12", "ok": False, "at": 9.0},
        "flip": {"skipped": True, "changed": False},
    }
    proved = {"node1": {"targets": [{"address": "10.0.0.1", "sent": 3, "lost": 3}]}}
    loss = switch_loss.measured("a pool", gates, proved, False, local_time)
    assert loss.proof and [(one.name, one.ok, one.seconds) for one in loss.phases] == [
        ("prepare", True, 0.0),
        ("prove", False, 2.0),
    ]
    report = dataclasses.replace(simulated.switch_of(simulated.fleet(4, 2), {}), loss=loss)
    words = Elements(page.html(report)).words
    assert "live traffic was not touched" in words and "of 3 probes over the new routes unanswered" in words


def test_colour_is_never_alone(reports: t.Mapping[str, FleetReport]) -> None:
    """Each coloured state in the text has a sign and a word, and a place of the map has a sign and a title."""
    text = page.html(reports["status"])
    for state, inside in re.findall(r'<span class="state (\w+)">(.*?)</span>', text):
        assert f'<use href="#{state}"/></svg>' in inside and re.sub("<[^>]+>", "", inside).strip()
    assert text.count('class="spot"') <= text.count('class="sign"')


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("text", hostile.TEXTS, ids=range(len(hostile.TEXTS)))
def test_a_hostile_text_stays_a_text(reports: t.Mapping[str, FleetReport], kind: str, text: str) -> None:
    """With a hostile text in each field, a page has the elements and attributes of one with harmless texts."""
    harmless = Elements(page.html(hostile.named(reports[kind], "harmless")))
    made = page.html(hostile.named(reports[kind], text))
    found = Elements(made)
    assert found.wrong == [] and found.open == []
    assert set(found.tags) <= set(harmless.tags) and found.attributes <= harmless.attributes
    assert found.tags.get("meta") == harmless.tags.get("meta") and found.tags.get("style") == 1
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]", made)
    assert len(made) < 400_000
    made.encode("utf-8")


@pytest.mark.parametrize("text", ["<" * 1000, "x" * 1000, "\x1b" * 1000], ids=["escaped", "long", "control"])
def test_the_largest_page_of_1000_nodes_has_less_than_5_mb(text: str) -> None:
    """Nodes that fill every text make no page that a ticket refuses."""
    fleet = simulated.fleet(1000, 25)
    hosts = list(fleet.nodes)
    node = ShownNode(
        text, "", False, True, "bad", text, text, 1, 2, (text,) * 9, 1, 64, 1, 1, 2, 3, text, text, text, 4
    )
    nodes = tuple(dataclasses.replace(node, name=f"{host}{text}", rack=f"rack {index // 25}") for index, host in
                  enumerate(hosts))  # fmt: skip
    lossy = simulated.switch_of(simulated.fleet(30, 15), {(f"node{one}", "node30"): 9 for one in range(1, 29)})
    report = hostile.everywhere(lossy, text)
    report = dataclasses.replace(report, nodes=nodes, problems=(text,) * 5000, warnings=(text,) * 5000)
    assert len(page.html(report).encode()) < LARGEST


@pytest.mark.parametrize(("nodes", "largest"), [(4, 60_000), (200, 400_000)])
def test_a_page_is_smaller_than_its_limit(nodes: int, largest: int) -> None:
    fleet = simulated.fleet(nodes)
    last = f"node{nodes}"
    down = {("node1", last), ("node2", last)}
    assert len(page.html(simulated.status_of(fleet, down=down)).encode()) < largest
    assert len(page.html(simulated.plan_of(fleet, list(fleet.nodes)[::2])).encode()) < largest


def test_a_mesh_of_1000_nodes_is_summed_up_by_racks() -> None:
    """The map shows 499,500 sessions as 820 pairs of racks. A node that is gone is one line; its peers stay well.

    Neither this page nor that of a plan for every other node has 2 MB.
    """
    fleet = simulated.fleet(1000, 25)
    report = simulated.status_of(fleet, down={("node1", "node30"), ("node2", "node999")}, gone={"node77"})
    assert report.sessions_all == 499_500 and report.sessions_up == 499_500 - 999 - 2
    assert len(report.links) == 40 * 41 // 2
    assert [(link.a, link.b, link.total - link.up) for link in report.links if link.state == "bad"] == [
        ("rack 01", "rack 02", 1),
        ("rack 01", "rack 40", 1),
    ]
    assert [(one.host, one.peer, one.count) for one in report.down] == [
        ("node77", "999 others", 999),
        ("node1", "node30", 1),
        ("node2", "node999", 1),
    ]
    assert [node.name for node in report.nodes if node.state == "bad"] == [
        "node1",
        "node2",
        "node30",
        "node77",
        "node999",
    ]
    assert len(report.problems) == 6
    assert len(page.html(simulated.plan_of(fleet, list(fleet.nodes)[::2])).encode()) < 2_000_000
    text = page.html(report)
    assert len(text.encode()) < 2_000_000
    words = Elements(text).words
    assert "node77: 999 of its BGP sessions are down" in words and "All 1,000 nodes" in words
    assert "ok, but 1 session down with node77, not well" in words


def test_routes_are_counted_by_mode() -> None:
    """Two racks of two nodes: a pool with CrossSubnet is direct in a rack, and a tunnel between racks.

    Each node has a spare block in each of its pools. Nobody has a route to those.
    """
    fleet = simulated.fleet(4, 2)
    report = simulated.status_of(fleet, down={("node1", "node3")})
    assert {(mode.mode, mode.pool): (mode.planned, mode.missing) for mode in report.modes} == {
        ("IPIP", "default-ipv4-ippool"): (8, 1),
        ("direct", "default-ipv4-ippool"): (4, 0),
        ("VXLAN", "db-pool"): (6, 0),
    }
    assert [(pool.blocks, pool.nodes) for pool in report.pools] == [(8, 4), (4, 2)]


def test_addresses_are_the_same_in_all_parts_of_a_page() -> None:
    """The tile, the pools and the nodes count the addresses of all blocks, those of spare ones too."""
    fleet = simulated.fleet(4, 2)
    answers = simulated.status(fleet)
    own = answers["node1"]["blocks"]
    own[0]["spare"] = True
    report = simulated.report_of(fleet, answers, simulated.ORIGIN)
    (tile,) = (one for one in sections.page(report).tiles if one.words == "addresses of blocks used")
    used, size = (sum(getattr(one, name) for one in report.nodes) for name in ("used", "size"))
    assert (used, size) == tuple(sum(getattr(one, name) for one in report.pools) for name in ("used", "size"))
    assert (tile.number, tile.of) == (f"{used}", f"{size}")
    assert f"{own[0]['cidr']} (spare)" in next(one for one in report.nodes if one.name == "node1").blocks


def test_the_legend_has_each_kind_of_place_of_the_map() -> None:
    reflected = Elements(page.html(simulated.status_of(simulated.fleet(12, reflectors=2)))).words
    assert "node route reflector session up" in reflected and "router outside" not in reflected
    routed = Elements(page.html(simulated.status_of(simulated.fleet(4, routers=True)))).words
    assert "node router outside session up" in routed and "route reflector" not in routed
    assert (
        "rack router outside session up"
        in Elements(page.html(simulated.status_of(simulated.fleet(40, routers=True)))).words
    )


def test_without_an_inventory_the_nodes_are_shown_all_the_same() -> None:
    fleet = simulated.fleet(4, 2)
    answers = simulated.status(fleet)
    report = status_report.by_nodes(simulated.ORIGIN, list(answers), answers, Places(None, list(answers)), [], [])
    words = Elements(page.html(report)).words
    assert "Good: 4 of 4 nodes good · 6 of 6 sessions Established" in words and "no rack" in words


def test_names_beside_a_ring_do_not_leave_the_drawing() -> None:
    """Each place of the largest ring lies inside the drawing, with no other place nearer than a sign is wide."""
    spots = [
        drawing.Spot(f"n{one}", f"n{one}", f"rack {one // 5}", "good", "circle", "") for one in range(drawing.RING)
    ]
    at = drawing.positions(spots)
    assert all(60 < x < 340 and 20 < y < 370 for x, y in at)
    apart = min(abs(a[0] - b[0]) + abs(a[1] - b[1]) for index, a in enumerate(at) for b in at[:index])
    assert apart > 20
