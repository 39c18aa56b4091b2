# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The browser of tests/browser.py notices what tests ask it for: each test shows it a page that is wrong."""

from __future__ import annotations

import pathlib
import typing as t

import pytest

from tests.browser import DESKTOP, PHONE, Browser, BrowserError, Page, PageLeft


@pytest.fixture(scope="module")
def browser() -> t.Iterator[Browser]:
    """A running browser."""
    with Browser() as browser:
        yield browser


@pytest.fixture
def shown(browser: Browser, tmp_path: pathlib.Path) -> t.Iterator[t.Callable[..., Page]]:
    """A function that shows HTML: (the body's HTML, options of `Browser.open`) -> the page."""
    pages = []

    def show(body: str, **options: t.Any) -> Page:
        file = tmp_path / "page.html"
        head = (
            '<meta charset="utf-8"><meta name="viewport" content="width=device-width"><link rel="icon" href="data:,">'
        )
        file.write_text(f"<!doctype html><html><head>{head}</head><body>{body}</body></html>", "utf-8")
        pages.append(browser.open(file, **options))
        return pages[-1]

    yield show
    for page in pages:
        page.close()


def test_a_page_in_order(shown: t.Callable[..., Page]) -> None:
    page = shown("<h1>Routes</h1>", width=PHONE)
    assert (page.text(), page.console, page.requested_hosts) == ("Routes", [], set())
    assert (page.overflow(), page.cut_off(), page.poor_contrast()) == (0, [], [])
    assert page.run("innerWidth") == PHONE


def test_what_scripts_and_resources_say(shown: t.Callable[..., Page]) -> None:
    page = shown(
        '<img src="http://example.org/x.png"><script>console.error("one"); alert("two"); console.warn("three")</script>'
        "<script>four()</script>"
    )
    assert page.requested_hosts == {"example.org"}
    said = "\n".join(page.console)
    for expected in ("error: one", "dialog: two", "warning: three", "four is not defined", "ERR_NAME_NOT_RESOLVED"):
        assert expected in said


def test_an_expression_waits_for_the_page_that_its_page_loads(shown: t.Callable[..., Page]) -> None:
    page = shown("<h1>Routes</h1>")
    next_page = "location.search === '?next'"
    load = "new Promise(() => { location.search = '?next' })"  # never kept: it ends with its page
    page.wait_for(f"{next_page} || {load}")
    with pytest.raises(PageLeft):
        page.run("new Promise(() => { location.search = '?last' })")


def test_without_scripts(shown: t.Callable[..., Page]) -> None:
    body = (
        '<p id="p">before</p><noscript>no scripts</noscript><script>document.getElementById("p").append("!")</script>'
    )
    assert shown(body).text() == "before!"
    assert shown(body, scripts=False).text() == "before\n\nno scripts"


def test_overflow(shown: t.Callable[..., Page]) -> None:
    wide = '<div style="width: 900px">wide</div>'
    page = shown(wide, width=PHONE)
    assert page.overflow() > 500
    assert page.cut_off() == ["div.: wide"]
    assert shown(wide, width=DESKTOP).overflow() == 0
    page = shown(f'<div style="overflow-x: auto">{wide}</div>', width=PHONE)
    assert (page.overflow(), page.cut_off()) == (0, [])


def test_contrast_of_either_scheme(shown: t.Callable[..., Page]) -> None:
    style = (
        "<style>p { color: #777 } body { background: #fff }"
        "@media (prefers-color-scheme: dark) { body { background: #111 } p { color: rgb(255 255 255 / 20%) } }</style>"
    )
    body = f'{style}<p>small</p><p style="font-size: 24px">large</p><p style="visibility: hidden">hidden</p>'
    assert shown(body).poor_contrast() == ["4.48: small"]
    assert [line.partition(": ")[2] for line in shown(body, dark=True).poor_contrast()] == ["small", "large"]


def test_pictures(shown: t.Callable[..., Page], tmp_path: pathlib.Path) -> None:
    page = shown('<div style="height: 2000px">tall</div>')
    page.screenshot(tmp_path / "window.png")
    page.screenshot(tmp_path / "whole.png", whole=True)
    page.pdf(tmp_path / "page.pdf")
    sizes = [(tmp_path / name).read_bytes()[16:24] for name in ("window.png", "whole.png")]
    assert [int.from_bytes(size[4:], "big") for size in sizes] == [800, 2016]
    assert (tmp_path / "page.pdf").read_bytes().startswith(b"%PDF")


def test_errors(shown: t.Callable[..., Page], browser: Browser) -> None:
    page = shown("<p>here</p>")
    with pytest.raises(BrowserError, match="Error: why"):
        page.run("(() => { throw new Error('why') })()")
    with pytest.raises(BrowserError, match="still False after"):
        page.wait_for("1 > 2", seconds=0.1)
    with pytest.raises(BrowserError, match="ERR_FILE_NOT_FOUND"):
        browser.open("/nowhere.html")
    with pytest.raises(BrowserError, match="wasn't found"):
        browser.command("No.such")
    with pytest.raises(FileNotFoundError, match="apt-get install chromium fonts-dejavu-core"):
        Browser("/nowhere/chromium")
