# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The site that `make docs-site` builds, in a browser: light and dark, wide and narrow, with and without scripts.

The build itself fails on a broken link or anchor; these tests look at what a reader sees.
"""

from __future__ import annotations

import functools
import http.server
import pathlib
import subprocess
import sys
import threading
import typing as t

import pytest

from tests.browser import DESKTOP, PHONE, Browser, Page

ROOT = pathlib.Path(__file__).resolve().parents[2]
HTML = ROOT / ".build" / "site" / "html"
#: A page of each kind: home, tutorial, how-to, reference with wide tables, explanation, the generated pages, search.
LOOKED_AT = (
    "index.html",
    "docs/tutorials/getting-started.html",
    "docs/how-to/policy.html",
    "docs/reference/variables.html",
    "docs/explanation/scaling.html",
    "plugins/probe_module.html",
    "playbooks/index.html",
    "bin/calicoctl.html",
    "search.html",
)


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_arguments: t.Any) -> None:
        """Log nothing."""


@pytest.fixture(scope="module")
def site() -> t.Iterator[str]:
    """The URL of the site, built and served on this machine."""
    command = [sys.executable, str(ROOT / "docs" / "site" / "build.py")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    handler = functools.partial(_Quiet, directory=str(HTML))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="module")
def browser() -> t.Iterator[Browser]:
    """A running browser."""
    with Browser() as browser:
        yield browser


def all_pages() -> list[str]:
    return sorted(str(path.relative_to(HTML)) for path in HTML.rglob("*.html"))


def what_is_wrong(page: Page, site: str) -> list[str]:
    """Return what a reader of `page`, a page of `site`, would complain about."""
    wrong = [*page.console, *(f"asks {host}" for host in page.requested_hosts - {site.removeprefix("http://")})]
    if page.overflow():
        wrong.append(f"is {page.overflow()} pixels wider than its window")
    broken = page.run("[...document.images].filter(i => !i.naturalWidth).map(i => i.src)")
    wrong += [f"does not show {image}" for image in broken]
    wrong += [f"cut off: {what}" for what in page.cut_off()]
    wrong += [f"contrast {what}" for what in page.poor_contrast()]
    heading = "document.querySelector('h1')"
    seen = f"{heading} && {heading}.checkVisibility() && {heading}.getBoundingClientRect().width > 50"
    # The theme's empty form of a search has no heading.
    if not page.run(f"location.pathname === '/search.html' || {seen}"):
        wrong.append("shows no heading")
    return wrong


@pytest.mark.parametrize("scripts", [True, False], ids=["scripts", "no-scripts"])
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_kinds_of_pages(site: str, browser: Browser, width: int, dark: bool, scripts: bool) -> None:
    with browser.open(f"{site}/index.html", width=width, dark=dark, scripts=scripts) as page:
        ground = page.run("getComputedStyle(document.body).backgroundColor")
        assert (sum(map(int, ground[4:-1].split(","))) < 150) == dark, ground
        wrong = {}
        for name in LOOKED_AT:
            page.goto(f"{site}/{name}")
            wrong[name] = what_is_wrong(page, site)
            page.console.clear()
        assert {name: found for name, found in wrong.items() if found} == {}


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_every_page_fits_a_phone(site: str, browser: Browser, dark: bool) -> None:
    """Every second page is looked at in light colours, the others in dark ones."""
    wrong = {}
    with browser.open(f"{site}/index.html", width=PHONE, dark=dark) as page:
        for name in all_pages()[dark::2]:
            page.goto(f"{site}/{name}")
            wrong[name] = what_is_wrong(page, site)
            page.console.clear()
    assert {name: found for name, found in wrong.items() if found} == {}


def test_a_wide_table_is_cards_on_a_phone_and_a_table_elsewhere(site: str, browser: Browser) -> None:
    """All of a row is in the window, each cell behind its heading; an option such as -e is not broken."""
    cells = "[...document.querySelectorAll('table.cards td')]"
    beyond = f"{cells}.filter(one => one.getBoundingClientRect().right > innerWidth).length"
    headings = f"{cells}.slice(0, 5).map(one => getComputedStyle(one, '::before').content)"
    broken = "[...document.querySelectorAll('code .pre.option')].filter(one => one.getClientRects().length > 1).length"
    with browser.open(f"{site}/docs/reference/variables.html", width=PHONE) as page:
        assert page.run(f"{cells}.length > 100 && document.querySelectorAll('code .pre.option').length > 1")
        assert (page.run(beyond), page.run(broken)) == (0, 0)
        assert page.run(headings) == ["none", '"for: "', '"type: "', '"default: "', '"meaning: "']
    with browser.open(f"{site}/docs/reference/variables.html", width=DESKTOP) as page:
        assert page.run("getComputedStyle(document.querySelector('table.cards tr')).display") == "table-row"


def test_the_navigation_has_every_page(site: str, browser: Browser) -> None:
    sources = [path.relative_to(ROOT) for path in (ROOT / "docs").rglob("*.md") if "site" not in path.parts[-2:]]
    with browser.open(f"{site}/index.html", scripts=False) as page:
        hrefs = set(page.run("[...document.querySelectorAll('.sidebar-tree a')].map(a => a.getAttribute('href'))"))
        captions = page.run("[...document.querySelectorAll('.sidebar-tree .caption-text')].map(e => e.textContent)")
    assert {str(path.with_suffix(".html")) for path in sources} - hrefs == set()
    assert {"plugins/probe_module.html", "playbooks/index.html", "roles/calico_node/README.html"} - hrefs == set()
    wanted = ["Start here", "Tutorials", "How-to guides", "Reference", "Explanation", "Contributing"]
    assert captions == [caption for caption in wanted if caption in captions] and len(captions) >= 5


def test_the_navigation_opens_on_a_phone_without_scripts(site: str, browser: Browser) -> None:
    with browser.open(f"{site}/index.html", width=PHONE, scripts=False) as page:
        left = "document.querySelector('.sidebar-drawer').getBoundingClientRect().left"
        assert page.run(left) < -100
        page.run("document.querySelector('label[for=__navigation]').click()")
        page.wait_for(f"{left} === 0")


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("quarantine block", "docs/"),
        ("calico_node_soak_seconds", "docs/reference/variables.html"),
        ("switch_pool_mode", "playbooks/index.html"),
        ("probe module", "plugins/probe_module.html"),
    ],
)
def test_search_finds_pages(site: str, browser: Browser, words: str, found: str) -> None:
    with browser.open(f"{site}/docs/how-to/policy.html") as page:
        page.run(
            f"(() => {{ const form = document.querySelector('form.sidebar-search-container');"
            f"form.elements.q.value = {words!r}; form.submit(); }})()"
        )
        results = "[...document.querySelectorAll('#search-results li a')].map(a => a.href)"
        page.wait_for(f"location.pathname === '/search.html' && {results}.length > 0")
        page.wait_for(f"{results}.some(href => href.includes({found!r}))")
        assert (page.console, page.requested_hosts) == ([], {site.removeprefix("http://")})


def test_search_says_that_it_needs_scripts(site: str, browser: Browser) -> None:
    with browser.open(f"{site}/search.html", scripts=False) as page:
        assert "JavaScript" in page.text()


def test_anchors_are_those_of_github(site: str, browser: Browser) -> None:
    """Links of messages, such as docs/reference/calicoctl.md#on-the-controller, lead to the heading here, too."""
    with browser.open(f"{site}/docs/reference/calicoctl.html") as page:
        headings = page.run("[...document.querySelectorAll('article h2')].map(h => h.firstChild.textContent)")
        for heading in headings:
            slug = "".join(c for c in heading.lower() if c.isalnum() or c in "_- ").replace(" ", "-")
            assert page.run(f"document.getElementById({slug!r}) !== null"), slug
