# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Builds the site of the documentation: build.py [FOLDER], by default .build/site. The pages are in FOLDER/html.

It gathers the repository's pages and those that reference.py and antsibull-docs write in FOLDER/source, in the
repository's own folders, so that links between them stay as they are. Sphinx makes HTML of them and fails on a warning;
links.py then checks the HTML.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import pathlib
import re
import shutil
import subprocess
import sys

import yaml

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(HERE))

import links  # noqa: E402
import reference  # noqa: E402
from pages import CALICOCTL, FILES, IMAGES, PLAYBOOKS, PLUGINS, ROLES, Repository, SiteError  # noqa: E402

COLLECTION = "baremetal.host_routing"
#: Pages of Ansible's documentation, by the labels with which pages of antsibull-docs refer to them
_ANSIBLE = "https://docs.ansible.com/projects/ansible/latest"
ANSIBLE = {
    "action_plugins": f"{_ANSIBLE}/plugins/action.html",
    "common_return_values": f"{_ANSIBLE}/reference_appendices/common_return_values.html",
}
_CARDS = 4  # the fewest columns of a table whose rows become cards on a phone
_BREAKS = re.compile(r"(?<=\w)_(?=\w)")


def run(*command: str) -> None:
    """Run a program of this Python's folder. Raise SiteError with its output if it fails."""
    folder = pathlib.Path(sys.executable).parent
    env = {
        **os.environ,
        "PATH": f"{folder}:{os.environ.get('PATH', '/usr/bin:/bin')}",
        "LC_ALL": "C.UTF-8",
        "ANSIBLE_COLLECTIONS_PATH": str(ROOT / ".build" / "collections"),
        "ANSIBLE_HOME": str(ROOT / ".build" / "ansible"),
        "NO_COLOR": "1",
    }
    done = subprocess.run(
        command, env=env, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True, errors="replace", check=False,
    )  # fmt: skip
    if done.returncode:
        raise SiteError(f"{command[0]} failed:\n{done.stdout.rstrip()}")


def plugin_pages(folder: pathlib.Path) -> dict[str, str]:
    """Return {name of the page: reStructuredText} of all modules, plugins and roles, written to `folder` first.

    Pages that are there stay if nothing that they are made from has changed: antsibull-docs takes most of the time.
    """
    made_from = [path for part in ("plugins", "roles", "meta") for path in sorted((ROOT / part).rglob("*.[py][ym]*"))]
    digest = hashlib.sha256(importlib.metadata.version("antsibull-docs").encode())
    for path in (ROOT / "galaxy.yml", *made_from):
        if path.suffix != ".pyc":
            digest.update(path.read_bytes())
    stamp = folder / "stamp"
    if not stamp.is_file() or stamp.read_text() != digest.hexdigest():
        folder.mkdir(parents=True, exist_ok=True)
        run(
            *("antsibull-docs", "collection", "--use-current", "--squash-hierarchy", "--no-indexes"),
            *("--no-breadcrumbs", "--fail-on-error", "--cleanup", "everything", "--dest-dir", str(folder), COLLECTION),
        )
        stamp.write_text(digest.hexdigest())
    found = {path.name: path.read_text("utf-8") for path in sorted(folder.glob("*_*.rst"))}
    found.pop("environment_variables.rst", None)
    return {name: adapted(text) for name, text in found.items()}


def adapted(text: str) -> str:
    """Return a page of antsibull-docs for this site: in the navigation, with a short title, and links to Ansible's."""
    text = re.sub(r"^:orphan:\n", "", text, flags=re.MULTILINE)
    text = re.sub(rf"^{re.escape(COLLECTION)}\.(?=.*\n\++$)", "", without_contents(text), flags=re.MULTILINE)
    return re.sub(
        r":ref:`(?P<text>[^`<]+?) *<(?P<label>\w+)>`",
        lambda found: f"`{found['text']} <{ANSIBLE[found['label']]}>`__" if found["label"] in ANSIBLE else found[0],
        text,
    )


def without_contents(text: str) -> str:
    """Return reStructuredText without its tables of contents: the theme shows one beside each page."""
    return re.sub(r"^\.\. contents::.*\n(?: +:.*\n)*", "", text, flags=re.MULTILINE)


def home(readme: str, sections: list[tuple[str, list[str]]]) -> str:
    """Return the home page: the README, and the navigation of all sections."""
    for caption, pages in sections:
        entries = "\n".join(page.rpartition(".")[0] for page in pages)
        readme += f"\n```{{toctree}}\n:caption: {caption}\n:hidden:\n:maxdepth: 2\n\n{entries}\n```\n"
    return readme


def sources(work: pathlib.Path) -> dict[str, str]:
    """Return {path: text} of all pages of the site. Raise SiteError if one is in no section, or cannot be written."""
    generated = {PLAYBOOKS: reference.playbooks(ROOT), CALICOCTL: reference.calicoctl(ROOT)}
    plugins = plugin_pages(work / "antsibull")
    generated[f"{PLUGINS}/index.md"] = reference.plugins(plugins)
    generated[ROLES] = reference.roles(ROOT, plugins, PLUGINS)
    repository = Repository(ROOT, generated)
    made = {**generated, **{f"{PLUGINS}/{name}": text for name, text in plugins.items()}}
    for page in repository.pages:
        if page not in generated and page != "README.md":
            text = (ROOT / page).read_text("utf-8")
            made[page] = repository.relinked(page, text) if page.endswith(".md") else without_contents(text)
    for name in (name for name in plugins if name.endswith("_role.rst")):
        role = f"roles/{name.removesuffix('_role.rst')}/README.md"
        made[role] += f"\n[All variables of this role, with their defaults](../../{PLUGINS}/{name})\n"
    readme = (ROOT / "README.md").read_text("utf-8")
    made["index.md"] = home(repository.relinked("README.md", readme), repository.sections())
    url = yaml.safe_load((ROOT / "galaxy.yml").read_text("utf-8"))["repository"]
    for name in sorted(repository.shown):
        made[f"{FILES}/{name}.md"] = reference.file_page(name, (ROOT / name).read_text("utf-8"), url)
    for folder in sorted({os.path.dirname(name) for name in repository.shown}):
        inside = [name for name in sorted(repository.shown) if name.startswith(f"{folder}/")]
        made[f"{FILES}/{folder}/index.md"] = reference.folder_page(folder, inside)
    return made


def write(folder: pathlib.Path, made: dict[str, str]) -> None:
    """Make `folder` hold the files `made` and no other, without touching those that are right."""
    for path in sorted(folder.rglob("*"), reverse=True):
        if path.is_dir() and not any(path.iterdir()):
            path.rmdir()
        elif path.is_file() and str(path.relative_to(folder)) not in made:
            path.unlink()
    for name, text in made.items():
        path = folder / name
        if not path.is_file() or path.read_text("utf-8") != text:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, "utf-8")


def breakable(page: str) -> str:
    """Return HTML whose tables may break a long name after an underscore, also in code, instead of growing wide."""

    def cell(match: re.Match[str]) -> str:
        coded = re.sub(
            r'(?<=<span class="pre">)\w+_\w+(?=</span>)',
            lambda name: name[0].replace("_", '_</span><wbr><span class="pre">'),
            match[0],
        )
        # Names in code have their breaks by then.
        return re.sub(r"(?<=>)[^<]*_[^<]*(?=<(?!/span><wbr>))", lambda text: _BREAKS.sub(r"\g<0><wbr>", text[0]), coded)

    return re.sub(r"<td\b[^>]*>(?:(?!<pre|</td>).)*</td>", cell, page, flags=re.DOTALL)


def stackable(page: str) -> str:
    """Return HTML whose tables of four columns or more know each cell's heading: a phone shows their rows as cards."""

    def table(match: re.Match[str]) -> str:
        titles = [re.sub("<[^>]+>", "", title).strip() for title in re.findall(r"<th\b.*?</th>", match[0], re.DOTALL)]
        if len(titles) < _CARDS or "colspan" in match[0] or "rowspan" in match[0]:
            return match[0]

        def row(found: re.Match[str]) -> str:
            labels = iter(titles)
            return re.sub(r"<td\b", lambda _cell: f'<td data-label="{next(labels, "")}"', found[0])

        rows = re.sub(r"<tr\b.*?</tr>", row, match[0], flags=re.DOTALL)
        return rows.replace('<table class="docutils', '<table class="cards docutils', 1)

    return re.sub(r'<table class="docutils.*?</table>', table, page, flags=re.DOTALL)


def unbroken_options(page: str) -> str:
    """Return HTML in which a browser does not break an option in code, such as -e, behind its first hyphen."""
    return re.sub(r'<span class="pre">(?=-{1,2}\w[^<]{0,24}</span>)', '<span class="pre option">', page)


def build(work: pathlib.Path) -> pathlib.Path:
    """Build the site below `work` and return the folder of its HTML. Raise SiteError if anything is wrong with it."""
    source, html = work / "source", work / "html"
    write(source, sources(work))
    images = [name for name in Repository(ROOT).files if name.endswith(IMAGES) and not name.startswith("tests/")]
    # Sphinx copies images of Markdown by itself, and does not know of those of HTML in Markdown.
    for folder in (source, html):
        for name in images:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)
    run(
        *(sys.executable, "-m", "sphinx", "-b", "html", "-q", "-W", "--keep-going", "-j", "auto"),
        *("-c", str(HERE), "-d", str(work / "doctrees"), str(source), str(html)),
    )
    for path in html.rglob("*.html"):
        page = path.read_text("utf-8")
        if "<wbr>" not in page:
            path.write_text(unbroken_options(stackable(breakable(page))), "utf-8")
    found = links.problems(html)
    if found:
        raise SiteError("Broken links:\n" + "\n".join(found))
    return html


def main() -> int:
    work = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / ".build" / "site").resolve()
    try:
        html = build(work)
    except SiteError as error:
        print(f"docs-site: {error}", file=sys.stderr)
        return 1
    print(f"docs-site: {sum(1 for _path in html.rglob('*.html'))} pages. Open {html / 'index.html'} in a browser.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
