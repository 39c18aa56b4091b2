# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What docs/site makes of pages, links and playbooks, and what it refuses."""

from __future__ import annotations

import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "docs" / "site"))

import build  # noqa: E402
import links  # noqa: E402
import pages  # noqa: E402
import reference  # noqa: E402


@pytest.fixture
def root(tmp_path: pathlib.Path) -> pathlib.Path:
    """A repository with some pages and files, all of them new to git."""
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    for name in (
        *("README.md", "CONTRIBUTING.md", "CHANGELOG.rst", "docs/faq.md", "docs/reference/b.md", "docs/reference/a.md"),
        *("docs/reference/validate.md", "docs/how-to/new.md", "roles/web/README.md", "playbooks/site.yml"),
        *(
            "inventories/one/hosts.yml",
            "inventories/one/group_vars/all.yml",
            "plugins/modules/probe.py",
            "bin/calicoctl",
            "docs/images/map.svg",
        ),
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    return tmp_path


def test_pages_are_in_the_section_of_their_folder_in_the_wanted_order(root: pathlib.Path) -> None:
    assert pages.Repository(root, [pages.CALICOCTL]).sections() == [
        ("Start here", ["docs/faq.md"]),
        ("How-to guides", ["docs/how-to/new.md"]),
        (
            "Reference",
            [
                "docs/reference/validate.md",
                "docs/reference/a.md",
                "docs/reference/b.md",
                pages.CALICOCTL,
                "CHANGELOG.rst",
            ],
        ),
        ("Contributing", ["CONTRIBUTING.md"]),
    ]


@pytest.mark.parametrize("page", ["docs/stories/one.md", "bench/README.md", "docs/how-to/more/deep.md"])
def test_a_page_in_no_section_is_refused(root: pathlib.Path, page: str) -> None:
    (root / page).parent.mkdir(parents=True, exist_ok=True)
    (root / page).write_text("# A page")
    with pytest.raises(pages.SiteError) as refused:
        pages.Repository(root).sections()
    assert str(refused.value) == (
        f"In no section of the site: {page}. Move the page to a folder of SECTIONS, or name the folder there "
        "(docs/site/pages.py)."
    )


@pytest.mark.parametrize(
    ("link", "led"),
    [
        ("validate.md#rules", "validate.md#rules"),
        ("../../README.md", "../../index.md"),
        ("../../CHANGELOG.rst", "../../CHANGELOG.rst"),
        ("../../roles/web", "../../roles/web/README.md"),
        ("../../playbooks/site.yml", "../../playbooks/index.md#siteyml"),
        ("../../plugins/modules/probe.py", "../../plugins/probe_module.rst"),
        ("../../bin/calicoctl", "../../bin/calicoctl.md"),
        ("../../inventories/one/hosts.yml", "../../files/inventories/one/hosts.yml.md"),
        ("../../inventories/one/", "../../files/inventories/one/index.md"),
        ("../images/map.svg", "../images/map.svg"),
        ("missing.md", "missing.md"),
        ("#rules", "#rules"),
        ("https://example.org/x", "https://example.org/x"),
    ],
)
def test_links_lead_to_pages_of_the_site(root: pathlib.Path, link: str, led: str) -> None:
    repository = pages.Repository(root, [pages.CALICOCTL])
    assert repository.relinked("docs/reference/a.md", f"A [link]({link}).") == f"A [link]({led})."


def test_files_that_pages_link_to_are_shown(root: pathlib.Path) -> None:
    repository = pages.Repository(root)
    repository.relinked("docs/reference/a.md", "[one](../../inventories/one) [role](../../roles/web/README.md)")
    assert repository.shown == {"inventories/one/hosts.yml", "inventories/one/group_vars/all.yml"}


def test_links_in_code_stay(root: pathlib.Path) -> None:
    code = "```text\n[a](../../README.md)\n```\n\n  ````\n  [b](../../README.md)\n  ````\n\n`[c](../../README.md)`\n"
    assert pages.Repository(root).relinked("docs/reference/a.md", code) == code


def test_the_text_of_an_image_is_one_line(root: pathlib.Path) -> None:
    made = pages.Repository(root).relinked("README.md", "![Nodes\nand routers.](docs/images/map.svg)\n")
    assert made == "![Nodes and routers.](docs/images/map.svg)\n"


def test_broken_links_are_found(tmp_path: pathlib.Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "index.html").write_text('<h1 id="top">Top</h1><a name="old"></a>')
    (tmp_path / "a.html").write_text(
        '<p id="x"></p><p id="x"></p><a href="sub/#top">right</a><a href="#x">right</a>'
        '<a href="sub/index.html#old">right</a><img src="data:image/png;base64,">'
        '<a href="https://example.org/page">right</a><a href="mailto:a@example.org">right</a>'
        '<a href="missing.html">1</a><a href="sub/#none">2</a><a href="#none">3</a><a href="../outside.html">4</a>'
        '<a href="https://">5</a><a href="htps://example.org">6</a><script src="//cdn.example.org/x.js"></script>'
        '<link rel="stylesheet" href="https://example.org/a.css"><img srcset="one.png 1x, sub/index.html 2x">'
        '<a href="javascript:x()">7</a>'
    )
    assert links.problems(tmp_path) == [
        "a.html: two elements have the id x",
        "a.html: missing.html: no such file",
        "a.html: sub/#none: no such heading or anchor",
        "a.html: #none: no such heading or anchor",
        "a.html: ../outside.html: no such file",
        "a.html: https:// is no well-formed address",
        "a.html: htps://example.org is no well-formed address",
        "a.html: //cdn.example.org/x.js is loaded from elsewhere",
        "a.html: https://example.org/a.css is loaded from elsewhere",
        "a.html: one.png: no such file",
        "a.html: javascript:x(): scripts belong to files",
    ]


def test_commands_of_a_playbook() -> None:
    comment = [
        "ansible-playbook playbooks/a.yml -i inventories/prod   shows it: sessions,",
        "routes. -e output=json prints JSON.",
        "ansible-playbook playbooks/a.yml -i inventories/prod -e to=/backup/etcd.db",
        "Writes a file. -e bump=0 keeps it.",
        "ansible-playbook playbooks/a.yml -e strict=true  fails",
        "A sentence of its own.",
        "It goes on.",
    ]
    assert [(one.command, reference.sentence(one.about)) for one in reference.examples(comment)] == [
        (
            "ansible-playbook playbooks/a.yml -i inventories/prod",
            "Shows it: sessions, routes. `-e output=json` prints JSON.",
        ),
        (
            "ansible-playbook playbooks/a.yml -i inventories/prod -e to=/backup/etcd.db",
            "Writes a file. `-e bump=0` keeps it.",
        ),
        ("ansible-playbook playbooks/a.yml -e strict=true", "Fails."),
        ("", "A sentence of its own. It goes on."),
    ]


def test_long_names_break_in_tables_alone() -> None:
    page = (
        '<p>calico_ip_pools</p><td title="a_b"><p>calico_ip <code><span class="pre">a_b</span></code></p></td>'
        "<td><pre>a_b</pre></td>"
    )
    made = build.breakable(page)
    assert made == (
        '<p>calico_ip_pools</p><td title="a_b"><p>calico_<wbr>ip <code><span class="pre">a_</span><wbr>'
        '<span class="pre">b</span></code></p></td><td><pre>a_b</pre></td>'
    )
