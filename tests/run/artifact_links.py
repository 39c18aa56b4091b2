# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The check that each relative link in the artifact's pages leads to a file of the artifact, and to a heading there.

Usage: artifact_links.py FOLDER, the installed collection. The exit status is 1 if a link is broken.
"""

from __future__ import annotations

import pathlib
import re
import sys

_FENCE = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
_CODE = re.compile(r"`[^`\n]*`")
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_ANCHOR = re.compile(r'<a id="([^"]+)">')
_NAMED = re.compile(r"\[([^\]]*)\]\([^)]*\)")  # in a heading's name GitHub puts the link's text
_HEADING = re.compile(r"^#+ +(.+?) *$", re.MULTILINE)


def links(text: str) -> list[str]:
    """Return the targets of a page's links, without those in code."""
    return _LINK.findall(_CODE.sub("", _FENCE.sub("", text)))


def anchors(text: str) -> set[str]:
    """Return the names of a page's headings and of its anchors, <a id="...">.

    GitHub and Galaxy make the name of a heading: lower case, no punctuation, hyphens for blanks.
    """
    prose = _FENCE.sub("", text)
    headings = (_NAMED.sub(r"\1", heading).lower() for heading in _HEADING.findall(prose))
    names = {re.sub(r"[^\w\- ]", "", heading).replace(" ", "-") for heading in headings}
    return names | set(_ANCHOR.findall(prose))


def broken(root: pathlib.Path) -> list[str]:
    """Return "page: target" for each relative link below `root` that leads to no file, folder or heading below it."""
    found = []
    for page in sorted(root.rglob("*.md")):
        for link in links(page.read_text("utf-8")):
            if "://" in link or link.startswith("mailto:"):
                continue
            path, dummy, anchor = link.partition("#")
            target = (page.parent / path).resolve() if path else page
            inside = target.exists() and target.is_relative_to(root.resolve())
            if not inside or (anchor and anchor not in anchors(target.read_text("utf-8"))):
                found.append(f"{page.relative_to(root)}: {link}")
    return found


def main() -> int:
    found = broken(pathlib.Path(sys.argv[1]))
    for line in found:
        print(f"FAILED: no such file or heading in the artifact: {line}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
