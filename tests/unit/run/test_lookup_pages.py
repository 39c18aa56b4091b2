# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The pages in which readers look something up: docs/troubleshooting.md, docs/glossary.md and docs/faq.md."""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.run.artifact_links import anchors
from tests.unit.architecture.trees import tree_of

ROOT = Path(__file__).resolve().parents[3]
DOCS = ROOT / "docs"
TROUBLESHOOTING = (DOCS / "troubleshooting.md").read_text("utf-8")
GLOSSARY = (DOCS / "glossary.md").read_text("utf-8")
PAGES = ("troubleshooting.md", "glossary.md", "faq.md", "how-to/migrate-from-calico.md")
#: The place of a value in a message.
GAP = "\0"
#: A message needs so many characters that are always the same.
LEAST = 8


def literals(path: Path) -> Iterator[str]:
    """Yield the texts of a file: the literals of Python with GAP for values, or else the whole text with blanks once.

    Docstrings are left out.
    """
    if path.suffix != ".py":
        yield re.sub(r"\s+", " ", re.sub(r"\{\{.*?\}\}", GAP, path.read_text("utf-8"), flags=re.DOTALL))
        return
    tree = tree_of(path)
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if id(node) in docstrings:
            continue
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
        elif isinstance(node, ast.JoinedStr):
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else GAP for part in node.values)


def printed() -> dict[str, list[str]]:
    """Return {path of a file of plugins/, roles/ or playbooks/: its texts}."""
    found = {}
    for folder in ("plugins", "roles", "playbooks"):
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in (".py", ".yml") or path.parent.name in ("cni", "netavark"):
                found[str(path.relative_to(ROOT))] = list(literals(path)) if path.is_file() else []
    return found


def is_printed(message: str, texts: Mapping[str, list[str]]) -> bool:
    """Return whether one file has all parts of a message, which stand between `...`."""
    parts = [part.strip() for part in message.split("...") if part.strip()]
    return any(all(any(part in text for text in found) for part in parts) for found in texts.values())


def messages(page: str) -> list[str]:
    """Return the messages of the index by message, in its order."""
    return re.findall(r"^\| `([^`]+)` \|", page.partition("## By message")[2], re.MULTILINE)


@pytest.fixture(scope="module")
def texts() -> dict[str, list[str]]:
    return printed()


def key(text: str) -> str:
    """Return what a reader sorts a message or a term by."""
    return text.lower().lstrip("`. ")


def test_every_message_of_the_index_is_printed(texts: Mapping[str, list[str]]) -> None:
    found = messages(TROUBLESHOOTING)
    assert len(found) >= 60
    assert [message for message in found if not is_printed(message, texts)] == []
    assert [message for message in found if len(message.replace("...", "")) < LEAST] == []


def test_messages_are_sorted() -> None:
    found = [key(message) for message in messages(TROUBLESHOOTING)]
    assert [(one, two) for one, two in itertools.pairwise(found) if one >= two] == []


def test_a_message_that_nothing_prints_is_found() -> None:
    texts = {"a.py": [f"the peer refuses AS {GAP} of this node: ", "Correct it."], "b.py": ["the host has none."]}
    assert is_printed("the peer refuses AS ... of this node", texts)
    assert is_printed("the peer refuses AS ... Correct it.", texts)
    assert not is_printed("the peer refuses AS 64512", texts)
    assert not is_printed("the peer refuses AS ... the host has none.", texts)


def test_terms_are_sorted_and_have_an_anchor() -> None:
    terms = re.findall(r'^<a id="([a-z0-9-]+)"></a>\n\*\*(.+?)\.\*\* ', GLOSSARY, re.MULTILINE)
    assert len(terms) == GLOSSARY.count("\n**") >= 50
    names = [term.lower().replace("_", "-") for _anchor, term in terms]
    assert names == sorted(names, key=lambda name: name.replace(" ", "-"))
    wanted = {"/32": "slash-32", "vxlan.calico": "vxlan-calico"}
    assert [anchor for anchor, _term in terms] == [wanted.get(name, name.replace(" ", "-")) for name in names]


@pytest.mark.parametrize("name", PAGES)
def test_links_lead_somewhere(name: str) -> None:
    page = DOCS / name
    text = re.sub(r"^```.*?^```", "", page.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
    broken = []
    for path, anchor in re.findall(r"\]\((?!https?:)([^)\s#]*)(?:#([^)\s]*))?\)", text):
        target = page.parent / path if path else page
        if not target.exists() or (anchor and anchor not in anchors(target.read_text("utf-8"))):
            broken.append(f"{path}#{anchor}")
    assert broken == []
