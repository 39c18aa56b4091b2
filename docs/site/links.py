# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The check of built HTML: every link and every fragment leads somewhere, and nothing is loaded from elsewhere.

Usage: links.py FOLDER. The exit status is 1 if a link is broken. Links to other sites are judged by their form alone.
"""

from __future__ import annotations

import html.parser
import pathlib
import re
import sys
import typing as t
import urllib.parse

#: Attributes that lead to a page when somebody follows them.
_FOLLOWED = {("a", "href"), ("form", "action"), ("area", "href")}
#: Attributes whose target a browser loads by itself.
_LOADED = {
    *((tag, "src") for tag in ("img", "script", "iframe", "source", "video")),
    *((tag, "href") for tag in ("link", "image", "use")),
    ("object", "data"),
}
_NOT_LOADED = {"canonical", "author", "help", "license", "next", "prev", "search", "index", "genindex", "edit"}
_HOST = re.compile(r"^[a-z0-9-]+(\.[a-z0-9-]+)+(:\d+)?$", re.IGNORECASE)


class Page(html.parser.HTMLParser):
    """One HTML page: the names of its anchors, those that occur twice, and its links as (target, whether loaded)."""

    def __init__(self, text: str):
        """Parse `text`."""
        super().__init__()
        self.anchors: set[str] = set()
        self.twice: list[str] = []
        self.links: list[tuple[str, bool]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, t.Optional[str]]]) -> None:
        """Record the anchors and links of one element."""
        given = {name: value or "" for name, value in attrs}
        for name in {given.get("id"), given.get("name") if tag == "a" else None} - {None}:
            if name in self.anchors:
                self.twice.append(str(name))
            self.anchors.add(str(name))
        for name, value in given.items():
            if (tag, name) in _FOLLOWED:
                self.links.append((value, False))
            elif (tag, name) in _LOADED:
                self.links.append((value, given.get("rel") not in _NOT_LOADED))
            elif name == "srcset":
                self.links += [(part.split()[0], True) for part in value.split(",") if part.strip()]


def problems(root: pathlib.Path) -> list[str]:
    """Return "page: what is wrong" for each broken link of the HTML files below `root`."""
    root = root.resolve()
    pages = {path: Page(path.read_text("utf-8")) for path in sorted(root.rglob("*.html"))}
    found = []
    for path, page in pages.items():
        name = path.relative_to(root)
        found += [f"{name}: two elements have the id {one}" for one in page.twice]
        found += [f"{name}: {why}" for link, loaded in page.links if (why := _wrong(root, path, pages, link, loaded))]
    return found


def _wrong(root: pathlib.Path, path: pathlib.Path, pages: dict[pathlib.Path, Page], link: str, loaded: bool) -> str:
    """Return what is wrong with one link of the page `path`, "" if nothing is."""
    parts = urllib.parse.urlsplit(link)
    if parts.scheme in ("data", "mailto", "javascript"):
        return f"{link}: scripts belong to files" if parts.scheme == "javascript" else ""
    if parts.scheme or parts.netloc:
        if loaded:
            return f"{link} is loaded from elsewhere"
        formed = parts.scheme in ("http", "https") and _HOST.match(parts.netloc) and not re.search(r"\s", link)
        return "" if formed else f"{link} is no well-formed address"
    target = (path.parent / urllib.parse.unquote(parts.path)).resolve() if parts.path else path
    if target.is_dir():
        target /= "index.html"
    if not target.is_relative_to(root) or not target.is_file():
        return f"{link}: no such file"
    fragment = urllib.parse.unquote(parts.fragment)
    if fragment and target in pages and fragment not in pages[target].anchors:
        return f"{link}: no such heading or anchor"
    return ""


def main() -> int:
    found = problems(pathlib.Path(sys.argv[1]))
    for line in found:
        print(f"FAILED: {line}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
