# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reports in Chromium: they fit, load nothing, run nothing, print well, and hostile texts stay texts."""

from __future__ import annotations

import pathlib
import re
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.report import status_report
from ansible_collections.baremetal.host_routing.plugins.module_utils.report.lines.heartbeat_lines import HeartbeatStatus
from ansible_collections.baremetal.host_routing.plugins.module_utils.report.model import FleetReport
from ansible_collections.baremetal.host_routing.plugins.module_utils.report.places import Places
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.report import page as report_page

from tests.browser import DESKTOP, PHONE, Browser
from tests.unit.plugin_utils.report import hostile, simulated

#: The texts of a page, those of folded parts among them.
ALL_TEXT = "document.body.textContent"
UNFOLD = "document.querySelectorAll('details').forEach(one => one.open = true)"
#: What a hostile text would leave behind.
OWNED = (
    "[typeof window.owned_called, document.querySelectorAll('#owned, script, iframe, img, object, embed, a, form, "
    "svg svg svg').length, [...document.querySelectorAll('*')].flatMap(one => one.getAttributeNames())"
    ".filter(name => name.startsWith('on') || name === 'style' || name === 'src').length]"
)


@pytest.fixture(scope="module")
def browser() -> t.Iterator[Browser]:
    with Browser() as started:
        yield started


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, pathlib.Path]:
    """The files of reports, by name."""
    folder = tmp_path_factory.mktemp("reports")
    reports: dict[str, FleetReport] = {}
    for nodes in (4, 200, 1000):
        fleet = simulated.fleet(nodes, routers=nodes == 4)
        down = {("node1", f"node{nodes - 1}"), ("node2", f"node{nodes}")}
        reports[f"status-{nodes}"] = simulated.status_of(fleet, down, gone={f"node{nodes // 2}"} if nodes > 4 else ())
        reports[f"plan-{nodes}"] = simulated.plan_of(fleet, list(fleet.nodes)[::2])
        if nodes == 200:
            reflected = simulated.fleet(nodes, reflectors=3)
            reports["reflectors-200"] = simulated.status_of(reflected, {("node1", "node30")})
        if nodes < 1000:
            losses = {("node1", f"node{nodes}"): 9, (f"node{nodes}", "node2"): 40}
            reports[f"switch-{nodes}"] = simulated.switch_of(fleet, losses)
    small = simulated.fleet(4, 2)
    hosts, beats = list(small.nodes), simulated.heartbeats(small, 1e6)
    reports["heartbeats-4"] = status_report.by_heartbeats(
        simulated.ORIGIN, HeartbeatStatus(hosts, set(hosts), beats, {}, 1e6), Places(small, hosts)
    )
    reports["no-switch-4"] = simulated.switch_of(small, {("node1", "node3"): 9}, switched=False)
    made = {}
    for name, report in reports.items():
        made[name] = folder / f"{name}.html"
        made[name].write_text(report_page.html(report), "utf-8")
    return made


NAMES = (
    *("status-4", "status-200", "status-1000", "plan-4", "plan-200", "plan-1000"),
    *("switch-4", "switch-200", "reflectors-200", "heartbeats-4", "no-switch-4"),
)
#: The most A4 pages of a report, with what is folded left out.
PRINTED = {"status-1000": 6, "switch-200": 6}


@pytest.mark.parametrize("width", [DESKTOP, PHONE], ids=["desktop", "phone"])
@pytest.mark.parametrize("name", NAMES)
def test_a_report_fits_and_loads_nothing(
    browser: Browser, pages: t.Mapping[str, pathlib.Path], name: str, width: int
) -> None:
    """A page is no wider than its window, also unfolded. It makes no request, and Chromium has nothing to say of it."""
    with browser.open(pages[name], width=width) as page:
        assert page.overflow() == 0
        assert page.requests == [pages[name].as_uri()] and page.console == []
        assert "Inventory" in page.text() and "inventories/prod" in page.text()
        nodes = int(name.rpartition("-")[2])
        assert f"node{nodes}" in str(page.run(ALL_TEXT))
        page.run(UNFOLD)
        assert page.overflow() == 0 and page.console == []


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_text_can_be_read_on_its_background(browser: Browser, pages: t.Mapping[str, pathlib.Path], dark: bool) -> None:
    """The contrast of text to the page is at least 4.5, as WCAG demands, for each of the four states as well."""
    contrast = """(() => {
        const linear = part => part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
        const light = color => { const [r, g, b] = color.match(/[0-9.]+/g).map(one => linear(one / 255));
            return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
        const behind = node => { const color = getComputedStyle(node).backgroundColor;
            return color !== 'rgba(0, 0, 0, 0)' ? color : behind(node.parentElement); };
        return Math.min(...['body', '.banner', '.state.good', '.state.bad', '.dim', 'th', '.tile span', '.tile b',
            'summary', 'footer'].map(one => document.querySelector(one)).filter(Boolean).map(node => {
            const a = light(getComputedStyle(node).color), b = light(behind(node));
            return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05); }));
    })()"""
    for name in ("status-4", "plan-4", "switch-4", "status-200"):
        with browser.open(pages[name], dark=dark) as page:
            assert page.run(contrast) >= 4.5


@pytest.mark.parametrize("name", NAMES)
def test_a_report_prints_on_few_sheets(
    browser: Browser, pages: t.Mapping[str, pathlib.Path], tmp_path: pathlib.Path, name: str
) -> None:
    with browser.open(pages[name]) as page:
        page.pdf(tmp_path / "report.pdf")
    sheets = len(re.findall(rb"/Type\s*/Page\b(?!s)", (tmp_path / "report.pdf").read_bytes()))
    assert 1 <= sheets <= PRINTED.get(name, 5)


def test_folded_parts_open_without_a_script(browser: Browser, pages: t.Mapping[str, pathlib.Path]) -> None:
    with browser.open(pages["status-200"], scripts=False) as page:
        assert "node123\n" not in page.text()
        page.run("[...document.querySelectorAll('summary')].pop().click()")
        assert "node123" in page.text()


@pytest.mark.parametrize("kind", ["status", "plan", "switch"])
def test_hostile_texts_run_and_add_nothing(browser: Browser, tmp_path: pathlib.Path, kind: str) -> None:
    """No script runs, no element or attribute is added, nothing is requested, and the page still fits a phone.

    The policy is taken out of the page, so that escaping alone has to hold.
    """
    fleet = simulated.fleet(4, 2, reflectors=1, routers=True)
    made = {
        "status": lambda: simulated.status_of(fleet, {("node1", "node3")}, gone={"node4"}),
        "plan": lambda: simulated.plan_of(fleet, {"node1"}),
        "switch": lambda: simulated.switch_of(fleet, {("node1", "node3"): 9}),
    }[kind]()
    path = tmp_path / "report.html"
    path.write_text("<title>before</title>")
    with browser.open(path, width=PHONE) as page:
        for text in hostile.TEXTS:
            html = report_page.html(hostile.named(made, text))
            bare = html.replace('http-equiv="Content-Security-Policy"', 'name="none"')
            assert bare != html
            catching = "<head><script>function owned() { window.owned_called = true }</script>"
            path.write_text(bare.replace("<head>", catching, 1), "utf-8")
            page.requests.clear()
            page.goto(path.as_uri())
            page.run(UNFOLD)
            assert page.run(OWNED) == ["undefined", 1, 0], text[:100]
            assert page.requests == [path.as_uri()] and page.console == [], text[:100]
            assert page.overflow() == 0, text[:100]
            assert page.run("document.querySelectorAll('h1').length") == 1, text[:100]


def test_the_policy_stops_a_script_that_were_not_escaped(browser: Browser, tmp_path: pathlib.Path) -> None:
    """The page's policy is a second wall: with an element inserted by hand, nothing runs and nothing is loaded."""
    html = report_page.html(simulated.status_of(simulated.fleet(4, 2)))
    bad = (
        "<script>window.owned_called = true</script><img src='http://x.example/y.png' onerror='window.owned_called=1'>"
    )
    path = tmp_path / "report.html"
    path.write_text(html.replace("<main>", f"<main>{bad}", 1), "utf-8")
    with browser.open(path) as page:
        assert page.run("typeof window.owned_called") == "undefined"
        assert any("Content Security Policy" in line for line in page.console)
