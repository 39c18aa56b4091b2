# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The pages of the site and their order: which file of the repository is a page, and where links between them lead."""

from __future__ import annotations

import dataclasses
import os
import pathlib
import re
import subprocess
import typing as t

#: Code in which a link is no link, the text of an image, or where a link or an image leads.
_LINK = re.compile(
    r"^ *(?P<fence>`{3,}).*?^ *(?P=fence)|(?<!`)(?P<code>`+)(?!`).+?(?<!`)(?P=code)(?!`)"
    r"|(?P<image>!\[[^\]]*)(?=\]\()|(?<=\]\()(?P<link>[^)\s]+)(?=\))",
    re.DOTALL | re.MULTILINE,
)
IMAGES = (".svg", ".png", ".gif", ".jpg", ".webp")
#: Folders of the site whose pages are generated.
PLUGINS, PLAYBOOKS, ROLES, FILES = "plugins", "playbooks/index.md", "roles/index.md", "files"
CALICOCTL = "bin/calicoctl.md"


class SiteError(Exception):
    """A reason why the site cannot be built."""


@dataclasses.dataclass(frozen=True)
class Section:
    """One part of the navigation: the pages of `folder`, those of `first` before all others, and then `more`.

    `first` names pages without their suffix, and `more` pages or whole folders. A page that does not exist is left out.
    """

    caption: str
    folder: str
    first: tuple[str, ...] = ()
    more: tuple[str, ...] = ()

    def pages(self, known: t.Collection[str]) -> list[str]:
        """Return the section's pages out of `known`, in their order."""
        mine = [page for page in known if os.path.dirname(page) == self.folder]
        wanted = [f"{self.folder}/{name}.md" for name in self.first]
        rest = sorted(set(mine) - set(wanted))
        more = [page for part in self.more for page in sorted(known) if page == part or page.startswith(f"{part}/")]
        return [page for page in (*wanted, *rest, *more) if page in known]


SECTIONS = (
    Section("Start here", "docs", ("README", "troubleshooting", "faq", "glossary")),
    Section("Tutorials", "docs/tutorials", ("getting-started",)),
    Section(
        "How-to guides",
        "docs/how-to",
        (
            *(
                "adding-and-removing-nodes",
                "switching-modes",
                "switching-topology",
                "ipv6",
                "policy",
                "live-policy",
                "resource-files",
            ),
            *("monitoring", "runbook"),
            *("podman", "docker", "containerd", "systemd", "ports"),
            *("datastore", "etcd", "large-fleets", "upgrading"),
        ),
    ),
    Section(
        "Reference",
        "docs/reference",
        ("variables", "validate", "calicoctl"),
        more=("inventories/README.md", PLAYBOOKS, ROLES, f"{PLUGINS}/index.md", CALICOCTL, "CHANGELOG.rst"),
    ),
    Section("Explanation", "docs/explanation", ("how-it-works", "security", "scaling")),
    Section("Contributing", "docs/contributing", ("architecture",), more=("CONTRIBUTING.md", "tests")),
)


class Repository:
    """The files that git knows or would take, and the pages among them.

    `pages` has the paths of all pages, relative to the root, generated ones included. `shown` collects the other files
    to which pages link: each has to become a page below FILES.
    """

    def __init__(self, root: pathlib.Path, generated: t.Iterable[str] = ()):
        """Read the names of the files below `root`. `generated` are the pages that are no files of the repository."""
        self.root = root
        command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        listed = subprocess.run(command, cwd=root, stdout=subprocess.PIPE, check=True).stdout.decode()
        self.files = sorted({name for name in listed.split("\0") if name and (root / name).is_file()})
        self.pages = [name for name in self.files if is_page(name)] + list(generated)
        self.shown: set[str] = set()

    def sections(self) -> list[tuple[str, list[str]]]:
        """Return (caption, pages) of each section that has pages. Raise SiteError if a page is in no section."""
        found = [(section.caption, section.pages(self.pages)) for section in SECTIONS]
        placed = {page for _caption, pages in found for page in pages} | {"README.md"}
        placed |= {page for page in self.pages if page.startswith("roles/")}  # below ROLES
        missed = sorted(set(self.pages) - placed)
        if missed:
            raise SiteError(
                f"In no section of the site: {', '.join(missed)}. Move the page to a folder of SECTIONS, or name the "
                "folder there (docs/site/pages.py)."
            )
        return [(caption, pages) for caption, pages in found if pages]

    def relinked(self, page: str, text: str) -> str:
        """Return a page's Markdown `text` with its links led to pages of the site; code stays as it is.

        Links to images, to other sites, within the page and to nothing stay, too: Sphinx reports the latter. The text
        of an image becomes one line, because myst-parser joins its lines without a blank.
        """

        def led(match: re.Match[str]) -> str:
            link = match["link"]
            if match["image"]:
                return " ".join(match["image"].split("\n"))
            if link is None or "://" in link or link.startswith(("#", "mailto:")):
                return match[0]
            path, _mark, anchor = link.partition("#")
            target = self.page_of(os.path.normpath(os.path.join(os.path.dirname(page), path)))
            if target is None:
                return match[0]
            target, _mark, own = target.partition("#")
            anchor = anchor or own
            return os.path.relpath(target, os.path.dirname(page) or ".") + (f"#{anchor}" if anchor else "")

        return _LINK.sub(led, text)

    def page_of(self, path: str) -> t.Optional[str]:
        """Return the page that shows the file or folder `path`, with an anchor if it is a part of a page, or None."""
        folder, name = os.path.split(path)
        inside = [file for file in self.files if file.startswith(f"{path}/") and not file.endswith(IMAGES)]
        if path == "README.md":
            return "index.md"
        if path.endswith(IMAGES):
            return None
        if path in self.pages:
            return path
        if folder == "playbooks" and path in self.files:
            return f"{PLAYBOOKS}#{name.replace('.', '')}"
        if f"{path}.md" == CALICOCTL:
            return CALICOCTL
        if folder == "plugins/modules" and path in self.files:
            return f"{PLUGINS}/{name[:-3]}_module.rst"
        if f"{path}/README.md" in self.pages:
            return f"{path}/README.md"
        if f"{path}/index.md" in self.pages:
            return f"{path}/index.md"
        if path in self.files or inside:
            self.shown.update(inside or [path])
            return f"{FILES}/{path}/index.md" if inside else f"{FILES}/{path}.md"
        return None


def is_page(name: str) -> bool:
    """Return whether the file `name` is a page of the site: Markdown, or the changelog."""
    return name == "CHANGELOG.rst" or (name.endswith(".md") and not name.startswith(("docs/site/", "changelogs/")))
